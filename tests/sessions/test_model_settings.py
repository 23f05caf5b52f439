"""Settings of model calls, through the whole program: streams, and how long a server may take."""

import time

import pytest

from hermes.core.events import EpochBegan, Event
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

WIRES = ["chat_completions", "responses", "anthropic_messages"]


def home_for(server: ScriptedServer, wire: str, **model: object) -> TempHome:
    """A home with these settings of the model."""
    return TempHome.for_server(
        server.url,
        more_config={
            "model": {
                "default": "mock-model",
                "provider": "custom",
                "base_url": server.url,
                "api_key": "x",
                "api_mode": wire,
                **model,
            },
            "agent": {"api_max_retries": 1},
        },
    )


@pytest.mark.parametrize("wire", WIRES)
async def test_answers_come_whole_where_the_person_wants_it(wire: str) -> None:
    replies = [Say("looking", reasoning="hm", calls=(Call("terminal", {"command": "echo ran"}),)), Say("it ran")]
    async with ScriptedServer(replies) as server:
        with home_for(server, wire, stream=False) as home:
            done = await run_hermes(home, "-z", "go")
    assert (done.stdout.strip(), done.code) == ("it ran", 0)
    assert [request.head.stream for request in server.requests] == [False, False]
    assert all(request.headers["accept"] == "application/json" for request in server.requests)
    assert [find_problems(request) for request in server.requests] == [[], []]
    check_prefixes(server.requests)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_does_not_stream_is_asked_once_more_for_whole_answers(wire: str) -> None:
    def reply(request: RecordedRequest) -> Reply:
        return Fail(400, message="Streaming is not supported by this model.") if request.head.stream else Say("whole")

    events: list[Event] = []
    async with ScriptedServer(ScriptedModel(reply)) as server:
        with home_for(server, wire) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(events.append)
                ends = [await actor.post(InboundMessage(text=text)) for text in ("go", "again")]
    assert [(ended.reason, ended.text) for ended in ends] == [(ExitReason.TEXT_RESPONSE, "whole")] * 2
    assert [request.head.stream for request in server.requests] == [True, False, False]
    assert [event.reason for event in events if isinstance(event, EpochBegan)] == ["rewritten: whole_answers"]


@pytest.mark.parametrize("limit", [0.3, {"read": 0.3}])
async def test_a_server_that_stalls_costs_what_the_setting_says(limit: object) -> None:
    stalls = Say("never", delivery=ReplyDelivery(head=False, ending=Ending.HANG))
    async with ScriptedServer(ScriptedModel([], then=stalls)) as server:
        with home_for(server, WIRES[0], timeout=limit) as home:
            began = time.monotonic()
            done = await run_hermes(home, "-z", "go")
            took = time.monotonic() - began
    assert "sent nothing for 0.3 s" in done.stderr and done.code != 0
    assert len(server.requests) == 1 and took < 60


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"timeout": 0}, "`model.timeout.read` must be above zero, not 0.0."),
        ({"timeout": -3}, "`model.timeout.read` must be above zero, not -3.0."),
        ({"timeout": {"connect": float("inf")}}, "`model.timeout.connect` must be above zero, not inf."),
        ({"timeout": "soon"}, "model.timeout"),
        ({"timeout": {"reed": 3}}, "reed"),
        ({"stream": "maybe"}, "model.stream"),
    ],
)
async def test_a_bad_value_is_named_in_one_line(model: dict[str, object], says: str) -> None:
    async with ScriptedServer([]) as server:
        with home_for(server, WIRES[0], **model) as home:
            done = await run_hermes(home, "-z", "go")
    assert (done.code, server.requests) == (78, []) and says in done.stderr
    assert "config.yaml" in done.stderr and len(done.stderr.strip().splitlines()) <= 2


@pytest.mark.parametrize("name", ["api_retry_minutes", "api_retry_minutes_unattended", "api_max_retries"])
async def test_a_bad_number_of_tries_is_named_in_one_line(name: str) -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url, more_config={"agent": {name: -1}}) as home:
            done = await run_hermes(home, "-z", "go")
    assert (done.code, server.requests) == (78, []) and f"agent.{name}" in done.stderr
