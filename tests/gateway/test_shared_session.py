"""A session that is open in a chat and in a terminal is one session, whichever of the two processes holds it."""

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import pytest

from hermes.core.events import ApprovalAsked, Event, Level, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.session_host import serve_session
from hermes.ipc.session_server import attach_named_session
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running, said
from tests.gateway.served_gateway import hermes
from tests.vendors.ntfy import Fake
from tests.vendors.telegram import Fake as Telegram

pytestmark = pytest.mark.slow


def session_of(home: TempHome) -> str:
    with closing(sqlite3.connect(f"file:{home.hermes}/hermes.db?mode=ro", uri=True)) as database:
        return str(database.execute("SELECT session_id FROM chat_sessions").fetchone()[0])


class Lines:
    """A plain chat in a process of its own, whose input is a pipe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen = ""

    async def enter(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        await self.process.stdin.drain()

    async def shows(self, text: str) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            while text not in self.seen:
                piece = await self.process.stdout.read(4096)
                assert piece, self.seen
                self.seen += piece.decode()


@asynccontextmanager
async def lines(home: TempHome, *arguments: str) -> AsyncIterator[Lines]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes", "--plain", *arguments),
        cwd=home.cwd,
        env={**home.environ, "PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield Lines(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_terminal_takes_part_in_what_the_gateway_holds() -> None:
    script = [Say("for the chat"), Say("for both"), Say("for both again"), Say("from one line")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(chat.shown)
                async with lines(home, "--resume", session_of(home)) as terminal:
                    await terminal.enter("typed here")
                    await terminal.shows("for both")
                    await chat.until(lambda: "for both" in chat.text())
                    assert "Said in a terminal:\n> typed here" in chat.text()
                    await chat.say("said there")
                    await terminal.shows("› said there")
                    await terminal.shows("for both again")
                    await terminal.enter("/title One of two")
                    await terminal.shows("One of two")
                    await terminal.enter("/quit")
                    async with asyncio.timeout(60):
                        assert await terminal.process.wait() == 0
                code, out, err = await hermes(home, "-z", "once", "-c")
                assert (code, out) == (0, "from one line\n"), err
    assert [said(server, number) for number in range(4)] == ["hello", "typed here", "said there", "once"]
    counts = [len(one.messages) for one in server.requests]
    assert counts == sorted(set(counts))  # one conversation that grows


async def test_the_chat_takes_part_in_what_a_terminal_holds() -> None:
    script = [Say("for the chat"), Say("for the terminal"), Say("for both"), Say("after its end")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(chat.shown)
            async with lines(home, "--resume", session_of(home)) as terminal:
                await terminal.enter("typed here")
                await terminal.shows("for the terminal")
                async with running(home) as it:
                    await chat.say("said there")
                    await chat.until(lambda: "for both" in chat.text())
                    await terminal.shows("› said there")
                    await terminal.shows("for both")
                    assert "Said in a terminal" not in chat.text()  # it was said before the chat took part
                    await chat.say("/title Another name")
                    await chat.until(lambda: "Another name" in chat.text())
                    await it.gateway.outbox.wait_until_idle(60)
                    os.kill(terminal.process.pid, signal.SIGKILL)
                    await terminal.process.wait()
                    await chat.say("and now?")
                    await chat.until(lambda: "after its end" in chat.text())
    assert [said(server, number) for number in range(4)] == ["hello", "typed here", "said there", "and now?"]
    assert [one.text for one in chat.shown() if "for both" in one.text] == ["for both"]


async def test_what_a_terminal_leaves_when_it_dies_is_answered_by_the_gateway() -> None:
    script = [Say("for the chat"), Say("never", delivery=ReplyDelivery(delay=60)), Say("finished by the gateway")]
    async with ScriptedServer(script) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("hello")
                await chat.until(chat.shown)
            async with lines(home, "--resume", session_of(home)) as terminal:
                await terminal.enter("/title Held")
                await terminal.shows("Held")
                async with running(home):
                    await chat.say("do it")
                    await server.wait_for(2)
                    os.kill(terminal.process.pid, signal.SIGKILL)
                    await chat.until(lambda: "finished by the gateway" in chat.text())
    assert said(server, 2) == "do it"
    assert sum("finished" in one.text for one in chat.shown()) == 1


async def test_a_guest_of_another_process_stops_and_answers() -> None:
    script = [
        Say("first"),
        Say("never", delivery=ReplyDelivery(delay=60)),
        Say(calls=(Call("terminal", {"command": "git push --force"}),)),
        Say("done"),
    ]
    async with ScriptedServer(script) as server:
        with TempHome.for_server(server.url) as home:
            async with lines(home) as terminal, App(home.environ, SessionOptions(cwd=str(home.cwd))) as here:
                await terminal.enter("hello")
                await terminal.shows("first")
                remote = await attach_named_session(here, None, latest=True, asks=True)
                assert remote is not None
                heard: list[Event] = []
                questions: asyncio.Queue[ApprovalAsked] = asyncio.Queue()
                remote.subscribe(heard.append)
                remote.subscribe(lambda one: questions.put_nowait(one) if isinstance(one, ApprovalAsked) else None)
                first = remote.post(InboundMessage(text="wait"))
                await server.wait_for(2)
                assert remote.busy and remote.stop()
                async with asyncio.timeout(60):
                    assert not (await first).reason.is_completed
                second = remote.post(InboundMessage(text="reset it"))
                async with asyncio.timeout(60):
                    asked = await questions.get()
                    remote.approvals.answer(asked.approval_id, scope=AnswerScope.DENY, by="person")
                    assert (await second).text == "done"
                told = Told()
                await remote.run_command("status", "", told)
                assert "mock-model" in "\n".join(told.lines)
                assert len([one for one in heard if isinstance(one, TurnEnded)]) >= 2
                gone = asyncio.Event()
                remote.on_lost.append(gone.set)
                await terminal.enter("/new")
                async with asyncio.timeout(60):
                    await gone.wait()
                await remote.close()


class Place:
    """The sessions of an App, for a guest."""

    def __init__(self, app: App) -> None:
        self.app = app

    @asynccontextmanager
    async def hold(self, session_id: str) -> AsyncIterator[SessionActor]:
        yield self.app.live_session(session_id).actor


async def test_a_guest_hears_where_the_session_stands_before_any_event() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                ours, theirs = socket.socketpair()
                reader, writer = await asyncio.open_unix_connection(sock=ours)
                there, wire = await asyncio.open_unix_connection(sock=theirs)
                hosted = asyncio.create_task(
                    serve_session(Place(app), IpcConnection(reader, writer, frames.request_decoder()), attach_to(actor))
                )
                heard: list[bytes] = []
                while len(heard) < 3:
                    actor.notify(Level.INFO, "something happens all the time")
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0):
                            heard.append(await there.readline())
                wire.close()
                await hosted
                writer.close()
    kinds = [type(frames.response_decoder().decode(line)) for line in heard]
    assert kinds == [frames.AttachedFrame, frames.EventFrame, frames.EventFrame]


def attach_to(actor: SessionActor) -> frames.AttachFrame:
    return frames.AttachFrame(session_id=actor.session_id, asks=False, language="en")


class Told:
    """Keeps what a command says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        del level
        self.lines.append(text)

    def show(self, markdown: str) -> None:
        self.lines.append(markdown)

    async def choose(self, title: str, options: object, *, chosen: int = 0) -> int | None:
        raise AssertionError(title, options, chosen)

    async def confirm(self, question: str) -> bool:
        raise AssertionError(question)

    async def ask(self, question: str, *, default: str = "") -> str | None:
        raise AssertionError(question, default)


