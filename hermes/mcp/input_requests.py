"""Requests that a server of the stateless revision answers by asking back: the request is sent again, with the answers.

What a server wants to be given back (`requestState`) is its own: it is neither read nor changed, and goes into nothing
but that request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from hermes.core.errors import ToolError
from hermes.tools.session import Asker

_MAX_ROUNDS = 10
_MAX_REQUESTS = 10
"""The most requests of one round."""
_MAX_WAITS = 100
_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.05, 2.0
"""Seconds before a request is sent again of which the server wants to know nothing."""


class _InputRequest(Struct):
    method: str
    params: Raw = Raw(b"{}")


class _Result(Struct):
    type: str = field(default="complete", name="resultType")
    requests: dict[str, _InputRequest] | None = field(default=None, name="inputRequests")
    state: str | UnsetType = field(default=UNSET, name="requestState")


class _Visits(Struct):
    elicitations: list[Raw] = []


async def complete_request(
    send: Callable[[Mapping[str, object]], Awaitable[Raw]], asker: Asker | None, server: str, *, is_stateless: bool
) -> Raw:
    """Send a request until its result is there. `send` takes what is sent beside the request's own parameters.

    Raises what `send` raises, and `ToolError` when the server asks for what is not supported, or does not stop asking.
    """
    result = await send({})
    rounds = waits = 0
    while is_stateless and (needed := _find_needed(result)) is not None:
        rounds, waits = (rounds + 1, 0) if needed.requests else (rounds, waits + 1)
        if rounds > _MAX_ROUNDS or waits > _MAX_WAITS:
            raise ToolError("it asks again and again")
        again: dict[str, object] = {}
        if needed.requests:
            again["inputResponses"] = await _answer_all(needed.requests, asker, server)
        else:
            await asyncio.sleep(min(_WAIT_SECONDS * 2 ** min(waits, 8), _MAX_WAIT_SECONDS))
        if needed.state is not UNSET:
            again["requestState"] = needed.state
        result = await send(again)
    return result


async def ask_listed_visits(asker: Asker | None, server: str, data: bytes) -> bool:
    """Ask the person to open the addresses that an error of the revision 2025-11-25 lists; return whether they did."""
    from hermes.mcp.elicitation import answer_elicitation

    try:
        visits = msgspec.json.decode(data, type=_Visits).elicitations
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    if not 0 < len(visits) <= _MAX_REQUESTS:
        return False
    for one in visits:
        answer = await answer_elicitation(asker, server, one)
        if answer.get("action") != "accept":
            return False
    return True


def _find_needed(result: Raw) -> _Result | None:
    """Return what the server wants to know; None for a result. Raises `ToolError` for a result of an unknown type."""
    try:
        found = msgspec.json.decode(result, type=_Result)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if found.type == "complete":
        return None
    if found.type != "input_required" or not (found.requests or found.state is not UNSET):
        raise ToolError(f"it answered with a result of a kind that is not known: {found.type[:40]!r}")
    return found


async def _answer_all(
    requests: Mapping[str, _InputRequest], asker: Asker | None, server: str
) -> Mapping[str, Mapping[str, object]]:
    from hermes.mcp.elicitation import answer_elicitation

    unknown = next((one.method for one in requests.values() if one.method != "elicitation/create"), "")
    if unknown or len(requests) > _MAX_REQUESTS:
        raise ToolError(f"it asks for {unknown[:40] or 'too much'}, which is not supported")
    return {key: await answer_elicitation(asker, server, one.params) for key, one in requests.items()}
