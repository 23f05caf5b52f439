"""The prefix check names what moved; the transport without a socket behaves as the server does."""

import json
from collections.abc import Callable

import httpx2
import pytest

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts, HttpTransport
from hermes.testing.clock import ManualClock
from hermes.testing.prefix import PrefixError, by_opening, check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from hermes.testing.transport import ScriptedTransport

Entry = dict[str, object]
Body = Callable[..., dict[str, object]]

MARK = {"cache_control": {"type": "ephemeral"}}


def requests(*bodies: Entry, path: str = "/v1/chat/completions") -> list[RecordedRequest]:
    made = [RecordedRequest("POST", path, {}, json.dumps({"model": "m", **body}).encode(), 1) for body in bodies]
    for number, request in enumerate(made):
        request.number = number
    return made


def says(*texts: str, role: str = "user") -> list[Entry]:
    return [{"role": role, "content": text} for text in texts]


def test_growing_requests_pass_on_every_wire() -> None:
    tools = [{"name": "t"}]
    chat = requests(*({"messages": says("a", "b", "c")[:n], "tools": tools} for n in (1, 2, 2, 3)))
    items = requests(*({"instructions": "s", "input": says("a", "b")[:n]} for n in (1, 2)), path="/v1/responses")
    claude = requests(*({"system": "s", "messages": says("a", "b")[:n]} for n in (1, 2)), path="/v1/messages")
    assert check_prefixes([*chat, *items, *claude]) == 5


def test_cache_marks_may_move() -> None:
    marked = [{"role": "user", "content": [{"type": "text", "text": "a", **MARK}]}]
    first = {"system": [{"type": "text", "text": "s", **MARK}], "messages": marked, "tools": [{"name": "t", **MARK}]}
    second = {"system": "s", "messages": says("a", "b"), "tools": [{"name": "t"}]}
    assert check_prefixes(requests(first, second, path="/v1/messages")) == 1


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            {"messages": says("a", "b")},
            {"messages": says("a", "x", "c")},
            r"messages\[1\].content\[0\].text is 'x', was 'b'",
        ),
        ({"messages": says("a", "b")}, {"messages": says("a")}, r"messages\[1\] is missing"),
        (
            {"messages": says("a")},
            {"messages": says("a", role="system")},
            r"messages\[0\].role is 'system', was 'user'",
        ),
        (
            {"tools": [{"name": "t"}], "messages": []},
            {"tools": [{"name": "t"}, {"name": "u"}], "messages": []},
            "tools has 2",
        ),
        ({"tools": [{"name": "t"}], "messages": []}, {"messages": []}, "tools has 0 elements, had 1"),
        ({"system": "s", "messages": []}, {"system": "z", "messages": []}, r"system\[0\].text is 'z', was 's'"),
        ({"messages": [{"a": 1, "b": 2}]}, {"messages": [{"b": 2, "a": 1}]}, "has the keys"),
        ({"messages": [{"a": 1}]}, {"messages": [{"a": True}]}, "is True, was 1"),
    ],
)
def test_what_moved_is_named(before: Entry, after: Entry, message: str) -> None:
    with pytest.raises(PrefixError, match=message):
        check_prefixes(requests(before, after))


def test_lineages_and_named_epochs() -> None:
    main, child = says("main", "next"), says("child", "next")
    mixed = requests({"messages": main[:1]}, {"messages": child[:1]}, {"messages": main}, {"messages": child})
    assert check_prefixes(mixed, key=by_opening) == 2
    with pytest.raises(PrefixError, match="request 1 after request 0"):
        check_prefixes(mixed)
    assert check_prefixes(mixed[:2], new_epochs={1}) == 0


async def read(
    transport: HttpTransport, body: Entry, *, url: str = "http://x/v1/chat/completions"
) -> tuple[int, bytes]:
    got = b""
    timeouts = HttpTimeouts(read=30)
    async with transport.open(
        "POST", url, headers={"X-A": "1"}, body=json.dumps(body).encode(), timeouts=timeouts
    ) as s:
        async for part in s.chunks():
            got += part
        return s.status, got


async def test_the_transport_sends_the_servers_bytes(chat: Body, http: httpx2.AsyncClient) -> None:
    body = chat()
    replies: list[Reply] = [Say("hello", reasoning="hm"), Fail(429)]
    transport = ScriptedTransport(replies)
    async with ScriptedServer(replies) as server:
        for status in (200, 429):
            answer = await http.post(server.url + "/chat/completions", content=json.dumps(body).encode())
            assert await read(transport, body) == (status, answer.content)
    [first, _] = transport.requests
    assert first.headers == {"x-a": "1"} and first.last_user_text == "hi" and first.answered_at is not None
    assert (await read(transport, body, url="http://x/v1/models"))[0] == 404
    assert (await read(transport, chat(messages=[])))[0] == 400


@pytest.mark.parametrize(
    ("how", "kind", "slept"),
    [
        (ReplyDelivery(ending=Ending.CUT, at=2), FailureKind.CUT, []),
        (ReplyDelivery(ending=Ending.RESET, head=False), FailureKind.CUT, []),
        (ReplyDelivery(ending=Ending.HANG, at=2), FailureKind.TIMEOUT, [30]),
        (ReplyDelivery(delay=31), FailureKind.TIMEOUT, [30]),
        (ReplyDelivery(pace=31), FailureKind.TIMEOUT, [30]),
    ],
)
async def test_the_transports_faults(chat: Body, how: ReplyDelivery, kind: FailureKind, slept: list[float]) -> None:
    clock = ManualClock(auto=True)
    transport = ScriptedTransport([Say("hello", delivery=how)], clock=clock)
    with pytest.raises(TransportError) as failed:
        await read(transport, chat())
    assert failed.value.kind is kind and clock.slept == slept


async def test_leaving_the_transport_early_is_recorded(chat: Body) -> None:
    transport = ScriptedTransport([Say("hello", chunk=1, delivery=ReplyDelivery(pace=1))], clock=ManualClock(auto=True))
    body = json.dumps(chat()).encode()
    async with transport.open("POST", "http://x/chat/completions", headers={}, body=body, timeouts=HttpTimeouts()) as s:
        assert await anext(s.chunks())
    assert transport.requests[0].closed_early_at is not None
    await transport.close()
    assert transport.closed
