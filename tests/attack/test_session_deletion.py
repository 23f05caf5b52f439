"""`hermes sessions delete` promises that every word of a session goes."""

import json

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes


async def test_a_deleted_session_leaves_its_words_in_no_file() -> None:
    word = "kanarien" + "vogel"
    calls = tuple(Call("terminal", {"command": f"yes {word} {n} | head -n 1900"}) for n in range(9))
    replies: list[Reply] = [Say(calls=calls), Say(word)]
    async with ScriptedServer(replies) as server:
        config = {"agent": {"save_trajectories": True, "tool_delay": 0}}
        with TempHome.for_server(server.url, more_config=config) as home:
            await run_hermes(home, "-z", f"find the {word}")
            listed = await run_hermes(home, "sessions", "list", "--json")
            session = json.loads(listed.stdout)[0]["id"]
            assert any((home.hermes / "spill").rglob("*.txt"))
            assert any((home.hermes / "trajectories").iterdir())
            done = await run_hermes(home, "sessions", "delete", session, "--yes")
            assert done.code == 0
            files = [path for path in home.hermes.rglob("*") if path.is_file()]
            assert [path.name for path in files if word.encode() in path.read_bytes()] == []
            assert [path.name for path in files if session in path.name] == []
