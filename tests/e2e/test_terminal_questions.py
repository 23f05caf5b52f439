"""Questions and chats on a real terminal: a pseudo-terminal that is the process's controlling one."""

import signal

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import on_a_terminal
from tests.forked_hermes import run_hermes

REMOVE: list[Reply] = [Say(calls=(Call("terminal", {"command": "rm -r old"}),)), Say("Done with it.")]


async def test_a_piped_one_shot_asks_on_the_terminal_and_yes_runs_it() -> None:
    async with ScriptedServer(REMOVE) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home, "-z", "clean", piped=True) as screen:
                await screen.shows("rm -r old")
                await screen.shows("/N] ")
                screen.type("y\n")
                assert await screen.end() == 0
                assert screen.process.stdout is not None
                assert await screen.process.stdout.read() == b"Done with it.\n"
            assert not (home.cwd / "old").exists()


async def test_enter_alone_means_no() -> None:
    async with ScriptedServer(REMOVE) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home, "-z", "clean", piped=True) as screen:
                await screen.shows("/N] ")
                screen.type("\n")
                assert await screen.end() == 0
            assert (home.cwd / "old").exists()
        assert "Not allowed" in next(iter(server.requests[1].results.values()))


async def test_no_answer_in_time_means_no() -> None:
    async with ScriptedServer(REMOVE) as server:
        with TempHome.for_server(server.url, more_config={"approvals": {"timeout": 0.2}}) as home:
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home, "-z", "clean", piped=True) as screen:
                assert await screen.end() == 0
            assert (home.cwd / "old").exists()


async def test_the_models_question_is_answered_on_the_terminal() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("clarify", {"question": "Which one?", "choices": ["red", "blue"]}),)),
        Say("ok"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home, "-z", "choose", piped=True) as screen:
                await screen.shows("2. blue")
                screen.type("2\n")
                assert await screen.end() == 0
        assert "blue" in next(iter(server.requests[1].results.values()))


