"""Many sessions in one process: what they share, what each has afresh, and what is left of those that were closed."""

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from hermes.config.trusted_folders import set_trust
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import RoundsModel
from hermes.testing.server import ScriptedServer

pytestmark = pytest.mark.slow

SKILL = "---\nname: {name}\ndescription: Marked {mark}.\n---\nDo it.\n"


def app_in(home: TempHome) -> App:
    return App(home.environ, SessionOptions(platform="api_server", cwd=str(home.cwd)))


def rounds(count: int) -> RoundsModel:
    return RoundsModel(count, tool="read_file", arguments='{"path": "notes.txt", "offset": {n}, "limit": 1}')


async def prompt_of(app: App) -> str:
    actor = await app.open_session()
    system = actor.conversation.frame.system
    await app.close_session(actor)
    return system


async def test_sixty_at_once_are_all_answered() -> None:
    async with ScriptedServer(rounds(3)) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "notes.txt").write_text("one\ntwo\nthree\n")
            async with app_in(home) as app:

                async def user(number: int) -> ExitReason:
                    actor = await app.open_session()
                    ended = await actor.post(InboundMessage(text=f"I am {number}."))
                    await app.close_session(actor)
                    return ended.reason

                assert {*await asyncio.gather(*map(user, range(60)))} == {ExitReason.TEXT_RESPONSE}
                rows = await app.services.store.sessions.list_recent(limit=100)
        assert (len(rows), len(server.requests)) == (60, 240)
        for number in range(60):
            said = f"I am {number}.".encode()
            assert check_prefixes([request for request in server.requests if said in request.body]) == 3
        first = [request.body for request in server.requests if not request.result_count]
        assert len({body.partition(b'"I am ')[0] for body in first}) == 1


async def test_a_closed_session_is_gone_at_once() -> None:
    async with ScriptedServer(rounds(1)) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "notes.txt").write_text("one\n")
            async with app_in(home) as app:
                gc.collect()
                gc.disable()  # what the collector would have to find is what this looks for
                try:
                    assert [ref() for ref in [await _lived(app) for _ in range(3)]] == [None] * 3
                finally:
                    gc.enable()


async def _lived(app: App) -> "weakref.ref[SessionActor]":
    """What is left of a session that had a turn and was closed."""
    actor = await app.open_session()
    assert (await actor.post(InboundMessage(text="Read it."))).reason is ExitReason.TEXT_RESPONSE
    left = weakref.ref(actor)
    await app.close_session(actor)
    del actor
    for _ in range(3):
        await asyncio.sleep(0)  # what was cancelled ends
    return left


async def test_the_next_session_sees_what_a_person_has_changed(tmp_path: Path) -> None:
    outside = (tmp_path / "skills").resolve()
    with TempHome.for_server(
        "http://127.0.0.1:9/v1", more_config={"skills": {"external_dirs": [str(outside)]}}
    ) as home:
        async with app_in(home) as app:
            assert "in untrusted folders" not in await prompt_of(app)
            _skill(outside, "walk-the-dog", "a")
            assert "in untrusted folders" in await prompt_of(app)
            set_trust(home.hermes / "trust.json", str(outside), trusted=True)
            assert "- walk-the-dog: Marked a." in await prompt_of(app)
            _skill(outside, "walk-the-dog", "other")
            assert "- walk-the-dog: Marked other." in await prompt_of(app)
            set_trust(home.hermes / "trust.json", str(outside), trusted=False)
            assert "walk-the-dog" not in await prompt_of(app)
            (home.hermes / "SOUL.md").write_text("You are somebody else.")
            assert (await prompt_of(app)).startswith("You are somebody else.")


def _skill(folder: Path, name: str, mark: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "SKILL.md").write_text(SKILL.format(name=name, mark=mark))
