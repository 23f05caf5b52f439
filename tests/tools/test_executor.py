"""Batches: order, side by side, gate, journal, faults, cancellation, large results."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated

import pytest

from hermes.core.errors import StoreError, ToolError
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Refused, ToolEnded, ToolStarted
from hermes.core.messages import ToolCallPart, ToolResultPart, ToolStatus
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.policy_gate import PolicyGate
from hermes.tools.registry import Toolbox
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, Redirect, tool
from tests.tools.tool_session import Journal, Person, Session


class Meeting:
    """Counts who is inside at once, and lets all out when enough have come."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.inside = self.most = 0
        self.order: list[str] = []
        self.full = asyncio.Event()
        self.somebody = asyncio.Event()

    async def join(self, name: str) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.order.append(name)
        self.somebody.set()
        if self.inside >= self.wanted:
            self.full.set()
        async with asyncio.timeout(60):
            await self.full.wait()
        self.inside -= 1


def toolbox(meeting: Meeting) -> Toolbox:
    @tool("test", parallel=Parallel.SAFE, repeatable=True)
    async def together(ctx: ToolContext, name: Annotated[str, "n"]) -> str:
        """Meet."""
        await meeting.join(name)
        return f"{name} was there"

    @tool("test")
    async def alone(ctx: ToolContext, name: Annotated[str, "n"]) -> str:
        """Do it alone."""
        meeting.order.append(name)
        await asyncio.sleep(0)
        assert meeting.inside == 0
        return name

    @tool("test", parallel=Parallel.PATHS, paths=lambda args: [PathUse(str(args["path"]), write=True)])
    async def change(ctx: ToolContext, path: Annotated[str, "p"]) -> str:
        """Change a path."""
        await meeting.join(path)
        return path

    @tool("test", parallel=Parallel.SAFE)
    async def fails(ctx: ToolContext, how: Annotated[str, "h"]) -> str:
        """Fail."""
        raise ToolError("cannot", "do it so") if how == "known" else ValueError("broken inside")

    @tool("test", parallel=Parallel.SAFE)
    async def talks(ctx: ToolContext, size: Annotated[int, "s"]) -> str:
        """Say much."""
        return "word " * (size // 5)

    @tool("test", redirect=lambda args: Redirect(name=str(args["to"]), arguments=str(args["with_"])))
    async def stands_for(ctx: ToolContext, to: Annotated[str, "t"], with_: Annotated[str, "w"]) -> str:
        """Stand for another."""
        raise AssertionError("never run itself")

    return Toolbox([together, alone, change, fails, talks, stands_for])


@pytest.fixture
def meeting() -> Meeting:
    return Meeting(1)


@pytest.fixture
def tools(session: Session, meeting: Meeting) -> Session:
    session.toolbox = toolbox(meeting)
    return session


async def test_eight_run_at_once_and_results_stand_in_call_order(tools: Session, meeting: Meeting) -> None:
    meeting.wanted = 8
    results = await tools.batch(*[("together", {"name": f"n{number}"}) for number in range(12)])
    assert meeting.most == 8
    assert [result.text for result in results] == [f"n{number} was there" for number in range(12)]
    assert [result.call_id for result in results] == [f"c{number}" for number in range(1, 13)]


async def test_intents_are_written_before_the_first_call_starts(tools: Session) -> None:
    await tools.batch(("together", {"name": "a"}), ("alone", {"name": "b"}))
    assert tools.journal.lines == ["intend c1 c2", "done c1", "done c2"]
    assert [(intent.tool, intent.repeatable) for intent in tools.journal.intents] == [
        ("together", True),
        ("alone", False),
    ]


async def test_a_serial_call_runs_alone_and_in_its_place(tools: Session, meeting: Meeting) -> None:
    meeting.full.set()
    await tools.batch(
        ("together", {"name": "a"}), ("alone", {"name": "b"}), ("together", {"name": "c"}), ("alone", {"name": "d"})
    )
    assert meeting.order == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("paths", "most"), [(["a", "b"], 2), (["a", "./a"], 1), (["d", "d/e"], 1), (["link/x", "d/x"], 1), (["d", "dd"], 2)]
)
async def test_writers_run_side_by_side_unless_their_paths_overlap(
    tools: Session, meeting: Meeting, paths: list[str], most: int
) -> None:
    (tools.cwd / "d").mkdir()
    (tools.cwd / "link").symlink_to("d")
    meeting.wanted = most
    await tools.batch(*[("change", {"path": path}) for path in paths])
    assert meeting.most == most


