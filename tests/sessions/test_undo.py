"""Undo as a person meets it: files and conversation go back together, nothing of somebody else's is lost."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes.admin.sessions import open_session_admin
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.events import EpochBegan, Event, Notice
from hermes.core.messages import ImagePart, user_message
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.sessions.undo import SessionUndo
from hermes.store.messages import TranscriptEntry
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer

pytestmark = pytest.mark.slow

WIRES = ("chat_completions", "responses", "anthropic_messages")


def write(path: str, content: str) -> Say:
    return Say(calls=(Call("write_file", {"path": path, "content": content}),))


def run(command: str) -> Say:
    return Say(calls=(Call("terminal", {"command": command}),))


def patch(text: str) -> Say:
    return Say(calls=(Call("patch", {"mode": "patch", "patch": text}),))


@dataclass
class Sitting:
    """An open session with a model that says what it is told to."""

    app: App
    actor: SessionActor
    server: ScriptedServer
    home: TempHome
    events: list[Event] = field(default_factory=list)

    @property
    def desk(self) -> SessionUndo:
        return self.app.session_undo(self.actor)

    @property
    def work(self) -> Path:
        return self.home.cwd

    async def say(self, text: str) -> str:
        ended = await self.actor.post(InboundMessage(text=text, cwd=str(self.work)))
        assert ended.reason is ExitReason.TEXT_RESPONSE, ended
        return ended.text

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


@asynccontextmanager
async def sitting(
    replies: list[Reply], *, more: dict[str, object] | None = None, api_mode: str = "", allow: tuple[str, ...] = ("*",)
) -> AsyncIterator[Sitting]:
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=more, api_mode=api_mode) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), allow=allow)) as app:
                actor = await app.open_session()
                here = Sitting(app, actor, server, home)
                actor.subscribe(here.events.append)
                yield here


async def test_a_turn_that_writes_nothing_leaves_nothing() -> None:
    async with sitting([run("ls -la; git status; cat x 2>/dev/null"), Say("done")]) as here:
        await here.say("look")
        assert await here.desk.list_checkpoints() == []
        assert not here.home.hermes.joinpath("checkpoints").exists()


async def test_a_changed_a_created_and_a_deleted_file_come_back() -> None:
    moved = "*** Begin Patch\n*** Update File: a.txt\n-one\n+two\n*** Delete File: gone.txt\n*** End Patch"
    replies: list[Reply] = [patch(moved), write("new/deep/b.txt", "made\n"), Say("done")]
    async with sitting(replies) as here:
        (here.work / "a.txt").write_bytes(b"one\n")
        (here.work / "gone.txt").write_bytes(b"precious\n")
        os.chmod(here.work / "gone.txt", 0o640)
        await here.say("change things")
        assert (here.work / "a.txt").read_text() == "two\n" and not (here.work / "gone.txt").exists()
        (line,) = await here.desk.list_checkpoints()
        assert (line.number, line.said, line.files) == (1, "change things", ("a.txt", "gone.txt", "new/deep/b.txt"))
        found = {one.path: one for one in await here.desk.diff_since()}
        assert found["a.txt"].text == "@@ -1 +1 @@\n-one\n+two"
        assert (found["gone.txt"].change, found["new/deep/b.txt"].change) == ("deleted", "created")
        done = await here.desk.undo_turns()
        assert (done.text, done.turns, done.redo) == ("change things", 1, True)
        assert done.files.restored == ("a.txt", "gone.txt") and done.files.deleted == ("new/deep/b.txt",)
        assert done.files.left == () and done.files.lost == ()
        assert sorted(one.name for one in here.work.iterdir()) == ["a.txt", "gone.txt"]
        assert (here.work / "gone.txt").stat().st_mode & 0o777 == 0o640
        assert here.actor.conversation.messages == []
        again = await here.desk.redo_turns()
        assert again.files.restored == ("a.txt", "new/deep/b.txt") and again.files.deleted == ("gone.txt",)
        assert (here.work / "new/deep/b.txt").read_text() == "made\n" and not (here.work / "gone.txt").exists()
        assert len(here.actor.conversation.messages) == 6


async def test_what_a_command_did_is_undone_as_a_whole() -> None:
    command = "echo more >> a; rm b; mkdir -p d/e; echo x > d/e/f; ln -s a link; chmod 700 c; mv 名 名2; rmdir empty"
    async with sitting([run("cat a"), run(command), run("echo third >> a"), Say("done")]) as here:
        for name in "abc":
            (here.work / name).write_text(f"{name}\n")
            os.chmod(here.work / name, 0o644)
        (here.work / "名").write_bytes(b"\xff\x00")
        (here.work / "empty").mkdir()
        (here.work / ".env").write_text("X=1\n")
        before = {one.name: one.read_bytes() for one in here.work.iterdir() if one.is_file()}
        await here.say("work")
        (line,) = await here.desk.list_checkpoints()
        assert set(line.files) == {"a", "b", "c", "d/e/f", "link", "名", "名2"}
        done = await here.desk.restore_files()
        assert set(done.restored) == {"a", "b", "c", "名"} and set(done.deleted) == {"d/e/f", "link", "名2"}
        assert {one.name: one.read_bytes() for one in here.work.iterdir() if one.is_file()} == before
        assert (here.work / "c").stat().st_mode & 0o777 == 0o644
        assert (here.work / "empty").is_dir() and not (here.work / "d").exists()
        first, second = await here.desk.list_checkpoints()
        assert first.restore and not first.unfinished and second.id == line.id
        assert (await here.desk.restore_files()).deleted == ("b", "名")
        assert (here.work / "a").read_text() == "a\nmore\nthird\n"


async def test_what_somebody_else_changed_is_left_until_it_is_asked_for() -> None:
    async with sitting([write("a", "agent\n"), Say("one"), write("b", "agent\n"), Say("two"), Say("three")]) as here:
        await here.say("write a")
        (here.work / "a").write_text("mine\n")
        await here.say("write b")
        done = await here.desk.restore_files(2)
        assert done.deleted == ("b",)
        assert [(one.path, one.forced) for one in done.left] == [("a", True)]
        assert (here.work / "a").read_text() == "mine\n"
        done = await here.desk.restore_files(3, files=["a"], force=True)
        assert done.deleted == ("a",)
        assert (await here.desk.restore_files(1)).restored == ("a",)
        assert (here.work / "a").read_text() == "mine\n"
        await here.say("what now")
        assert "The user put files back" in here.server.requests[-1].body.decode()


async def test_a_large_file_is_named_and_not_copied() -> None:
    replies: list[Reply] = [run("printf x >> big; rm big2; head -c 11000000 /dev/zero > made"), Say("done")]
    async with sitting(replies) as here:
        for name in ("big", "big2"):
            (here.work / name).write_bytes(b"\0" * 11_000_000)
        await here.say("grow it")
        done = await here.desk.restore_files()
        left = {one.path: one.why for one in done.left}
        assert "would lose it for good" in left.pop("made") and done.deleted == done.lost == ()
        assert left == dict.fromkeys(("big", "big2"), "it was too large for a copy")
        stored = sum(one.stat().st_size for one in here.home.hermes.joinpath("checkpoints").rglob("*"))
        assert stored < 100_000


async def test_no_copy_of_keys_is_made() -> None:
    async with sitting([run("rm -f .env id_rsa key.pem plain"), Say("done")]) as here:
        for name in (".env", "id_rsa", "key.pem", "plain"):
            (here.work / name).write_text(f"SECRET of {name}\n")
        await here.say("clean up")
        kept = {one.path: one.why for one in (await here.desk.restore_files()).left}
        assert set(kept) == {".env", "id_rsa", "key.pem"}
        assert (here.work / "plain").read_text() == "SECRET of plain\n"
        contents = here.home.hermes / "checkpoints" / "objects"
        import zlib

        stored = [zlib.decompress(one.read_bytes()) for one in contents.rglob("*") if one.is_file()]
        assert not any(b"SECRET of ." in one or b"SECRET of id" in one for one in stored)


async def test_what_git_ignores_and_heavy_folders_are_left_out() -> None:
    async with sitting([run("echo x | tee build/out node_modules/m src/log.txt src/a.py"), Say("done")]) as here:
        for folder in (".git", "build", "node_modules", "src"):
            (here.work / folder).mkdir()
        (here.work / ".gitignore").write_text("/build\n*.txt\n")
        (here.work / "src" / "a.py").write_text("old\n")
        await here.say("build")
        (line,) = await here.desk.list_checkpoints()
        assert line.files == ("src/a.py",)


async def test_what_was_deleted_without_a_copy_is_named_and_promised_to_nobody() -> None:
    replies: list[Reply] = [run("rm -rf node_modules"), Say("gone"), run("rm -r src"), Say("done")]
    async with sitting(replies, more={"terminal": {"backend": "sandbox"}}, allow=()) as here:
        for name in (".git/HEAD", "node_modules/m/index.js", "src/a.py"):
            (here.work / name).parent.mkdir(parents=True)
            (here.work / name).write_text("x\n")
        await here.say("clean up")
        told = "\n".join(here.notices)
        assert "No copy is kept of" in told and "node_modules: /undo cannot" in told and "brings it back" not in told
        await here.say("and more")
        assert sum("was copied first" in one for one in here.notices) == 1
        done = await here.desk.undo_turns(2)
        assert done.files.restored == ("src/a.py",)
        assert [(one.path, one.why) for one in done.files.left] == [("node_modules", "no copy of it was kept")]


async def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs\n")
    replies: list[Reply] = [run(f"echo x > d/f; rm -r d; ln -s {outside} d"), Say("done")]
    async with sitting(replies) as here:
        (here.work / "d").mkdir()
        (here.work / "d" / "f").write_text("mine\n")
        (here.work / "out").symlink_to(outside)
        await here.say("swap")
        done = await here.desk.restore_files(files=["d/f"])
        assert (outside / "f").read_text() == "theirs\n"
        assert done.restored == () and [one.path for one in done.left] == ["d/f"]
        await here.desk.restore_files(files=["d"])
        assert (here.work / "d" / "f").read_text() == "mine\n"
        assert (outside / "f").read_text() == "theirs\n"
        digests = [one for one in here.home.hermes.joinpath("checkpoints", "objects").rglob("*") if one.is_file()]
        import zlib

        assert not any(zlib.decompress(one.read_bytes()) == b"theirs\n" for one in digests)


@pytest.mark.parametrize("wire", WIRES)
async def test_after_an_undo_the_next_request_is_legal_and_begins_as_before(wire: str) -> None:
    replies: list[Reply] = [
        *(Say("one", reasoning="hm"), run("echo x > f"), Say("two"), write("g", "y"), Say("three"), Say("four")),
        *(Say("five"), Say("six")),
    ]
    async with sitting(replies, api_mode=wire) as here:
        for text in ("first", "second", "third"):
            await here.say(text)
        done = await here.desk.undo_turns(2)
        assert [one.text for one in done.said] == ["second", "third"] and done.text == "second"
        assert not (here.work / "f").exists() and not (here.work / "g").exists()
        began = [event for event in here.events if isinstance(event, EpochBegan)]
        assert [(one.reason, one.bytes) for one in began] == [("undone", 0)]
        await here.say("fourth")
        requests = here.server.requests
        assert find_problems(requests[-1]) == [] and b"second" not in requests[-1].body
        check_prefixes([requests[0], requests[-1]])
        await here.desk.undo_turns(1, files=False)
        await here.say("fifth")
        check_prefixes([requests[0], here.server.requests[-1]])
        with pytest.raises(NotFoundError):
            await here.desk.redo_turns()


async def test_an_undone_conversation_can_be_brought_back_until_something_is_said() -> None:
    async with sitting([Say("one"), Say("two"), Say("three"), Say("four")]) as here:
        for text in ("first", "second", "zebra"):
            await here.say(text)
        store = here.app._services.store
        assert len(await store.search.find("zebra")) == 1
        await here.desk.undo_turns()
        assert await store.search.find("zebra") == []
        await here.desk.undo_turns()
        assert (await here.desk.redo_turns()).messages == 2
        assert (await here.desk.redo_turns()).messages == 2
        assert [one.text for one in here.actor.conversation.messages][-2:] == ["zebra", "three"]
        assert len(await store.search.find("zebra")) == 1
        await here.say("go on")
        check_prefixes([here.server.requests[2], here.server.requests[3]])
        with pytest.raises(NotFoundError):
            await here.desk.redo_turns()
        assert (await here.desk.undo_turns(99)).turns == 4
        with pytest.raises(NotFoundError):
            await here.desk.undo_turns()


async def test_nothing_is_taken_back_while_a_turn_runs() -> None:
    async with sitting([Say("one"), Say("slow", delivery=ReplyDelivery(hold_at=0)), Say("x")]) as here:
        await here.say("first")
        waiting = here.actor.post(InboundMessage(text="second"))
        await here.server.wait_held(await here.server.wait_for(2))
        for refused in (here.desk.undo_turns(), here.desk.restore_files(), here.desk.create_branch()):
            with pytest.raises(BusyError):
                await refused
        here.server.release()
        await waiting
        with pytest.raises(UsageError):
            await here.desk.undo_turns(0)


async def test_retry_gives_words_and_pictures_and_leaves_files() -> None:
    picture = ImagePart(data="aGVsbG8=")
    async with sitting([write("a", "x"), Say("bad"), Say("better")]) as here:
        await here.actor.post(InboundMessage(text="draw", images=(picture,), cwd=str(here.work)))
        again = await here.desk.undo_last_turn()
        assert (again.text, again.images) == ("draw", (picture,))
        assert (here.work / "a").exists()
        assert (await here.actor.post(again)).text == "better"


async def test_without_checkpoints_only_the_conversation_goes_back() -> None:
    async with sitting([write("a", "x"), Say("done")], more={"checkpoints": {"enabled": False}}) as here:
        await here.say("write")
        with pytest.raises(UsageError):
            await here.desk.restore_files()
        assert (await here.desk.undo_turns()).files.restored == ()
        assert (here.work / "a").exists()


async def test_in_a_sandbox_too_and_a_deleted_session_leaves_no_copy() -> None:
    replies: list[Reply] = [run("echo new > a; mkdir d && cp a d/b"), Say("done")]
    async with sitting(replies, more={"terminal": {"backend": "auto"}}) as here:
        (here.work / "a").write_text("old\n")
        await here.say("work")
        done = await here.desk.undo_turns()
        assert done.files.restored == ("a",) and done.files.deleted == ("d/b",)
        assert [one.name for one in here.work.iterdir()] == ["a"]
        name = here.actor.session_id
        await here.app.close_session(here.actor)
        store = here.app._services.store
        await store.checkpoints.set_folder_base(str(here.work), "")
        async with open_session_admin(here.home.environ) as sessions:
            await sessions.delete_session(name)
        assert [one for one in here.home.hermes.joinpath("checkpoints", "objects").rglob("*") if one.is_file()] == []


async def test_files_of_a_sessions_own_tmp_are_said_to_be_so_and_named_as_the_agent_names_them() -> None:
    name = "/tmp/hermes-test-notes/a.txt"
    change = patch(f"*** Begin Patch\n*** Update File: {name}\n@@\n-one\n+two\n*** End Patch\n")
    replies: list[Reply] = [write(name, "one\n"), Say("written"), change, Say("done"), write("a", "x\n"), Say("here")]
    async with sitting(replies, more={"terminal": {"backend": "auto"}}) as here:
        if here.app.live_session(here.actor).tools.context.backend.name != "sandbox":
            pytest.skip("there is no sandbox here")
        await here.say("write")
        assert "(/tmp is this session's own and goes with it)" in str(here.server.requests[-1].results)
        await here.say("change")
        assert "(/tmp is this session's own and goes with it)" in str(here.server.requests[-1].results)
        assert not Path(name).exists()
        assert [line.files for line in await here.desk.list_checkpoints()] == [(name,), (name,)]
        assert [one.path for one in await here.desk.diff_since(files=[name])] == [name]
        assert (await here.desk.undo_turns()).files.restored == (name,)
        await here.say("here")
        assert "session's own" not in list(here.server.requests[-1].results.values())[-1]


async def test_a_turn_of_a_dead_process_is_not_taken_back_before_it_has_ended() -> None:
    async with sitting([Say("one"), Say("two")]) as here:
        await here.say("first")
        store, name = here.app._services.store, here.actor.session_id
        await here.app.close_session(here.actor)
        asked = user_message("second")
        await store.messages.start_turn(
            TranscriptEntry(session_id=name, epoch=1, turn_id="turn_x", messages=(asked,), fence=1)
        )
        here.actor = await here.app.open_session(name)
        with pytest.raises(BusyError):
            await here.desk.undo_turns()
        ending = here.actor.resume()
        assert ending is not None and (await ending).text == "two"
        assert (await here.desk.undo_turns()).text == "second"
