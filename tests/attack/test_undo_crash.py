"""Killed in the middle of taking a checkpoint, of a turn that has one, and of putting files back: nothing is half."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

MANY = 1_200
SCRIPT = """
import asyncio, os, sys
from hermes.sessions.options import SessionOptions
from hermes.sessions.app import App
from hermes.runtime.mailbox import InboundMessage

async def main(name, what):
    async with App(dict(os.environ), SessionOptions(cwd=os.getcwd(), allow=("*",))) as app:
        actor = await app.open_session(name, create=True)
        if what == "rollback":
            await app.session_undo(actor).restore_files(1)
        else:
            await actor.post(InboundMessage(text=what, cwd=os.getcwd()))

asyncio.run(main(*sys.argv[1:]))
"""


def run(command: str) -> Say:
    return Say(calls=(Call("terminal", {"command": command}),))


def filled(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"f{number}").write_text(f"{number}\n")


def contents(folder: Path) -> list[str]:
    return [one.read_text() for one in sorted(folder.iterdir())]


async def killed(home: TempHome, name: str, what: str, when: Callable[[], bool]) -> None:
    """Run one step in a process of its own, and kill that as soon as `when` says so."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT, name, what, cwd=home.cwd, env=home.environ
    )
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(when):
            assert process.returncode is None, "it has ended before it could be killed"
            await asyncio.sleep(0)
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def test_killed_while_a_checkpoint_is_taken() -> None:
    replies: list[Reply] = [run("rm f*"), run("rm f*"), Say("done")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            filled(home.cwd, MANY)
            objects = home.hermes / "checkpoints" / "objects"
            await killed(home, "s1", "clean", lambda: len(list(objects.glob("*/*"))) > MANY // 10)
            assert len(list(home.cwd.iterdir())) == MANY
            store = await Store.open(home.hermes, SystemClock())
            assert await store.checkpoints.list_of_session("s1") == []
            await store.close()
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=("*",))) as app:
                actor = await app.open_session("s1")
                ending = actor.resume()
                assert ending is not None and (await ending).text == "done"
                assert list(home.cwd.iterdir()) == []
                done = await app.session_undo(actor).undo_turns()
                assert len(done.files.restored) == MANY and done.text == "clean"
            assert sorted(contents(home.cwd)) == sorted(f"{number}\n" for number in range(MANY))


async def test_killed_in_the_middle_of_a_turn_that_goes_on_later() -> None:
    held = Say("never", delivery=ReplyDelivery(hold_at=0))
    replies: list[Reply] = [run("rm f1; echo x > f2; echo new > f9"), held, run("rm f3"), Say("done")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            filled(home.cwd, 5)
            await killed(home, "s1", "work", lambda: len(server.requests) == 2)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=("*",))) as app:
                actor = await app.open_session("s1")
                ending = actor.resume()
                assert ending is not None and (await ending).text == "done"
                (line,) = await app.session_undo(actor).list_checkpoints()
                assert line.files == ("f1", "f2", "f3", "f9")
                done = await app.session_undo(actor).undo_turns()
                assert done.files.restored == ("f1", "f2", "f3") and done.files.deleted == ("f9",)
            assert contents(home.cwd) == [f"{number}\n" for number in range(5)]


async def test_killed_while_files_are_put_back() -> None:
    async with ScriptedServer([run("for f in f*; do echo x > $f; done; echo made > new"), Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            filled(home.cwd, MANY)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=("*",))) as app:
                actor = await app.open_session("s1", create=True)
                await actor.post(InboundMessage(text="spoil", cwd=str(home.cwd)))

            def some_are_back() -> bool:
                return (home.cwd / "f105").read_text() != "x\n"

            await killed(home, "s1", "rollback", some_are_back)
            assert any((home.cwd / f"f{number}").read_text() == "x\n" for number in range(MANY))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session("s1")
                desk = app.session_undo(actor)
                first, second = await desk.list_checkpoints()
                assert first.unfinished and not second.unfinished
                done = await desk.finish_restore()
                assert done.left == () and 0 < len(done.restored) < MANY
                assert len(list(home.cwd.iterdir())) == MANY
                assert not (await desk.list_checkpoints())[0].unfinished
                assert [(home.cwd / f"f{number}").read_text() for number in range(MANY)] == [
                    f"{number}\n" for number in range(MANY)
                ]
                assert not (home.cwd / "new").exists()
                assert (await desk.finish_restore()).restored == ()


async def test_a_putting_back_that_was_cut_short_can_be_taken_back() -> None:
    async with ScriptedServer([run("for f in f*; do echo x > $f; done"), Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            filled(home.cwd, MANY)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=("*",))) as app:
                actor = await app.open_session("s1", create=True)
                await actor.post(InboundMessage(text="spoil", cwd=str(home.cwd)))
            await killed(home, "s1", "rollback", lambda: (home.cwd / "f105").read_text() != "x\n")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session("s1")
                done = await app.session_undo(actor).restore_files(1)
                assert done.left == () and done.restored
                assert not any(line.unfinished for line in await app.session_undo(actor).list_checkpoints())
                assert (await app.session_undo(actor).finish_restore()).restored == ()
            assert set(contents(home.cwd)) == {"x\n"}
            assert len(list(home.cwd.iterdir())) == MANY
