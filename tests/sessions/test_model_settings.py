"""Settings of model calls, through the whole program: streams, and how long a server may take."""

import time

import pytest

from hermes.cli.chat_options import build_app_options, build_chat_parser
from hermes.core.events import EpochBegan, Event
from hermes.core.outcomes import ExitReason
from hermes.core.stream import Failure
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.clock import ManualClock
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


@pytest.mark.parametrize(("unattended", "sent"), [(False, 1), (True, 2)])
async def test_where_nobody_waits_a_long_wish_is_waited_for(unattended: bool, sent: int) -> None:
    limited = Fail(429, message="Slow down", headers={"retry-after": "900"})
    async with ScriptedServer([limited, Say("in the end")]) as server:
        with TempHome.for_server(server.url) as home:
            options = SessionOptions(cwd=str(home.cwd), unattended=unattended)
            async with App(home.environ, options, clock=ManualClock(auto=True)) as app:
                ended = await (await app.open_session()).post(InboundMessage(text="go"))
    assert len(server.requests) == sent
    assert ended.text == "in the end" if unattended else "It asks to wait until" in ended.error


@pytest.mark.parametrize(("words", "unattended"), [(["-z", "go"], True), (["-q", "go"], False), ([], False)])
def test_a_single_task_is_one_that_nobody_waits_for(words: list[str], unattended: bool) -> None:
    assert build_app_options(build_chat_parser("hermes").parse_args(words)).unattended is unattended


async def test_a_side_task_holds_nobody_up_for_long() -> None:
    clock = ManualClock(auto=True)
    async with ScriptedServer(ScriptedModel([], then=Fail(529, message="Overloaded"))) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=clock) as app:
                services = app.services
                meter = services.budget.create_meter("", services.options)
                task = services.create_side_task("title", services.settings.auxiliary.title, meter, lambda: None)
                outcome = await task.ask("Name it.", "a chat", drop)
    assert isinstance(outcome, Failure) and sum(clock.slept) == pytest.approx(20.0)


async def test_a_side_task_learns_that_a_server_does_not_stream() -> None:
    def reply(request: RecordedRequest) -> Reply:
        return Fail(400, message="stream is not supported") if request.head.stream else Say("whole")

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                services = app.services
                meter = services.budget.create_meter("", services.options)
                task = services.create_side_task("title", services.settings.auxiliary.title, meter, lambda: None)
                assert await task.ask("Name it.", "a chat", drop) == "whole"
    assert [request.head.stream for request in server.requests] == [True, False]


async def drop(event: Event) -> None:
    pass
