"""Calls that code makes go the way of the model's own: gate, question, journal, limits, taint, undo, events."""

import pytest

from hermes.core.events import ApprovalAsked, Refused, ToolEnded, ToolStarted
from hermes.core.messages import Provenance, Source, ToolResultPart, ToolStatus
from hermes.tools.code.nested_calls import NestedCallRunner
from hermes.tools.registry import Toolbox
from hermes.tools.taint import Taint
from tests.tools.tool_session import Person, Session, make_context, session

__all__ = ["session"]


async def run_code(session: Session, code: str) -> ToolResultPart:
    return await session.call("execute_code", code=code)


async def test_a_call_of_code_is_gated_journaled_and_shown(session: Session) -> None:
    (session.cwd / "a").write_text("apple\n")
    result = await run_code(session, 'print(read_file(path="a"))')
    assert result.status is ToolStatus.OK
    assert "apple" in result.text
    assert session.journal.lines == ["intend c1", "intend c1.1", "done c1.1", "done c1"]
    shown = [(type(one), one.call_id, one.name) for one in session.events if isinstance(one, ToolStarted | ToolEnded)]
    assert shown == [
        (ToolStarted, "c1", "execute_code"),
        (ToolStarted, "c1.1", "read_file"),
        (ToolEnded, "c1.1", "read_file"),
        (ToolEnded, "c1", "execute_code"),
    ]


async def test_a_person_is_asked_about_a_call_of_code(session: Session) -> None:
    session.person = Person(True)
    (session.cwd / "kept").write_text("x")
    result = await run_code(session, 'print(terminal(command="rm -rf kept"))')
    assert [one.call_id for one in session.events if isinstance(one, ApprovalAsked)] == ["c1.1"]
    assert "exit code 0" in result.text
    assert not (session.cwd / "kept").exists()


async def test_a_refused_call_of_code_fails_in_the_code(session: Session) -> None:
    session.person = Person(False)
    (session.cwd / "kept").write_text("x")
    code = 'try:\n    terminal(command="rm -rf kept")\nexcept ToolError as error:\n    print("no:", error)'
    result = await run_code(session, code)
    assert result.text.startswith("no: Not allowed")
    assert [one.call_id for one in session.events if isinstance(one, Refused)] == ["c1.1"]
    assert (session.cwd / "kept").exists()


@pytest.mark.parametrize("name", ["execute_code", "clarify", "tool_call"])
async def test_code_cannot_call_itself_nor_ask_the_person(session: Session, name: str) -> None:
    arguments = {
        "execute_code": {"code": "1"},
        "clarify": {"question": "?"},
        "tool_call": {"name": "execute_code", "arguments": {"code": "1"}},
    }[name]
    result = await run_code(session, f"tool({name!r}, {arguments!r})")
    assert "cannot be called by code" in result.text
    assert session.journal.lines == ["intend c1", "done c1"]


async def test_calls_made_at_once_are_one_batch(session: Session) -> None:
    for name in "ab":
        (session.cwd / name).write_text(name * 3)
    code = 'calls = [("read_file", {"path": one}) for one in "ab-"]\nfor one in at_once(calls):\n'
    result = await run_code(session, code + "    print(isinstance(one, ToolError), str(one)[:40])")
    assert [line.partition(" ")[0] for line in result.text.split("\n") if line.startswith(("True", "False"))] == [
        "False",
        "False",
        "True",
    ]
    assert session.journal.lines[:2] == ["intend c1", "intend c1.1 c1.2 c1.3"]


async def test_what_a_call_returned_taints_the_calls_after_it(tmp_path: object) -> None:
    seen: list[tuple[str, ...]] = []
    taint = Taint()
    origin = Provenance(Source.WEB, "https://evil.example/x")

    async def run_batch(calls: object, own: object) -> list[ToolResultPart]:
        seen.append(taint.list_sources())
        return [ToolResultPart(call_id="c.1", name="web", text="x", provenance=origin)]

    runner = NestedCallRunner("c", Toolbox([]), taint, run_batch, None)
    await runner.run(())
    await runner.run(())
    assert seen == [(), ("web:evil.example",)]


async def test_the_output_is_as_untrusted_as_all_that_the_calls_returned(tmp_path: object) -> None:
    from hermes.tools.registry import ToolRegistry
    from hermes.tools.taint import TrustedFolders

    context = make_context(tmp_path.resolve(), trust=TrustedFolders(()))  # type: ignore[attr-defined]
    session = Session(context, ToolRegistry().select_tools())
    (session.cwd / "a").write_text("apple\n")
    try:
        result = await run_code(session, 'text = read_file(path="a")\nprint(len(text), "untrusted" in text)')
        assert result.provenance is not None
        assert result.provenance.is_untrusted
        assert str(session.cwd) in result.provenance.label
        assert "False" in result.text  # the code got the text itself, without a fence
    finally:
        await session.close()


async def test_a_limit_of_calls_ends_the_code(session: Session) -> None:
    (session.cwd / "a").write_text("x")
    code = 'while True:\n    try:\n        read_file(path="a")\n    except ToolError:\n        pass'
    result = await run_code(session, code)
    assert "it may make 50 calls" in result.text
    assert sum(line.startswith("done c1.") for line in session.journal.lines) == 50
