"""The plain chat on a real terminal: what is typed and pasted arrives as it was, and every key does what is said."""

import asyncio
import os
import signal
import sys
import termios

import pytest

from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import Screen, on_a_terminal
from tests.forked_hermes import run_hermes

LEAVE = "/quit\r"
CTRL_C = "\x03"
CTRL_D = "\x04"
HANG = ReplyDelivery(ending=Ending.HANG, at=4)


def replies(*texts: str) -> list[Reply]:
    return [Say(text) for text in texts]


async def hermes(home: TempHome, *arguments: str) -> ProgramResult:
    return await run_hermes(home, *arguments)


def said(server: ScriptedServer, number: int = 0) -> str:
    return server.requests[number].last_user_text


def canonical(screen: Screen) -> bool:
    """Whether the terminal is as a shell wants it: lines and echo."""
    return bool(termios.tcgetattr(screen.master)[3] & termios.ICANON)


@pytest.mark.parametrize("term", ["dumb", "xterm"])
async def test_a_paste_of_20_000_characters_arrives_whole(term: str) -> None:
    text = "".join(f"{number:>5}" for number in range(4_000))
    async with ScriptedServer(replies("Got it.")) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = term
            async with on_a_terminal(home, "--plain") as screen:
                await screen.shows("> ")
                await screen.paste(text + "\r")
                await screen.shows("Got it.")
                screen.type(LEAVE)
                assert await screen.end() == 0
        assert text.strip() in said(server)


