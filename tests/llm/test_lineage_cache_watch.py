"""The alarm when a provider's cache stops helping: when it comes, what it says, and when it does not come."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from hermes.core.events import Level, Notice
from hermes.core.messages import Message, TextPart, user_message
from hermes.llm.lineage import AnsweredRequest, Lineage, PrefixFingerprint
from hermes.testing.server import ScriptedServer
from tests.llm.caching_model import NATIVE, PROXIED, TOOLS, CachingModel, Talk, endpoint, talking

LONG = "Be brief. " * 2_000
EACH = pytest.mark.parametrize("kind", [NATIVE, PROXIED, ("custom", "m")], ids=["anthropic", "openrouter", "unmarked"])


def alarms(one: Talk) -> list[str]:
    found = [event for event in one.events if isinstance(event, Notice)]
    assert all(event.level is Level.WARNING for event in found)
    return [event.text for event in found]


def model_for(kind: tuple[str, str]) -> CachingModel:
    return CachingModel(marks=kind[0] != "custom")


async def turns(one: Talk, count: int, pause: float = 10.0) -> None:
    for turn in range(count):
        await one.clock.advance(pause)
        await one.ask(user_message(f"turn {turn} " + "x" * 200))


@EACH
async def test_silence_while_all_is_well(kind: tuple[str, str]) -> None:
    async with (
        ScriptedServer(model_for(kind)) as server,
        talking(endpoint(kind, server.url), LONG) as one,
    ):
        await turns(one, 12)
        await turns(one, 3, pause=280.0)
        assert alarms(one) == []


@EACH
async def test_a_server_that_stops_caching(kind: tuple[str, str]) -> None:
    model = model_for(kind)
    async with ScriptedServer(model) as server, talking(endpoint(kind, server.url), LONG) as one:
        await turns(one, 3)
        model.keeps = False
        await turns(one, 4)
        (line,) = alarms(one)
        assert "0% of the prompt" in line and "same bytes" in line and "did not keep" in line
        rates = re.findall(r"(\d+)%", line)
        assert int(rates[1]) > 90
        # Once an epoch: another lineage has a word of its own.
        one.lineage = Lineage(one.lineage.frame, one.lineage.endpoint)
        model.keeps = True
        await turns(one, 2)
        model.keeps = False
        await turns(one, 2)
        assert len(alarms(one)) == 2


@pytest.mark.parametrize(
    ("ttl", "pause", "told"), [("5m", 301.0, 0), ("5m", 299.0, 1), ("1h", 301.0, 1), ("1h", 3601.0, 0)]
)
async def test_a_pause_longer_than_prompts_are_kept(ttl: str, pause: float, told: int) -> None:
    model = CachingModel()
    async with ScriptedServer(model) as server, talking(endpoint(NATIVE, server.url, ttl), LONG) as one:
        await turns(one, 2)
        model.keeps = False
        await turns(one, 1, pause=pause)
        assert len(alarms(one)) == told


async def test_a_clock_that_was_put_back_accuses_nobody() -> None:
    model = CachingModel()
    async with ScriptedServer(model) as server, talking(endpoint(NATIVE, server.url), LONG) as one:
        await turns(one, 2)
        model.keeps = False
        one.clock.set_now(one.clock.now() - 3_600)
        await one.ask(user_message("again"))
        assert alarms(one) == []


async def test_short_prompts_and_first_requests() -> None:
    model = CachingModel()
    async with ScriptedServer(model) as server, talking(endpoint(NATIVE, server.url), "Be brief.") as one:
        await turns(one, 3)
        model.keeps = False
        await turns(one, 2)
        one.lineage = Lineage(structs.replace(one.lineage.frame, system=LONG), one.lineage.endpoint)
        await turns(one, 1)
        assert alarms(one) == []


async def test_a_provider_that_reports_nothing() -> None:
    model = CachingModel(marks=False)
    model.keeps = False
    async with ScriptedServer(model) as server, talking(endpoint(("custom", "m"), server.url), LONG) as one:
        await turns(one, 4)
        assert alarms(one) == []


class Re(Lineage):
    """A lineage that encodes one message otherwise than the one whose place it takes."""

    def __init__(self, before: Lineage, messages: list[Message], broken: int) -> None:
        super().__init__(before.frame, before.endpoint, sent=before.last_answered)
        changed = Message(role=messages[broken].role, parts=(TextPart(text="not what it was"),))
        self.append_messages([changed if number == broken else one for number, one in enumerate(messages)])


@pytest.mark.parametrize("broken", [0, 3, 8])
async def test_a_prefix_that_was_broken(broken: int) -> None:
    async with ScriptedServer(CachingModel()) as server, talking(endpoint(NATIVE, server.url), "s") as one:
        messages: list[Message] = []
        for turn in range(6):
            said = user_message(f"turn {turn} " + "x" * 12_000)
            messages += [said, await one.ask(said)]
        one.lineage = Re(one.lineage, messages, broken)
        await one.ask(user_message("go on"))
        (line,) = alarms(one)
        place = re.search(rf"differs from the one before at message {broken + 1} \(bytes ([\d,]+) to ([\d,]+)", line)
        assert place is not None, line
        start, end = (int(found.replace(",", "")) for found in place.groups())
        assert abs(start - 12_100 * ((broken + 1) // 2)) < 1_000 and end > start


@pytest.mark.parametrize("what", ["tools", "one tool", "system"])
async def test_a_frame_that_changed(what: str) -> None:
    async with ScriptedServer(CachingModel()) as server, talking(endpoint(NATIVE, server.url), LONG) as one:
        await turns(one, 2)
        frame, before = one.lineage.frame, one.lineage
        changed = {
            "tools": structs.replace(frame, tools=()),
            "one tool": structs.replace(frame, tools=(structs.replace(TOOLS[0], description="Reads."),)),
            "system": structs.replace(frame, system=LONG[:9_000] + "!" + LONG[9_000:]),
        }[what]
        one.lineage = Lineage(changed, before.endpoint, sent=before.last_answered)
        await one.ask(user_message("turn 0 " + "x" * 200))
        (line,) = alarms(one)
        assert {"tools": "the tools (0, there were 1)", "one tool": "tool 1 (read_file)", "system": "byte 9,000 of it"}[
            what
        ] in line


def built(lengths: list[int]) -> tuple[bytearray, PrefixFingerprint]:
    buffer, found = bytearray(), PrefixFingerprint()
    for number, length in enumerate(lengths, 1):
        buffer += bytes([number % 251]) * length
        found.add_message_end(number, len(buffer))
    return buffer, found


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=400), st.data())
def test_any_changed_byte_is_placed(lengths: list[int], data: st.DataObject) -> None:
    buffer, found = built(lengths)
    found.checksum_sent(buffer)
    assert found.find_difference(buffer) == ""
    at = data.draw(st.integers(0, len(buffer) - 1))
    buffer[at] ^= 255
    place = re.search(r"messages? (\d+)(?: to (\d+))? \(bytes ([\d,]+) to ([\d,]+)", found.find_difference(buffer))
    assert place is not None
    first, last = int(place[1]), int(place[2] or place[1])
    start, end = (int(place[group].replace(",", "")) for group in (3, 4))
    assert start <= at < end
    message = next(number for number in range(1, len(lengths) + 1) if sum(lengths[:number]) > at)
    assert first <= message <= last
    if message > len(lengths) - 16:
        assert first == last == message


def test_memory_does_not_grow_with_the_conversation() -> None:
    buffer, found = built([3] * 20_000)
    found.checksum_sent(buffer)
    assert len(found._points) <= 64
    assert found.find_difference(buffer[:-1]) != ""


def test_a_key_is_not_shown() -> None:
    sent = AnsweredRequest(PrefixFingerprint(), key="k" * 20)
    assert "kkk" not in repr(sent)