async def test_a_terminal_hands_its_session_to_a_chat() -> None:
    """The chat goes on with it while the terminal is open, and after it was closed."""
    async with ScriptedServer([Say("typed"), Say("for both"), Say("alone")]) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("/start")
                await chat.until(lambda: "Hello" in chat.text())
                async with lines(home) as terminal:
                    await terminal.enter("/handoff telegram")
                    await terminal.shows("Nothing was said in this session yet")
                    await terminal.enter("my word is plum")
                    await terminal.shows("typed")
                    await terminal.enter("/handoff discord")
                    await terminal.shows("is not an account, chat or person here")
                    await terminal.enter("/handoff telegram")
                    await terminal.shows(f"Your next message in telegram:{chat.person} goes on")
                    await chat.until(lambda: "was handed over from a terminal" in chat.text())
                    await chat.say("said there")
                    await chat.until(lambda: "for both" in chat.text())
                    await terminal.shows("for both")
                    await terminal.enter("/quit")
                    await terminal.process.wait()
                await chat.say("and now?")
                await chat.until(lambda: "alone" in chat.text())
    assert all("my word is plum" in str(one.messages) for one in server.requests)
    assert "You are in Telegram" in str(server.requests[1].messages)


async def test_a_terminal_hands_its_session_over_while_no_gateway_runs() -> None:
    async with ScriptedServer([Say("hello"), Say("typed"), Say("there")]) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("hi")
                await chat.until(lambda: "hello" in chat.text())
            async with lines(home) as terminal:
                await terminal.enter("my word is plum")
                await terminal.shows("typed")
                await terminal.enter("/handoff telegram")
                await terminal.shows("Once one does, your next message in telegram:")
                await terminal.enter("/restart")
                await terminal.shows("/restart works in a chat on a platform only.")
            async with running(home):
                await chat.until(lambda: "was handed over from a terminal" in chat.text())
                await chat.say("and now?")
                await chat.until(lambda: "there" in chat.text())
    assert "my word is plum" in str(server.requests[2].messages)


async def test_a_chat_resumes_what_a_terminal_holds_and_joins_it() -> None:
    async with ScriptedServer([Say("for the terminal"), Say("for both")]) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with lines(home) as terminal:
                await terminal.enter("typed here")
                await terminal.shows("for the terminal")
                async with running(home) as on:
                    row = await on.app.services.store.sessions.get_latest()
                    assert row is not None
                    await chat.say(f"/resume {row.id}")
                    await chat.until(lambda: "goes on with" in chat.text())
                    await chat.say("said there")
                    await chat.until(lambda: "for both" in chat.text())
                    await terminal.shows("for both")
    assert len(server.requests[1].messages) > len(server.requests[0].messages)