async def test_events_tell_the_story(tools: Session) -> None:
    await tools.batch(("together", {"name": "a"}))
    started, ended = tools.events
    assert isinstance(started, ToolStarted) and started.name == "together"
    assert isinstance(ended, ToolEnded) and ended.status is ToolStatus.OK and ended.preview == "a was there"


async def test_a_tool_that_fails_gives_a_result_and_the_others_run(
    tools: Session, caplog: pytest.LogCaptureFixture
) -> None:
    known, unknown, fine = await tools.batch(
        ("fails", {"how": "known"}), ("fails", {"how": "x"}), ("together", {"name": "a"})
    )
    assert (known.status, known.text) == (ToolStatus.ERROR, "cannot do it so")
    assert unknown.status is ToolStatus.ERROR and "ValueError: broken inside" in unknown.text
    assert fine.status is ToolStatus.OK
    assert "broken inside" in caplog.text and "Traceback" in caplog.text


async def test_calls_that_cannot_run_are_answered_and_not_intended(tools: Session) -> None:
    unknown, wrong, fine = await tools.batch(
        ("togethr", {"name": "a"}), ("together", {"nme": "a"}), ("together", {"name": "a"})
    )
    assert unknown.status is ToolStatus.INVALID and "Did you mean 'together'?" in unknown.text
    assert wrong.status is ToolStatus.INVALID and "Unknown: nme" in wrong.text
    assert fine.status is ToolStatus.OK
    assert tools.journal.lines[0] == "intend c3"


async def test_a_call_that_stands_for_another_is_journaled_and_shown_as_it(tools: Session) -> None:
    result = await tools.call("stands_for", to="together", with_='{"name": "x"}')
    assert (result.name, result.text) == ("stands_for", "x was there")
    assert tools.journal.intents[0].tool == "together" and tools.journal.intents[0].arguments == '{"name": "x"}'
    assert isinstance(tools.events[0], ToolStarted) and tools.events[0].name == "together"
    wrong = await tools.call("stands_for", to="together", with_='{"nme": "x"}')
    assert wrong.status is ToolStatus.INVALID and "together: Missing: name" in wrong.text
    itself = await tools.call("stands_for", to="stands_for", with_="{}")
    assert itself.status is ToolStatus.INVALID


async def test_a_large_result_is_spilled_with_a_preview(tools: Session) -> None:
    result = await tools.call("talks", size=60_000)
    path = Path(result.text.split("All of it is in ")[1].split(": use")[0])
    assert path.read_text() == "word " * 12_000
    assert [stat.S_IMODE(os.stat(made).st_mode) for made in (path, path.parent)] == [0o600, 0o700]
    assert len(result.text) < 2_200 and "60000 characters" in result.text


async def test_a_batch_has_a_cap_and_small_results_pass_it(tools: Session) -> None:
    results = await tools.batch(*[("talks", {"size": 45_000})] * 5, ("talks", {"size": 50}))
    assert [len(result.text) > 40_000 for result in results] == [True] * 4 + [False, False]
    assert "characters in" in results[4].text and results[5].text == "word " * 10


async def test_nobody_to_ask_means_no(session: Session) -> None:
    target = session.cwd / "kept"
    target.mkdir()
    result = await session.call("terminal", command="rm -rf kept")
    assert result.status is ToolStatus.REFUSED and target.is_dir()
    assert "Not allowed: it deletes folders" in result.text and "nobody could be asked" in result.text
    assert "Do not try" in result.text
    assert [type(event) for event in session.events] == [Refused, ToolEnded]
    assert session.journal.lines == []