async def test_escape_sequences_in_a_question_are_inert() -> None:
    command = "rm -r old \x1b]52;c;aGk=\x07 \u202e"
    async with ScriptedServer([Say(calls=(Call("terminal", {"command": command}),)), Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home, "-z", "clean", piped=True) as screen:
                await screen.shows("/N] ")
                assert "\x1b" not in screen.text
                assert "\u202e" not in screen.text
                screen.type("n\n")
                await screen.end()


async def test_what_cannot_be_seen_is_shown_in_names_questions_and_steps() -> None:
    steps = [{"id": "1", "content": "rea\u200bd it", "status": "pending"}]
    replies: list[Reply] = [
        Say(calls=(Call("no_such\u200b_tool\u2062", {}),)),
        Say(calls=(Call("todo", {"todos": steps}),)),
        Say(
            calls=(
                Call("clarify", {"question": "Which\u200b \U000e0041one? ❤\ufe0f", "choices": ["r\u2060ed", "blue"]}),
            )
        ),
        Say("ok"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            home.write_config({**(home.config or {}), "display": {"tool_progress": "verbose"}})
            async with on_a_terminal(home, "chat", "--plain") as screen:
                await screen.shows("> ")
                screen.type("choose\n")
                await screen.shows("2. blue")
                for shown in (
                    "no_such\\u{200b}_tool\\u{2062}",
                    "rea\\u{200b}d it",
                    "Which\\u{200b} \\u{e0041}one? ❤\ufe0f",
                    "r\\u{2060}ed",
                ):
                    assert shown in screen.text, screen.text
                assert not set("\u200b\u2060\u2062\U000e0041") & set(screen.text)
                screen.type("2\n")
                await screen.shows("ok")
                screen.type("/quit\n")
                assert await screen.end() == 0


async def test_a_chat_streams_and_ctrl_c_stops_one_answer_only() -> None:
    hang = ReplyDelivery(ending=Ending.HANG, at=4)
    async with ScriptedServer(
        [Say("Good morning."), Say("a very slow answer", chunk=3, delivery=hang), Say("Here.")]
    ) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows("> ")
                screen.type("hello\n")
                await screen.shows("Good morning.")
                screen.type("slow\n")
                await screen.shows("a ver")
                screen.process.send_signal(signal.SIGINT)
                await server.wait_closed(server.requests[1])
                screen.type("still there?\n")
                await screen.shows("Here.")
                screen.type("/quit\n")
                assert await screen.end() == 0
        assert "Stopped by the user" in server.requests[2].body.decode()


async def test_a_one_shot_that_is_stopped_says_so() -> None:
    async with ScriptedServer([Say("slow", delivery=ReplyDelivery(ending=Ending.HANG, at=1))]) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home, "-z", "x") as screen:
                request = await server.wait_for(1)
                screen.process.send_signal(signal.SIGTERM)
                assert await screen.end() == 130
                await server.wait_closed(request)
                await screen.shows("Stopped.")


@pytest.mark.needs("bubblewrap", "curl")
async def test_a_long_question_is_shown_whole_from_another_terminal_and_withdrawn_with_its_command() -> None:
    filler = "".join(f"echo line {number}\n" for number in range(100))
    command = f"{filler}rm -r old\n{filler}"
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": command}),)),
        Say(calls=(Call("terminal", {"command": "timeout 0.4 curl -s http://a.invalid/; true"}),)),
        Say("Done."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": "sandbox"}}) as home:
            (home.cwd / "old").mkdir()
            (home.cwd / "old/.env").write_text("no copy is made of it")
            async with on_a_terminal(home, "-z", "clean", piped=True) as screen:
                await screen.shows("(`rm -r old`)")
                await screen.shows_next("characters are not shown here")
                await screen.shows_next("hermes approvals show approval_")
                await screen.shows_next("/N] ")
                listed = await run_hermes(home, "approvals")
                name = listed.stdout.split()[0]
                assert "line 50" not in listed.stdout and f"hermes approvals show {name}" in listed.stdout
                assert "approve allows: this call" in listed.stdout and "(`rm -r old`)" in listed.stdout
                whole = await run_hermes(home, "approvals", "show", name)
                assert "line 50" in whole.stdout and whole.code == 0
                screen.type("\n")
                await screen.shows_next("connect a.invalid")
                await screen.shows_next("[o]nce allows: connections of this one command to that host")
                await screen.shows_next("The question was withdrawn")
                assert await screen.end() == 0
            empty = await run_hermes(home, "approvals")
            assert empty.stdout == "No question waits for an answer.\n"


async def test_a_word_that_is_no_answer_is_asked_about_once_more() -> None:
    for words, gone in ((("sure\n", "yes\n"), True), (("sure\n", "sure\n"), False)):
        async with ScriptedServer(REMOVE) as server:
            with TempHome.for_server(server.url) as home:
                (home.cwd / "old").mkdir()
                async with on_a_terminal(home, "-z", "clean", piped=True) as screen:
                    await screen.shows("(or yes)? [o/")
                    screen.type(words[0])
                    await screen.shows_next("That is not an answer here. Type o (once) or yes,")
                    screen.type(words[1])
                    assert await screen.end() == 0
                assert (home.cwd / "old").exists() != gone


async def test_an_answer_from_elsewhere_is_told_and_a_late_letter_is_no_message() -> None:
    async with ScriptedServer(REMOVE) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home) as screen:
                await screen.shows("> ")
                screen.type("clean\n")
                await screen.shows_next("/N] ")
                listed = await run_hermes(home, "approvals")
                name = listed.stdout.split()[0]
                assert (await run_hermes(home, "approvals", "approve", name)).code == 0
                await screen.shows_next("was answered elsewhere: allowed.")
                await screen.shows_next("Done with it.")
                await screen.shows_next("> ")
                screen.type("o\n")
                await screen.shows_next("The question that `o` would answer is closed; nothing was sent.")
                screen.type("/quit\n")
                assert await screen.end() == 0
            assert not (home.cwd / "old").exists() and len(server.requests) == 2


async def test_a_notice_over_the_prompt_leaves_a_prompt_behind() -> None:
    config = {"mcp_servers": {"gone": {"command": "/nonexistent/server"}}}
    async with ScriptedServer([Say("Here.")]) as server:
        with TempHome.for_server(server.url, more_config=config) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("hermes: ")
                await screen.shows_next("gone")
                await screen.shows_next("\n> ")
                screen.type("hello\n")
                await screen.shows_next("Here.")
                screen.type("/quit\n")
                assert await screen.end() == 0
