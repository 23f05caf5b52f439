"""A request that is being answered, as what answers it sees it: who asks, and how they are told of progress."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from hermes.core.json_rpc import INVALID_PARAMS, RpcError
from hermes.mcp.revisions import MISSING_CAPABILITY, STATELESS_VERSION

ParamsT = TypeVar("ParamsT")
Result = Mapping[str, object]
_NO_PARAMS = Raw(b"{}")


class CallChannel(Protocol):
    """The way to who has sent a request, while it is answered."""

    def notify(self, method: str, params: Result) -> None:
        """Send a notification that belongs to the request; it may be lost where nobody reads."""
        ...

    async def request(self, method: str, params: object, seconds: float | None) -> Raw:
        """Ask the client; return its result. Raises RpcError, TimeoutError."""
        ...


class McpCall(Struct, frozen=True, kw_only=True):
    """One request: its revision, what its client can do, and the way to it."""

    version: str
    capabilities: Mapping[str, object]
    channel: CallChannel
    log_level: str = ""
    """From which level on the client wants log messages; empty: none."""
    progress_token: int | str | None = None

    @property
    def is_stateless(self) -> bool:
        """Whether it is of the revision without sessions."""
        return self.version == STATELESS_VERSION

    def report_progress(self, progress: float, total: float | None, message: str) -> None:
        """Tell the client how far the call is, where it has asked for that."""
        if self.progress_token is None:
            return
        params: dict[str, object] = {"progressToken": self.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self.channel.notify("notifications/progress", params)

    def require_capability(self, name: str) -> None:
        """Raise RpcError where the client has not said that it can do this."""
        if name not in self.capabilities:
            raise RpcError(
                MISSING_CAPABILITY, f"This needs the client's capability {name}.", {"requiredCapabilities": {name: {}}}
            )


def decode_params(params: Raw, kind: type[ParamsT]) -> ParamsT:
    """Return the parameters of a request. Raises RpcError that says what is wrong with them."""
    try:
        return msgspec.json.decode(bytes(params) or _NO_PARAMS, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"The parameters cannot be used: {error}") from None
