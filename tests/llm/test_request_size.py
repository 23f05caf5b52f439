"""How large a request is taken to be, and what follows from it on a socket."""

import pytest

from hermes.core.events import Event
from hermes.core.frame import EpochFrame
from hermes.core.messages import ImagePart, Message, Role, TextPart, ToolResultPart, user_message
from hermes.core.outcomes import FailureKind as Kind
from hermes.core.stream import Answer, Failure
from hermes.core.usage import Usage
from hermes.llm.client import ModelClient, RetryLimits
from hermes.llm.lineage import Lineage
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.testing.clock import ManualClock
from hermes.testing.script import Ending, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.llm.error_matrix import TwoKeys

REFUSED = Fail(400, body={"error": {"message": "Error", "type": "invalid_request_error"}})
GONE = Say("x", delivery=ReplyDelivery(head=False, ending=Ending.CUT))


async def nothing(_event: Event) -> None:
    pass


def session(words: int, window: int | None, url: str = "http://h.example") -> Lineage:
    choice = ModelChoice("m", "custom", base_url=url, api_key="k" * 9, context_length=window)
    endpoint = resolve_endpoint(choice, {})
    frame = EpochFrame(provider="custom", model="m", wire=endpoint.wire, encoder_version=1, system="s")
    lineage = Lineage(frame, endpoint)
    lineage.append_messages([user_message("word " * words)])
    return lineage


async def outcomes(words: int, window: int | None, *replies: Reply) -> list[Answer | Failure]:
    """What a session of so many words gets for these replies, one call each, nothing tried again."""
    async with ScriptedServer(replies) as server:
        lineage = session(words, window, server.url)
        clock = ManualClock(auto=True)
        client = ModelClient(
            lineage.endpoint, create_http_transport({}), clock, keys=TwoKeys(), limits=RetryLimits(retries=0)
        )
        try:
            return [await client.request_answer(lineage, nothing) for _ in replies]
        finally:
            await client.close()


@pytest.mark.parametrize(
    ("words", "window", "reply", "kind"),
    [
        (560, 1000, REFUSED, Kind.CONTEXT_OVERFLOW),
        (100, 1000, REFUSED, Kind.FORMAT_ERROR),
        (100, None, REFUSED, Kind.FORMAT_ERROR),
        (100_000, None, REFUSED, Kind.CONTEXT_OVERFLOW),
        (560, 1000, GONE, Kind.CONTEXT_OVERFLOW),
        (100, 1000, GONE, Kind.CUT),
        (100_000, None, GONE, Kind.CUT),
    ],
)
async def test_a_refusal_or_a_hang_up_on_a_large_request(
    words: int, window: int | None, reply: Reply, kind: Kind
) -> None:
    [failure] = await outcomes(words, window, reply)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.compress) == (kind, kind is Kind.CONTEXT_OVERFLOW)


async def test_the_providers_own_count_corrects_the_estimate() -> None:
    few, many = Say("ok", usage=Usage(input=200)), Say("ok", usage=Usage(input=700))
    _, failure = await outcomes(560, 1000, few, REFUSED)
    assert isinstance(failure, Failure) and failure.kind is Kind.FORMAT_ERROR
    _, failure = await outcomes(100, 1000, many, REFUSED)
    assert isinstance(failure, Failure) and failure.kind is Kind.CONTEXT_OVERFLOW


def test_an_estimate_grows_with_what_came_since_the_count_and_counts_pictures_by_number() -> None:
    lineage = session(0, None)
    assert (lineage.count_tokens(4_000), lineage.count_tokens(0)) == (1_000, 0)
    lineage.record_count(4_000, 3_000)
    assert (lineage.count_tokens(4_000), lineage.count_tokens(4_400), lineage.count_tokens(40)) == (3_000, 3_100, 3_000)
    lineage.record_count(4_400, 0)
    assert lineage.count_tokens(4_400) == 3_100
    picture = ImagePart(data="A" * 400_000)
    lineage.append_messages([Message(role=Role.USER, parts=(TextPart(text="look"), picture))])
    assert 4_400 < lineage.count_tokens(404_000) < 4_600
    result = ToolResultPart(call_id="c", name="t", text="", images=(picture, picture))
    lineage.append_messages([Message(role=Role.TOOL, parts=(result,))])
    assert 7_400 < lineage.count_tokens(1_204_000) < 7_600
