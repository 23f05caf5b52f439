"""What answers for the agent, without a turn."""

import pytest
from msgspec import Raw

from hermes.core.encoding import to_json
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.json_rpc import RpcError
from hermes.mcp.revisions import STATELESS_VERSION
from hermes.mcp.serving.calls import McpCall, Result
from hermes.mcp_server.options import McpServeOptions
from hermes.mcp_server.questions import AgentQuestions


class Nowhere:
    """A client that is told nothing."""

    def notify(self, method: str, params: Result) -> None:
        raise AssertionError(method)

    async def request(self, method: str, params: object, seconds: float | None) -> Raw:
        raise AssertionError(method)


CALL = McpCall(version=STATELESS_VERSION, capabilities={}, channel=Nowhere())


def test_approvals_are_offered_where_a_person_has_a_token() -> None:
    for token, names in (("", ["ask"]), ("t" * 16, ["ask", "permissions_list_open", "permissions_respond"])):
        questions = AgentQuestions({}, McpServeOptions(asks=True, person_token=token))
        assert [one.name for one in questions.list_tools()] == names


async def test_no_token_counts_after_five_wrong_ones() -> None:
    token = "t" * 16
    questions = AgentQuestions({}, McpServeOptions(asks=True, person_token=token))
    (respond,) = [one for one in questions.list_tools() if one.name == "permissions_respond"]

    async def answer(given: str) -> Result:
        arguments = {"approval_id": "a", "answer": "once", "person_token": given}
        return await respond.answer(Raw(to_json(arguments)), CALL)

    with pytest.raises(NotFoundError):
        await answer(token)
    for _ in range(5):
        with pytest.raises(UsageError, match="not the person's token"):
            await answer("x" * 16)
    with pytest.raises(UsageError, match="Too many"):
        await answer(token)


def test_progress_goes_only_to_who_has_asked_for_it() -> None:
    CALL.report_progress(1, None, "one")
    with pytest.raises(RpcError):
        CALL.require_capability("sampling")