@pytest.mark.parametrize("word", ["exit", "quit", ":q"])
async def test_a_word_that_leaves_a_shell_leaves_and_is_a_message_behind_a_space(word: str) -> None:
    async with ScriptedServer(replies("One.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home, "--plain") as screen:
                await screen.shows("> ")
                screen.type(f" {word}\r")
                await screen.shows("One.")
                screen.type(f"{word}\r")
                assert await screen.end() == 0
        assert len(server.requests) == 1 and word in said(server)


async def test_a_bracketed_paste_of_several_lines_is_one_turn() -> None:
    async with ScriptedServer(replies("One.", "Two.")) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = "xterm"
            async with on_a_terminal(home, "--plain") as screen:
                await screen.shows("\x1b[?2004h")
                screen.type("\x1b[200~first\rsecond\n/quit\x1b[201~")
                screen.type("\r")
                await screen.shows("One.")
                screen.type(LEAVE)
                assert await screen.end() == 0
                assert screen.text.rstrip().endswith("goes on with it.")
        assert len(server.requests) == 1
        assert "first\nsecond\n/quit" in said(server)


async def test_a_plain_terminal_gets_no_escape_codes() -> None:
    async with ScriptedServer(replies("Hello.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows("> ")
                screen.type("hi\r")
                await screen.shows("Hello.")
                screen.type(LEAVE)
                assert await screen.end() == 0
                assert "\x1b" not in screen.text


async def test_a_line_can_be_edited_and_called_back() -> None:
    async with ScriptedServer(replies("One.", "Two.")) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = "xterm"
            async with on_a_terminal(home, "--plain") as screen:
                await screen.shows("> ")
                screen.type("helo\x1b[Dl\r")
                await screen.shows_next("One.")
                await screen.shows_next("> ")
                screen.type("\x1b[A again\r")
                await screen.shows("Two.")
                screen.type(CTRL_D)
                assert await screen.end() == 0
        assert "hello" in said(server)
        assert "hello again" in said(server, 1)


async def test_lines_between_fences_are_one_message() -> None:
    async with ScriptedServer(replies("One.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows("> ")
                screen.type('"""\r/help\r\r  two\r"""\r')
                await screen.shows("One.")
                screen.type(LEAVE)
                assert await screen.end() == 0
        assert "/help\n\n  two" in said(server)


async def test_fences_hold_for_piped_input_too() -> None:
    async with ScriptedServer(replies("One.", "Two.")) as server:
        with TempHome.for_server(server.url) as home:
            text = b'"""\na\nb\n"""\nc\n"""\nnever closed\n'
            done = await home.run(sys.executable, "-m", "hermes", stdin=text)
            assert (done.code, done.stdout) == (0, "One.\nTwo.\n")
            assert "was not sent" in done.stderr
        assert "a\nb" in said(server)
        assert len(server.requests) == 2


ELSEWHERE = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'hermes'], stdout=open('answers', 'w'))"


async def test_a_line_that_the_terminal_has_cut_is_not_sent() -> None:
    async with ScriptedServer(replies("Here.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home, program=("-c", ELSEWHERE)) as screen:
                await screen.shows_next("> ")
                await screen.paste("x" * 5_000 + "\n")
                await screen.shows_next("was not sent")
                await screen.shows_next("> ")
                screen.type("short\n")
                await screen.shows_next("> ")
                screen.type(CTRL_D)
                assert await screen.end() == 0
            assert "Here." in (home.cwd / "answers").read_text()
        assert len(server.requests) == 1
        assert "short" in said(server)


async def test_ctrl_c_clears_a_line_and_leaves_only_when_pressed_twice_on_an_empty_one() -> None:
    async with ScriptedServer(replies("Here.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type("half a li")
                await screen.shows_next("half a li")
                screen.type(CTRL_C)
                await screen.shows_next("/quit or Ctrl-D leaves.")
                await screen.shows_next("> ")
                screen.type(CTRL_C)
                await screen.shows_next("Ctrl-C again or Ctrl-D leaves.")
                await screen.shows_next("> ")
                screen.type("hi\r")
                await screen.shows_next("Here.")
                await screen.shows_next("> ")
                screen.type(CTRL_C)
                await screen.shows_next("Ctrl-C again")
                await screen.shows_next("> ")
                screen.type(CTRL_C)
                assert await screen.end() == 0
                await screen.shows_next("goes on with it.")
        assert "half" not in said(server)
        assert len(server.requests) == 1


async def test_ctrl_c_in_a_message_of_several_lines_throws_it_away() -> None:
    async with ScriptedServer(replies("Here.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type('"""\rwrong\r')
                await screen.shows_next("wrong")
                await screen.shows_next(". ")
                screen.type(CTRL_C)
                await screen.shows_next("thrown away")
                await screen.shows_next("> ")
                screen.type("right\r")
                await screen.shows_next("Here.")
                screen.type(CTRL_D)
                assert await screen.end() == 0
        assert "wrong" not in said(server)


async def test_ctrl_c_stops_the_answer_and_the_chat_goes_on() -> None:
    async with ScriptedServer([Say("a very slow answer", chunk=3, delivery=HANG), Say("Here.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type("slow\r")
                await screen.shows_next("a ver")
                screen.type(CTRL_C)
                await server.wait_closed(server.requests[0])
                await screen.shows_next("> ")
                screen.type("still there?\r")
                await screen.shows_next("Here.")
                screen.type(LEAVE)
                assert await screen.end() == 0
                assert "Ctrl-C again" not in screen.text


async def test_what_is_pasted_while_an_answer_comes_waits_whole_for_the_prompt() -> None:
    text = "".join(f"{number:>5}" for number in range(4_000))
    async with ScriptedServer([Say("slow", delivery=ReplyDelivery(ending=Ending.HANG, at=1)), Say("Here.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type("slow\r")
                await server.wait_for(1)
                screen.process.send_signal(signal.SIGINT)
                await screen.paste(text + "\r" + CTRL_D)
                await screen.shows_next("Here.")
                assert await screen.end() == 0
        assert text.strip() in said(server, 1)


async def test_an_approval_is_asked_in_the_middle_of_a_chat() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    async with ScriptedServer([remove, Say("Gone."), remove, Say("Here.")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type("clean\r")
                await screen.shows_next("/N] ")
                screen.type("y\n")
                await screen.shows_next("Gone.")
                assert not (home.cwd / "old").exists()
                (home.cwd / "old").mkdir()
                await screen.shows_next("> ")
                screen.type("again\r")
                await screen.shows_next("/N] ")
                screen.type(CTRL_C)
                await screen.shows_next("> ")
                # The question that was withdrawn must not take the next line for its answer.
                screen.type("y\r")
                await screen.shows_next("nothing was sent")
                screen.type("here?\r")
                await screen.shows_next("Here.")
                screen.type(LEAVE)
                assert await screen.end() == 0
            assert (home.cwd / "old").exists()
        assert "here?" in said(server, 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("busy", [False, True])
async def test_a_signal_ends_the_chat_and_restores_the_terminal(number: signal.Signals, busy: bool) -> None:
    async with ScriptedServer([Say("a very slow answer", chunk=3, delivery=HANG)]) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = "xterm"
            async with on_a_terminal(home, "--plain") as screen:
                before = termios.tcgetattr(screen.master)
                await screen.shows_next("\x1b[?2004h> ")
                assert not canonical(screen)
                if busy:
                    screen.type("slow\r")
                    await screen.shows_next("a ver")
                else:
                    screen.type("half a li")
                    await screen.shows_next("half a li")
                screen.process.send_signal(number)
                assert await screen.end() == 130
                assert termios.tcgetattr(screen.master) == before
                assert screen.text.count("\x1b[?2004h") == screen.text.count("\x1b[?2004l")
            if busy:
                await server.wait_closed(server.requests[0])


async def test_the_commands() -> None:
    async with ScriptedServer(replies("One.", "Two.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("Session ")
                await screen.shows_next("> ")
                assert '"""' in screen.text
                screen.type("/help\r")
                for word in ("/new", "/quit", "/stop", "/help", "/status"):
                    await screen.shows_next(word)
                assert "Ctrl-R" not in screen.text  # keys of the full chat
                screen.type("/sesion\r")
                await screen.shows_next("There is no command /sesion. Did you mean /session")
                screen.type("/etc/hosts is what?\r")
                await screen.shows_next("One.")
                screen.type("/session\r")
                await screen.shows_next("(/etc/hosts is what?), 2 messages.")
                await screen.shows_next("window: 2,000,000 tokens")
                await screen.shows_next("Tokens used so far: ")
                assert "NO QUESTIONS" not in screen.text and "number of processes" not in screen.text
                screen.type("/yolo\r/session\r")
                await screen.shows_next("NO QUESTIONS are asked in this session")
                screen.type("/new\r/session\r")
                await screen.shows_next("goes on with it.")
                await screen.shows_next("Tokens used so far: ")
                assert screen.text.count("NO QUESTIONS are asked") == 1
                screen.type("and here?\r")
                await screen.shows_next("Two.")
                screen.type(LEAVE)
                assert await screen.end() == 0
            listed = (await hermes(home, "sessions", "list")).stdout.splitlines()
        assert len(listed) == 2
        assert "hosts" in said(server)
        assert b"hosts" not in server.requests[1].body


async def test_the_first_lines_say_that_prompts_are_cached() -> None:
    async with ScriptedServer(replies()) as server:
        model = {"provider": "anthropic", "default": "claude-sonnet-5", "base_url": server.url, "api_key": "k" * 12}
        for ttl, line in (("1h", "Prompt caching: on (1h)"), ("", "")):
            caching = {"cache_ttl": ttl} if ttl else {"enabled": False}
            with TempHome({"model": model, "prompt_caching": caching}) as home:
                async with on_a_terminal(home) as screen:
                    if line:
                        await screen.shows_next(line)
                    await screen.shows_next("> ")
                    assert ("Prompt caching" in screen.text) is bool(line)
                    screen.type(LEAVE)
                    assert await screen.end() == 0


async def test_a_chat_in_which_nothing_was_said_leaves_nothing_behind() -> None:
    async with ScriptedServer(replies("One.", "Two.")) as server:
        with TempHome.for_server(server.url) as home:
            assert (await hermes(home, "-z", "hi")).code == 0
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type("/new\r")
                await screen.shows_next("> ")
                screen.type(LEAVE)
                assert await screen.end() == 0
                assert "goes on with it" not in screen.text
            assert len((await hermes(home, "sessions", "list")).stdout.splitlines()) == 1
            assert len(os.listdir(home.hermes / "run")) == 1
            assert (await hermes(home, "-z", "more", "--continue")).stdout == "Two.\n"
        assert server.requests[1].body.startswith(server.requests[0].body[:-2])


async def test_what_quit_prints_goes_on_with_the_session() -> None:
    async with ScriptedServer(replies("One.", "Two.")) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows_next("> ")
                screen.type("hi\r")
                await screen.shows_next("One.")
                screen.type(CTRL_D)
                assert await screen.end() == 0
                await screen.shows_next("goes on with it.")
                line = screen.text.rstrip().splitlines()[-1]
            assert line.startswith("hermes --resume ")
            done = await hermes(home, *line.split()[1:3], "-z", "more")
            assert (done.code, done.stdout) == (0, "Two.\n")


async def test_deleting_asks_with_id_title_and_size_and_only_a_whole_title_is_a_name() -> None:
    async with ScriptedServer(replies("One.")) as server:
        with TempHome.for_server(server.url) as home:
            await hermes(home, "-z", "there is nosuch thing")
            assert "no session 'nosuch'" in (await hermes(home, "sessions", "delete", "nosuch", "--yes")).stderr
            session = (await hermes(home, "sessions", "list")).stdout.split()[0]
            arguments = ("sessions", "delete", "there is nosuch thing")
            async with on_a_terminal(home, *arguments) as screen:
                await screen.shows_next(f'{session} ("there is nosuch thing", 2 messages)')
                screen.type("y\n")
                assert await screen.end() == 0
            assert (await hermes(home, "sessions", "list")).stdout == "There is no session yet.\n"


OFFERED = """
import sys
from hermes.admin.models.setup import LocalModelServer
from hermes.cli.chat import run
servers = tuple(LocalModelServer("ollama", "Ollama", int(port)) for port in sys.argv[1:])
sys.exit(run([], servers=servers))
"""


async def test_a_server_that_was_found_is_offered_with_its_models() -> None:
    async with ScriptedServer(replies("From here.")) as server:
        port = server.url.removesuffix("/v1").rpartition(":")[2]
        with TempHome() as home:
            async with on_a_terminal(home, port, program=("-c", OFFERED)) as screen:
                await screen.shows_next("Ollama seems to run")
                await screen.shows_next("1. mock-model")
                await screen.shows_next("[y/N]")
                screen.type("yes\n")
                await screen.shows_next(str(home.hermes / "config.yaml"))
                await screen.shows_next('default: "mock-model"')
                await screen.shows_next("> ")
                screen.type("hi\r")
                await screen.shows_next("From here.")
                screen.type(LEAVE)
                assert await screen.end() == 0
            assert not (home.hermes / "config.yaml").exists()


async def listing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = b'{"data": [{"id": "big"}, {"id": "small:1b"}, {"id": "small:3b"}]}'
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(body), body))
    writer.close()


CHOSEN = """
import asyncio, os, sys
from hermes.sessions.options import SessionOptions
from hermes.admin.models.setup import LocalModelServer
from hermes.cli.plain.offer_model import offer_local_server
terminal = os.open("/dev/tty", os.O_RDWR)
servers = tuple(LocalModelServer("vllm", f"Server {port}", int(port)) for port in sys.argv[1:])
print("chosen:", asyncio.run(offer_local_server(SessionOptions(), dict(os.environ), terminal, servers)).model + ".")
"""


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        (["y\n", "2\n"], "small:1b"),
        (["y\n", "big\n"], "big"),
        (["y\n", "small\n", "huge\n", "small:3\n"], "small:3b"),
        (["y\n", "\n"], ""),
        (["\n"], ""),
        (["sure\n"], ""),
    ],
)
async def test_a_model_is_named_by_number_or_name_and_only_a_yes_takes_the_offer(typed: list[str], model: str) -> None:
    async with ScriptedServer([]) as gone:
        silent = gone.url.removesuffix("/v1").rpartition(":")[2]
    served = await asyncio.start_server(listing, "127.0.0.1", 0)
    port = str(served.sockets[0].getsockname()[1])
    async with served:
        with TempHome() as home:
            async with on_a_terminal(home, silent, port, program=("-c", CHOSEN)) as screen:
                for number, answer in enumerate(typed):
                    await screen.shows_next("Which model?" if number else "[y/N]")
                    screen.type(answer)
                await screen.shows_next(f"chosen: {model}.")
                assert await screen.end() == 0
                assert f"Server {silent}" not in screen.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-z", ""], ["task is empty"]),
        (["-z="], ["task is empty"]),
        (["-z", "x", "--max-turns", "0"], ["--max-turns must be above zero"]),
        (["-z", "x", "--max-turns", "-3"], ["--max-turns must be above zero"]),
        (["hello", "there"], ['hermes -z "hello there"']),
        (["--no-input", "hello"], ["hermes -z"]),
        (["--reusme", "x"], ["--reusme", "--resume"]),
        (["sessions", "lst"], ["'lst'", "Did you mean 'list'"]),
        (["sessions", "delete", "x", "--yess"], ["--yess", "Did you mean '--yes'"]),
        (["home", "shar"], ["'shar'", "Did you mean 'share'"]),
    ],
)
async def test_a_slip_on_the_command_line_is_one_line_that_helps(arguments: list[str], words: list[str]) -> None:
    with TempHome() as home:
        done = await hermes(home, *arguments)
    assert done.code == 2
    assert len([line for line in done.stderr.splitlines() if not line.startswith("usage: hermes")]) == 1
    for word in words:
        assert word in done.stderr


async def test_ctrl_c_at_the_offer_leaves() -> None:
    async with ScriptedServer([]) as server:
        port = server.url.removesuffix("/v1").rpartition(":")[2]
        with TempHome() as home:
            async with on_a_terminal(home, port, program=("-c", OFFERED)) as screen:
                await screen.shows_next("[y/N]")
                screen.type(CTRL_C)
                assert await screen.end() == 130
            assert not (home.hermes / "hermes.db").exists()


HANG_UP = """
import os, pty, sys
process, master = pty.fork()
if not process:
    os.execv(sys.executable, [sys.executable, "-m", "hermes"])
shown = b""
while b"> " not in shown:
    shown += os.read(master, 4096)
os.write(master, sys.argv[1].encode())
while sys.argv[2].encode() not in shown:
    shown += os.read(master, 4096)
os.close(master)
_, status = os.waitpid(process, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(("typed", "shown"), [("", "> "), ("half a li", "half a li"), ("slow\r", "a ver")])
async def test_a_terminal_that_is_closed_ends_the_chat(typed: str, shown: str) -> None:
    async with ScriptedServer([Say("a very slow answer", chunk=3, delivery=HANG)]) as server:
        with TempHome.for_server(server.url) as home:
            done = await home.run(sys.executable, "-c", HANG_UP, typed, shown, timeout=60)
        # It ends by itself, not by a signal; nobody is left to be told how.
        assert done.stdout.strip().isdecimal(), done
        if typed.endswith("\r"):
            await server.wait_closed(server.requests[0])


async def test_stop_ends_the_background_processes() -> None:
    call = Call("terminal", {"command": "sleep 300", "background": True})
    async with ScriptedServer([Say(calls=(call,)), Say("Started.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with on_a_terminal(home) as screen:
                await screen.shows("> ")
                screen.type("go\r")
                await screen.shows_next("Started.")
                await screen.shows_next("> ")
                screen.type("/stop all\r")
                await screen.shows_next("(sleep 300) has ended.")
                screen.type("/stop\r")
                await screen.shows_next("No background process runs.")
                screen.type(LEAVE)
                assert await screen.end() == 0
