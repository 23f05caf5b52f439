"""A folder's own words are told when the work gets there, once, and only where somebody vouches for them."""

from hermes.config.trusted_folders import set_trust
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer

READ = Say(calls=(Call("read_file", {"path": "api/v1/a.py"}),))


async def talk(home: TempHome, text: str, *, latest: bool = False) -> None:
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session(latest=latest)
        await actor.post(InboundMessage(text=text, cwd=str(home.cwd)))


async def sent(*, trusted: bool) -> list[str]:
    async with ScriptedServer([READ, Say("ok"), READ, Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "api" / "v1").mkdir(parents=True)
            (home.cwd / "AGENTS.md").write_text("Rules of the root.")
            (home.cwd / "api" / "AGENTS.md").write_text("Rules of the api.")
            (home.cwd / "api" / "v1" / "CLAUDE.md").write_text("Rules of v1.")
            (home.cwd / "api" / "v1" / "a.py").write_text("pass\n")
            (home.cwd / "api" / "v1" / "vendor" / ".git").mkdir(parents=True)
            if trusted:
                set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)
            await talk(home, "one")
            await talk(home, "two", latest=True)
        check_prefixes(server.requests)
        return [request.body.decode() for request in server.requests]


async def test_it_is_told_with_the_result_and_once_over_restarts() -> None:
    bodies = await sent(trusted=True)
    assert "Rules of the api." not in bodies[0] and "Rules of the root." in bodies[0]
    assert bodies[1].index("Rules of the api.") < bodies[1].index("Rules of v1.")
    assert [bodies[3].count(words) for words in ("Rules of the root.", "Rules of the api.", "Rules of v1.")] == [
        1,
        1,
        1,
    ]


async def test_nobody_vouches_and_nothing_is_told() -> None:
    assert not any("Rules of" in body for body in await sent(trusted=False))
