"""Other models that stand in: in order, across wires, and back to the first at the next turn."""

import pytest

from hermes.core.events import EpochBegan, Event, FellBack
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Fail, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.clock import Clock

RUN = Say("looking", reasoning="hm", calls=(Call("terminal", {"command": "echo ran"}),))
WIRES = ["chat_completions", "responses", "anthropic_messages"]
REFUSED = Fail(403, message="not for you")


def stand_in(server: ScriptedServer, wire: str, model: str) -> dict[str, object]:
    return {"provider": "custom", "model": model, "base_url": server.url, "api_key": "y", "api_mode": wire}


async def turns(
    home: TempHome, *texts: str, clock: Clock | None = None
) -> tuple[list[tuple[ExitReason, str]], list[Event]]:
    events: list[Event] = []
    async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=clock) as app:
        actor = await app.open_session()
        actor.subscribe(events.append)
        ends = [await actor.post(InboundMessage(text=text)) for text in texts]
    return [(ended.reason, ended.text) for ended in ends], events


@pytest.mark.parametrize("first", WIRES)
@pytest.mark.parametrize("second", WIRES)
async def test_a_stand_in_goes_on_in_the_middle_of_a_turn_and_the_next_turn_goes_home(first: str, second: str) -> None:
    own: list[Reply] = [RUN, REFUSED, Say("home again")]
    async with ScriptedServer(own) as server, ScriptedServer([RUN, Say("stood in")]) as other:
        config = {"fallback_providers": [stand_in(other, second, "stand-in")]}
        with TempHome.for_server(server.url, api_mode=first, more_config=config) as home:
            ends, events = await turns(home, "go", "again")
    assert ends == [(ExitReason.TEXT_RESPONSE, "stood in"), (ExitReason.TEXT_RESPONSE, "home again")]
    assert [one.model for one in events if isinstance(one, FellBack)] == ["stand-in"]
    began = [one.reason for one in events if isinstance(one, EpochBegan)]
    assert began == ["fell back: auth", "back to the first model"]
    for request in (*server.requests, *other.requests):
        assert find_problems(request) == []
    # To each model everything it has seen stands unchanged; back home even the cached prefix fits.
    check_prefixes(server.requests)
    check_prefixes(other.requests)
    assert b"stood in" in server.requests[2].body


async def test_stand_ins_are_tried_in_order_and_one_that_is_not_usable_is_named_and_passed() -> None:
    async with ScriptedServer([REFUSED]) as server, ScriptedServer([REFUSED]) as b, ScriptedServer([Say("c")]) as c:
        config = {
            "fallback_providers": [
                stand_in(b, WIRES[0], "b"),
                {"provider": "nobody-knows", "model": "x"},
                stand_in(c, WIRES[0], "c"),
            ]
        }
        with TempHome.for_server(server.url, more_config=config) as home:
            ends, events = await turns(home, "go")
    assert ends == [(ExitReason.TEXT_RESPONSE, "c")]
    assert [one.model for one in events if isinstance(one, FellBack)] == ["b", "c"]
    assert any("nobody-knows" in str(event) for event in events)


async def test_when_nobody_can_the_last_failure_names_the_end() -> None:
    async with ScriptedServer([REFUSED]) as server, ScriptedServer([Fail(402, message="no money")]) as other:
        config = {"fallback_model": stand_in(other, WIRES[0], "b")}
        with TempHome.for_server(server.url, more_config=config) as home:
            ends, _ = await turns(home, "go")
    assert ends == [(ExitReason.PROVIDER_ERROR, "")]


async def test_a_model_that_only_failed_for_now_is_called_again_where_no_other_can_answer() -> None:
    busy = Fail(503, message="busy", headers={"retry-after": "0"})
    replies: list[Reply] = [busy, busy, busy, busy, Say("after all"), Say("well")]
    async with ScriptedServer(replies) as server, ScriptedServer([Fail(401)]) as other:
        config = {"fallback_providers": [stand_in(other, WIRES[0], "b")]}
        with TempHome.for_server(server.url, more_config=config) as home:
            ends, events = await turns(home, "go", "again", clock=ManualClock(auto=True))
        check_prefixes(server.requests)
    assert ends == [(ExitReason.TEXT_RESPONSE, "after all"), (ExitReason.TEXT_RESPONSE, "well")]
    assert [one.model for one in events if isinstance(one, FellBack)] == ["b", "mock-model"]
    assert (len(server.requests), len(other.requests)) == (6, 1)


async def test_the_first_model_is_tried_exactly_as_often_as_configured() -> None:
    always = ScriptedModel([], then=Fail(500))
    async with ScriptedServer(always) as server, ScriptedServer([Say("b")]) as other:
        config = {"agent": {"api_max_retries": 1}, "fallback_providers": [stand_in(other, WIRES[0], "b")]}
        with TempHome.for_server(server.url, more_config=config) as home:
            ends, _ = await turns(home, "go")
        assert ends == [(ExitReason.TEXT_RESPONSE, "b")]
        assert len(server.requests) == 1
