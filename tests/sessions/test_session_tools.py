"""What is made once for all sessions is the same for those alone for whom it is the same."""

from typing import Annotated

from hermes.core.events import ApprovalAsked, Event, Notice
from hermes.core.outcomes import AnswerScope
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from hermes.tools.schema import parameters_from_function
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, tool


def bound(note: str, default: int) -> Tool:
    @tool("test")
    async def count(ctx: ToolContext, most: Annotated[int, note] = default) -> str:
        """Count."""
        return f"{note} {most}"

    return count


def test_the_parameters_of_a_bound_tool_are_made_once() -> None:
    assert bound("how many", 3).parameters is bound("how many", 3).parameters
    assert bound("how many", 3).function is not bound("how many", 3).function


def test_another_signature_is_another() -> None:
    schemas = {bound(note, most).schema.parameters for note in ("how many", "how much") for most in (3, 4)}
    assert len(schemas) == 4


def test_what_cannot_be_compared_is_made_anew() -> None:
    async def odd(ctx: ToolContext, names: Annotated[list[str], ["not", "hashable"]] = []) -> str:  # noqa: B006
        return "".join(names)

    assert parameters_from_function(odd) is not parameters_from_function(odd)
    assert parameters_from_function(odd).names == ("names",)


async def test_an_answer_that_cannot_be_kept_holds_for_the_session_and_is_told() -> None:
    push = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    replies: list[Reply] = [push, Say("Tried."), push, Say("Tried again.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            config = home.hermes / "config.yaml"
            config.write_text(config.read_text() + "command_allowlist:\n  - one\ncommand_allowlist:\n  - two\n")
            before = config.read_text()
            (home.cwd / "old").mkdir()
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), trusted_folders=(str(home.cwd),))) as app:
                actor = await app.open_session()
                actor.approvals.can_ask = True
                told: list[Event] = []

                def answer(event: Event) -> None:
                    told.append(event)
                    if isinstance(event, ApprovalAsked):
                        actor.approvals.answer(event.approval_id, scope=AnswerScope.ALWAYS, by="person")

                actor.subscribe(answer)
                for _ in range(2):
                    await actor.post(InboundMessage(text="push", cwd=str(home.cwd)))
            assert config.read_text() == before
    assert len([one for one in told if isinstance(one, ApprovalAsked)]) == 1
    (line,) = [one.text for one in told if isinstance(one, Notice) and "could not be kept" in one.text]
    assert "holds until this session ends" in line and "Add by hand" in line