async def test_a_person_is_asked_and_their_answer_holds(session: Session) -> None:
    (session.cwd / "one").mkdir()
    (session.cwd / "two").mkdir()
    session.person = Person(True, False)
    first, second = await session.batch(("terminal", {"command": "rm -r one"}), ("terminal", {"command": "rm -r two"}))
    assert first.status is ToolStatus.OK and not (session.cwd / "one").exists()
    assert second.status is ToolStatus.REFUSED and (session.cwd / "two").exists()
    kinds = [type(event) for event in session.events]
    assert kinds == [ApprovalAsked, ApprovalAnswered, ApprovalAsked, ApprovalAnswered, Refused, ToolEnded, *kinds[6:]]
    assert session.person.asked[0].subject == "rm -r one"


async def test_the_floor_is_not_asked_about(session: Session) -> None:
    session.person = Person(True)
    session.allow = ("*",)
    result = await session.call("terminal", command="rm -rf /")
    assert result.status is ToolStatus.REFUSED and session.person.asked == []


async def test_a_pattern_answers_for_the_whole_command_only(session: Session) -> None:
    session.allow = ("rm -r one",)
    (session.cwd / "one").mkdir()
    refused = await session.call("terminal", command="rm -r one; rm -r .")
    assert refused.status is ToolStatus.REFUSED
    assert (await session.call("terminal", command="rm -r one")).status is ToolStatus.OK


async def test_what_changed_after_it_was_allowed_is_refused(session: Session) -> None:
    secret = Path(session.context.places.home) / ".ssh"
    secret.mkdir()
    (session.cwd / "d").mkdir()
    session.allow = ("*",)
    swap = "rmdir d && ln -s ../home/.ssh d"
    first, second = await session.batch(
        ("terminal", {"command": swap}), ("write_file", {"path": "d/authorized_keys", "content": "x"})
    )
    assert first.status is ToolStatus.OK
    assert second.status is ToolStatus.REFUSED and list(secret.iterdir()) == []


async def test_an_approval_is_for_one_folder(session: Session) -> None:
    (session.cwd / "d" / "old").mkdir(parents=True)
    (session.cwd / "old").mkdir()
    session.person = Person(True)
    _, second = await session.batch(("terminal", {"command": "cd d"}), ("terminal", {"command": "rm -r old"}))
    assert second.status is ToolStatus.REFUSED and (session.cwd / "old").is_dir()


async def test_cancelling_leaves_a_result_for_every_call(tools: Session, meeting: Meeting) -> None:
    meeting.wanted = 99
    parts = [
        ToolCallPart(call_id="c1", name="talks", arguments='{"size": 10}'),
        ToolCallPart(call_id="c2", name="together", arguments='{"name": "b"}'),
        ToolCallPart(call_id="c3", name="alone", arguments='{"name": "c"}'),
    ]
    batch = CallBatch(parts)
    task = asyncio.create_task(tools.executor().run(batch, tools.context, tools.journal, tools.events.append))
    async with asyncio.timeout(60):
        await meeting.somebody.wait()
        while batch.get_result(0) is None:  # noqa: ASYNC110 - a batch tells nobody
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    results = batch.collect_results()
    assert [result.status for result in results] == [ToolStatus.OK, ToolStatus.INTERRUPTED, ToolStatus.INTERRUPTED]
    assert "check before" in results[1].text and "Nothing was done" in results[2].text
    assert isinstance(tools.events[-1], ToolEnded) and tools.events[-1].status is ToolStatus.INTERRUPTED


async def test_a_journal_that_fails_ends_the_batch(tools: Session) -> None:
    class Full(Journal):
        async def record_result(self, result: ToolResultPart) -> None:
            raise StoreError("no room")

    run = Executor(tools.toolbox, PolicyGate()).run
    parts = [ToolCallPart(call_id=f"c{n}", name="talks", arguments='{"size": 10}') for n in range(3)]
    with pytest.raises(StoreError, match="no room"):
        await run(CallBatch(parts), tools.context, Full(), tools.events.append)


async def test_the_delay_stands_between_stages(tools: Session, meeting: Meeting) -> None:
    slept: list[float] = []

    class Clock:
        def now(self) -> float:
            return 0.0

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    from msgspec.structs import replace

    tools.context = replace(tools.context, clock=Clock())
    tools.delay = 0.5
    await tools.batch(("alone", {"name": "a"}), ("alone", {"name": "b"}), ("alone", {"name": "c"}))
    assert slept == [0.5, 0.5]
