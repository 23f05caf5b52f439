"""Nothing of ours blocks the event loop while a turn runs."""

from blockbuster import BlockBuster

from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer

CHEAP = {name for name in BlockBuster().functions if name.startswith("os.") and name not in ("os.read", "os.write")}
"""Calls that only look at names of the file system: they cost microseconds, a thread's round trip more."""

MEASURED = {
    "hermes/tools/builtin/read_file.py": {"_read_window"},
    "hermes/execution/supervisor.py": {"_spawn_helper"},
    "hermes/tools/taint.py": {"digest_file"},
    "hermes/sessions/turn_log.py": {"_append_line"},
}
"""Where waiting in the loop is a decision: a small regular file is read, a line is appended, and a program is started,
faster than a thread takes over."""


async def test_a_turn_with_tools_does_not_block() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("read_file", {"path": "a"}), Call("terminal", {"command": "echo hi", "timeout": 2}))),
        Say(calls=(Call("write_file", {"path": "b", "content": "x"}), Call("search_files", {"pattern": "x"}))),
        Say("ok"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "a").write_text("apple")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                guard = BlockBuster("hermes")
                waits = [function for name, function in guard.functions.items() if name not in CHEAP]
                for function in waits:
                    for file, names in MEASURED.items():
                        function.can_block_in(file, names)
                    function.activate()
                try:
                    ended = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                finally:
                    for function in waits:
                        function.deactivate()
    assert ended.text == "ok"
    assert all("internal error" not in text for request in server.requests for text in request.results.values())
