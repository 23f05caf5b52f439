"""How the full chat looks: questions, diffs, output, plans, marks of pastes, the line below the input."""

import re
import struct
import zlib

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux
from tests.forked_hermes import run_hermes

pytestmark = NEEDED
HANG = ReplyDelivery(ending=Ending.HANG, at=1)
REMOVE = Say(calls=(Call("terminal", {"command": "rm -r old"}),))


def config(**display: object) -> dict[str, object]:
    return {"display": display}


async def test_a_question_is_answered_by_a_letter_and_a_refusal_is_told_once() -> None:
    async with ScriptedServer([REMOVE, Say("It stays."), REMOVE, Say("It is gone.")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("clean up")
                shown = await screen.shows("▎ Run this command?", "▎   rm -r old", "▎ • it deletes", "A letter answers")
                assert "n  No" in shown and "y  Yes, this once" in shown
                await screen.type("n")
                shown = await screen.answers("It stays.", "▎ → refused")
                assert shown.count("rm -r old") == 1 and shown.count("it deletes") == 1, shown
                await screen.enter("again")
                await screen.shows("A letter answers")
                await screen.type("yes")  # a word, in one go: it is none of the answers
                await screen.shows("› yes", "waiting until you stop typing")
                assert (home.cwd / "old").exists()
                await screen.press("C-u")
                await screen.shows("A letter answers")
                await screen.type("y")
                await screen.answers("It is gone.", "▎ → allowed once")
                assert not (home.cwd / "old").exists()
                await screen.leave()


async def test_what_asks_again_after_a_yes_for_the_session_says_why() -> None:
    run = Say(calls=(Call("terminal", {"command": "rm -r old; mkdir old; sh made.sh"}),))
    write = [Say(calls=(Call("write_file", {"path": "made.sh", "content": f"echo {one}\n"}),)) for one in "ab"]
    async with ScriptedServer([write[0], run, write[1], run, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            assert (await run_hermes(home, "trust", str(home.cwd))).code == 0
            async with in_tmux(home, size=(100, 50)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.shows("A letter answers", "s  Yes, for this session")
                await screen.type("s")
                await screen.shows("→ allowed until the session is closed")
                await screen.shows("Asked again, since made.sh changed.", "A letter answers")
                await screen.press("Escape")
                await screen.answers("done")
                await screen.leave()


async def test_changes_are_counted_and_the_last_lines_of_output_are_shown() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "a.txt", "content": "".join(f"line {n}\n" for n in range(30))}),)),
        Say(calls=(Call("patch", {"path": "a.txt", "old_string": "line 7\n", "new_string": "row 7\nrow 8\n"}),)),
        Say(calls=(Call("terminal", {"command": "seq 1 300; exit 3"}),)),
        Say("done"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(80, 60)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.answers("done")
                assert "write a.txt  +30" in shown and "1 +line 0" in shown and "… +22 lines" in shown
                assert "patch a.txt  +2 -1" in shown and "@@" not in shown and "Changed a.txt" not in shown
                assert "✗ $ seq 1 300; exit 3  exit code 3" in shown and "… +295 lines (Ctrl-O)" in shown
                assert "\n  300\n" in shown and "\n  295\n" not in shown
                await screen.press("C-o")
                await screen.until(lambda shown: "\n  295\n" in shown, "nothing is unfolded")
                everything = await screen.everything()
                assert all(f"\n  {number}\n" in everything for number in (1, 150, 295))
                await screen.press("C-o")  # the one before
                await screen.shows("8 +row 7")
                await screen.leave()


async def test_the_plan_is_a_list_that_moves_and_its_key_hides_it() -> None:
    def plan(*marks: str) -> Call:
        return Call("todo", {"todos": [{"content": f"step {n}", "status": one} for n, one in enumerate(marks, 1)]})

    wait = Call("terminal", {"command": "until [ -e go ]; do sleep 0.05; done"})
    replies: list[Reply] = [
        Say(calls=(plan("in_progress", "pending", "pending"),)),
        Say(calls=(wait,)),
        Say(calls=(plan("completed", "in_progress", "pending"),)),
        Say("so far"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.shows("Plan: 0 of 3 done", "▸ step 1", "☐ step 2", "☐ step 3", "until [ -e go ]")
                await screen.press("C-t")
                await screen.hides("☐ step 2")
                await screen.press("C-t")
                await screen.shows("☐ step 2")
                (home.cwd / "go").touch()
                shown = await screen.answers("so far", "Plan: 1 of 3 done", "▸ step 2", "☐ step 3")
                assert shown.count("☐ step 3") == 1 and shown.index("✔ step 1") < shown.index("so far")
                await screen.leave()


async def test_pastes_and_pictures_keep_their_marks_and_commands_are_echoed() -> None:
    async with ScriptedServer([Say("read"), Say("a dot")]) as server:
        with TempHome.for_server(server.url) as home:
            picture = home.cwd / "dot.png"
            picture.write_bytes(png())
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("sum this up: ")
                await screen.paste("\n".join(f"secret line {number}" for number in range(400)))
                await screen.shows("[pasted 1: 400 lines]")
                await screen.press("Enter")
                await screen.answers("read", "› sum this up: [pasted 1: 400 lines]")
                assert "secret line" not in await screen.everything()
                assert "secret line 399" in server.requests[-1].body.decode()
                await screen.paste(str(picture))
                await screen.shows("[picture 1: dot.png]")
                await screen.type(" what is it?")
                await screen.press("Enter")
                await screen.answers("a dot", "› [picture 1: dot.png] what is it?")
                await screen.enter("/title")
                await screen.shows("› /title", "sum this up: [pasted 1: 400 lines]")
                await screen.leave()


def png() -> bytes:
    """A picture of one dot."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0abc")) + chunk(b"IEND", b"")


async def test_the_line_below_tells_folder_branch_and_window_after_every_command() -> None:
    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome.for_server(server.url, more_config={"prices": {}}) as home:
            git = home.cwd / ".git"
            git.mkdir()
            (git / "HEAD").write_text("ref: refs/heads/topic/x\n")
            async with in_tmux(home, size=(120, 30)) as screen:
                await screen.shows("(topic/x) · mock-model · context 0% of 2M", "work")
                await screen.enter("hello")
                await screen.answers("one")
                (git / "HEAD").write_text("0123456789abcdef0123456789abcdef01234567\n")
                for command, said in (
                    ("/new", "A new session"),
                    ("/undo", "undo"),
                    ("/model mock-model", "mock-model"),
                ):
                    await screen.enter(command)
                    await screen.shows(f"› {command}", said)
                    await screen.until(
                        lambda shown: (
                            "(0123456) · mock-model · context" in (line := shown.rstrip().split("\n")[-1])
                            and "of 2M" in line
                            and "no price" not in line
                            and "cache" not in line
                        ),
                        f"the line below after {command}",
                    )
                await screen.leave()


@pytest.mark.parametrize(("ground", "band"), [("#ffffff", "48;2;230;255;236"), ("#101010", "48;2;18;40;29")])
async def test_a_light_and_a_dark_terminal_are_told_apart(ground: str, band: str) -> None:
    write = Say(calls=(Call("write_file", {"path": "a.txt", "content": "one\n"}),))
    async with ScriptedServer([write, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            home.more["COLORTERM"] = "truecolor"
            start = f"sleep 0.5; {home_command()}"
            async with in_tmux(home, program=start) as screen:
                await screen.ask("set", "-g", "window-style", f"bg={ground}")
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.answers("done")
                assert band in await screen.screen(colours=True)
                await screen.leave()


def home_command() -> str:
    import shlex
    import sys

    return f"{shlex.quote(sys.executable)} -m hermes"


async def test_keys_of_ones_own_and_a_key_that_does_two_things() -> None:
    read = Say(calls=(Call("terminal", {"command": "seq 1 50"}),))
    async with ScriptedServer([read, Say("done")]) as server:
        with TempHome.for_server(server.url, more_config=config(keys={"unfold": "f2, ctrl-o"})) as home:
            async with in_tmux(home, size=(80, 40)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.answers("done", "+47 lines (F2)")
                await screen.press("F2")
                await screen.until(lambda shown: "\n  20\n" in shown, "nothing is unfolded")
                await screen.enter("/help")
                await screen.shows("F2, Ctrl-O", "Usual commands", "/help all")
                await screen.leave()
            home.write_config({**(home.config or {}), **config(keys={"unfold": "ctrl-t"})})
            async with in_tmux(home) as screen:
                await screen.shows("One key does two things: Ctrl-T is 'plan' and 'unfold'", "mock-model")
                await screen.leave()


async def test_the_title_says_what_goes_on_and_is_given_back() -> None:
    async with ScriptedServer([Say("never ends", delivery=HANG)]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                before = await screen.tell("pane_title")
                await screen.shows("mock-model")
                assert await screen.tell("pane_title") == f"Hermes · {home.cwd.name}"
                await screen.enter("go")
                await screen.shows("waiting for the model")
                assert await screen.tell("pane_title") == f"* Hermes · {home.cwd.name}"
                await screen.press("C-c")
                await screen.answers("Stopped after")
                await screen.leave()
                assert await screen.tell("pane_title") == before


async def test_a_broken_answer_that_goes_on_is_one_line_and_the_end_names_the_way_back() -> None:
    cut = ReplyDelivery(ending=Ending.CUT, at=3)
    replies: list[Reply] = [Say("a beginning of words " * 5, chunk=10, delivery=cut) for _ in range(20)]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"agent": {"api_max_retries": 1}}) as home:
            async with in_tmux(home, size=(100, 60)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.shows("/retry")
                assert shown.count("The connection broke in the middle") == 1, shown
                await screen.leave()


async def test_on_a_small_terminal_nothing_is_cut_and_the_chosen_row_is_seen() -> None:
    replies: list[Reply] = [Say(f"The store reads its file: answer {number}") for number in range(7)]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(60, 15)) as screen:
                await screen.shows("mock-model", "Ctrl-D", "\n  leaves\n")
                await screen.type("/s")
                await screen.shows("/sessions", "…")
                assert "..." not in await screen.screen()
                await screen.press("C-u")
                for number in range(7):
                    await screen.enter(f"question {number}")
                    await screen.answers(f"answer {number}")
                    await screen.enter("/new")
                    await screen.shows("A new session")
                    await screen.press("C-l")
                await screen.enter("/search store")
                shown = await screen.shows(
                    "Found; go on with which session?", "❯ question 6", "3 more below", "Esc cancels"
                )
                assert "scroll up" not in shown
                for _ in range(6):
                    await screen.press("Down")
                await screen.shows("3 more above", "❯ question 0", "Found; go on with which session?")
                await screen.press("Escape")
                await screen.hides("❯")
                await screen.leave()


async def test_on_a_low_terminal_a_question_has_no_empty_lines() -> None:
    call = Call("terminal", {"command": "rm -rf old && git push --force origin main"})
    async with ScriptedServer([Say(calls=(call,)), Say("left")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home, size=(60, 15)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.shows("Run this command?", "rm -rf old", "❯ n  No", "Enter takes it; Esc means no")
                assert not [line for line in shown.splitlines() if line.strip() == "▎"]
                await screen.press("n")
                await screen.shows("left")


async def test_on_a_low_terminal_the_title_of_a_long_question_stays_and_keys_show_the_rest() -> None:
    command = "\n".join([*(f"echo line {number}" for number in range(10)), "rm -r old"])
    async with ScriptedServer([Say(calls=(Call("terminal", {"command": command}),)), Say("left")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home, size=(60, 15)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.shows(
                    "▎ Run this command?",
                    "▎ • it deletes",
                    "echo line 0",
                    "more lines: PgUp, PgDn",
                    "❯ n  No",
                    "A letter",
                )
                for _ in range(4):
                    await screen.press("NPage")
                await screen.shows("▎ Run this command?", "▎   rm -r old", "❯ n  No")
                await screen.hides("• it deletes")
                for _ in range(4):
                    await screen.press("PPage")
                await screen.shows("▎ Run this command?", "• it deletes", "A letter")
                await screen.press("n")
                await screen.answers("left")
                assert "echo line 9" in await screen.everything()
                await screen.leave()


async def test_an_answer_says_in_its_row_what_it_allows_and_what_is_dangerous_stands_out() -> None:
    folder = "a-folder-with-a-long-name/and-another-one-in-it/and-one-more-in-that"
    call = Call("terminal", {"command": f"echo begun && rm -r {folder}"})
    async with ScriptedServer([Say(calls=(call,)), Say("left")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / folder).mkdir(parents=True)
            async with in_tmux(home, size=(70, 40)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.shows("s  Yes, for this session  `rm", "a  Yes, always  `rm", "A letter answers")
                assert "named above" not in shown and "also allows" not in shown
                assert folder in "".join(shown.partition("Yes, always")[2].replace("▎", "").split())
                assert re.search("echo begun && (\x1b\\[[0-9;]*m)+rm", await screen.screen(colours=True))
                await screen.press("n")
                await screen.answers("left")
                await screen.leave()
