"""The todo list belongs to the session: it is there after a restart, and goes along to a branch."""

from pathlib import Path

from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer

KEY = "sk-or-v1-" + "0123456789abcdef" * 4
WRITE = Call("todo", {"todos": [{"content": f"ask with {KEY}", "status": "completed"}, {"content": "paint\nthe door"}]})
READ = Call("todo", {})
KEPT = "[x] 1: ask with [secret:OPENROUTER_API_KEY]\n[ ] 2: paint\nthe door\n1 of 2 done"


async def ask(home: TempHome, session_id: str, *, branch_of: str = "") -> None:
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        if branch_of:
            await app.services.store.branches.create(branch_of, session_id)
        actor = await app.open_session(session_id, create=not branch_of)
        await actor.post(InboundMessage(text="What is left?", cwd=str(home.cwd)))


async def test_a_list_is_there_after_a_restart_and_in_a_branch_and_holds_no_secret() -> None:
    replies: list[Reply] = [Say(calls=(WRITE,)), Say("Written."), *[Say(calls=(READ,)), Say("So it is.")] * 3]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            home.more["OPENROUTER_API_KEY"] = KEY
            await ask(home, "first")
            await ask(home, "first")
            await ask(home, "second", branch_of="first")
            await ask(home, "third")
            told = [request.conversation[-1].text for request in server.requests[3::2]]
            assert told == [KEPT, KEPT, "The list is empty."]
            assert all(KEY.encode() not in one.read_bytes() for one in Path(home.hermes).rglob("hermes.db*"))
