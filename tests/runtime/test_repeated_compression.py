"""Twenty summaries in a row: what must not be lost is still sent, requests are legal, all of it can be undone."""

import itertools

import pytest

from hermes.core.events import EpochBegan, Event, MessageAppended
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.messages import encode_message
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import PrefixError, check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Reply, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.runtime.planted_conversation import (
    FACTS,
    PATHS,
    REQUESTS,
    ROUNDS,
    RULES,
    converse,
    extract,
    is_summary,
    plant_files,
    user_text,
)

pytestmark = pytest.mark.slow

COMPRESSIONS = 20
WINDOW = 24_000


def reply(request: RecordedRequest) -> Reply:
    return extract(request) if is_summary(request) else converse(request)


def config(home: TempHome) -> None:
    model = {**dict(home.config or {})["model"], "context_length": WINDOW}  # type: ignore[dict-item]
    home.config = {**(home.config or {}), "model": model, "compression": {"protect_last_n": 4}}


async def talk(actor: SessionActor, home: TempHome, server: ScriptedServer) -> int:
    """Go on until the conversation was summarised so often; how many rounds that took."""
    number = 0
    while sum(is_summary(request) for request in server.requests) < COMPRESSIONS:
        assert number < 600
        ended = await actor.post(InboundMessage(text=user_text(number), cwd=str(home.cwd)))
        assert ended.reason.is_completed, ended
        number += 1
    return number


def appended(events: list[Event]) -> list[bytes]:
    return [encode_message(event.message) for event in events if isinstance(event, MessageAppended)]


@pytest.mark.parametrize("wire", ["chat_completions", "responses", "anthropic_messages"])
async def test_twenty_summaries_lose_nothing_that_must_stay(wire: str) -> None:
    events: list[Event] = []
    async with ScriptedServer(ScriptedModel(reply)) as server:
        home = TempHome.for_server(server.url, api_mode=wire)
        config(home)
        with home:
            plant_files(home.cwd)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                rounds = await talk(actor, home, server)
                assert rounds > ROUNDS
                await actor.post(InboundMessage(text=user_text(rounds), cwd=str(home.cwd)))
                name, said = actor.session_id, appended(events)
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session(name)
                began = sum(isinstance(one, EpochBegan) for one in events)
                for _ in range(began):
                    assert await actor.compress(undo=True)
                assert not await actor.compress(undo=True)
                assert [encode_message(one) for one in actor.conversation.messages] == said
            store = await Store.open(home.hermes, SystemClock())
            assert [encode_message(row.message) for row in await store.messages.read(name)] == said
            await store.close()
        own = [request for request in server.requests if not is_summary(request)]
        check_last(own[-1])
        check_epochs(own, began)


def check_last(request: RecordedRequest) -> None:
    """What must stand in what is sent after all compressions."""
    texts = "\n".join(step.text for step in request.conversation)
    assert [rule for rule in RULES if rule not in texts] == []
    assert [one for one in REQUESTS if one not in texts] == []
    assert [path for path in PATHS if path not in request.body.decode()] == []
    survived = [fact for fact in FACTS if fact in texts]
    assert len(survived) >= 20, f"{len(survived)} of {len(FACTS)} facts"


def check_epochs(own: list[RecordedRequest], began: int) -> None:
    """Every request is legal and fits; it begins with the one before, except where an epoch began."""
    anew = 0
    for before, after in itertools.pairwise(own):
        assert find_problems(after) == [] and after.size < 4 * WINDOW
        try:
            check_prefixes([before, after])
        except PrefixError:
            anew += 1
    assert anew == began
