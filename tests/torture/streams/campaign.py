"""Streams of vendors through the exchange: what is shown, answered and counted is what the stream means.

    python -m tests.torture.streams.campaign [--only WORD] [--every N]

Each stream comes whole, byte by byte, in two pieces cut at bytes, and with its connection ended at bytes: by an end
that looks clean, and by one that is an error. A stream that ends early is never a whole answer; no call comes out
with arguments that end early, unless the vendor says that its answer was too long; nothing is shown twice; nothing is
raised. The official SDKs read the streams, too, where they can. Run by `make streams`.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.events import Event
from hermes.core.messages import FinishReason, Message, ReasoningPart, TextPart
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts
from hermes.core.stream import Answer, CallStarted, Failure, ReasoningDelta, TextDelta
from hermes.core.usage import Usage
from hermes.llm.exchange import ProviderExchange, read_call_usage
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.util.clock import SystemClock
from tests.torture.streams.corpus import list_streams
from tests.torture.streams.stream_case import EVENT_STREAM, SaidCall, SaidEvent, StreamCase, frame_events, join_halves

_EARLY = {FailureKind.CUT, FailureKind.BAD_RESPONSE}


class Heard(Struct):
    """What came of one reading of a stream."""

    outcome: Answer | Failure
    text: str
    reasoning: str
    started: list[tuple[str, str]]
    usage: Usage | None


class CutBody:
    """An `HttpTransport` and its answer: pieces of a body, and then its end or a broken connection."""

    def __init__(self, content_type: str) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": content_type}
        self.pieces: Sequence[bytes] = ()
        self.broken = False

    @asynccontextmanager
    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, timeouts: HttpTimeouts
    ) -> AsyncIterator["CutBody"]:
        """Answer any request."""
        del method, url, headers, body, timeouts
        yield self

    async def close(self) -> None:
        """Do nothing: nothing is open."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        for piece in self.pieces:
            if piece:
                yield piece
        if self.broken:
            raise TransportError(FailureKind.CUT, "the connection was closed in the middle of the answer")


class StreamReader:
    """Reads one case through an exchange, any number of times."""

    def __init__(self, case: StreamCase) -> None:
        self._body = CutBody(case.content_type)
        choice = ModelChoice(case.model, case.provider, base_url="http://127.0.0.1:1/v1", api_mode=case.wire)
        endpoint = resolve_endpoint(choice, {})
        self._exchange = ProviderExchange(endpoint, self._body, SystemClock(), HttpTimeouts())

    async def read(self, pieces: Sequence[bytes], *, broken: bool = False) -> Heard:
        """Return what comes of these pieces."""
        shown: list[Event] = []

        async def emit(event: Event) -> None:
            shown.append(event)

        self._body.pieces, self._body.broken = pieces, broken
        call = self._exchange.create_call(emit)
        outcome = await self._exchange.run_call(b"{}", call)
        return Heard(
            outcome,
            "".join(event.text for event in shown if isinstance(event, TextDelta)),
            "".join(event.text for event in shown if isinstance(event, ReasoningDelta)),
            [(event.call_id, event.name) for event in shown if isinstance(event, CallStarted)],
            read_call_usage(call, outcome).usage,
        )


def find_faults(case: StreamCase, heard: Heard) -> Iterator[str]:
    """Yield how the reading of a whole stream differs from its meaning."""
    outcome = heard.outcome
    yield from _differ("usage", heard.usage, case.said_usage)
    if case.failure is not None:
        if not isinstance(outcome, Failure):
            yield f"is answered, should fail as {case.failure.value}"
            return
        yield from _differ("failure", outcome.kind, case.failure)
        if case.words not in outcome.message:
            yield f"says {outcome.message!r}, not {case.words!r}"
        yield from _check_shown(case, heard, outcome.partial)
        yield from _check_partial_calls(case, outcome.partial)
        return
    if isinstance(outcome, Failure):
        yield f"fails as {outcome.kind.value}: {outcome.message[:200]}"
        return
    yield from _differ("finish", outcome.message.finish, case.finish)
    yield from _check_shown(case, heard, outcome.message)
    yield from _compare_calls(case.calls, outcome.message)
    if len(heard.started) > max(len(case.calls), len(list(outcome.message.tool_calls())) + _dropped(case)):
        yield f"calls are announced twice: {heard.started}"


def _dropped(case: StreamCase) -> int:
    """Return how many calls may be announced and not come: an answer may end at the name of its last one."""
    return 1 if case.finish is FinishReason.LENGTH else 0


def _join_parts(message: Message | None) -> tuple[str, str]:
    """Return the texts and the thoughts of a message, without the line ends that stand between parts for people."""
    parts = message.parts if message is not None else ()
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    return text, "".join(part.text for part in parts if isinstance(part, ReasoningPart))


def _check_shown(case: StreamCase, heard: Heard, message: Message | None) -> Iterator[str]:
    text, reasoning = _join_parts(message)
    yield from _differ("text", text, case.said_text)
    yield from _differ("reasoning", reasoning, case.said_reasoning)
    if case.is_stepwise:
        yield from _differ("shown text", heard.text, case.said_text)
        yield from _differ("shown reasoning", heard.reasoning, case.said_reasoning)
    else:
        yield from _differ_but_half("shown text", heard.text, text)


def _compare_calls(said: Sequence[SaidCall], message: Message) -> Iterator[str]:
    calls = list(message.tool_calls())
    if len(calls) != len(said):
        yield f"calls {[(call.name, call.arguments) for call in calls]}, should be {list(said)}"
        return
    if len({call.call_id for call in calls}) != len(calls) or not all(call.call_id for call in calls):
        yield f"ids of calls: {[call.call_id for call in calls]}"
    for call, wanted in zip(calls, said, strict=True):
        if not _is_call(wanted, call.name, call.arguments) or (wanted.call_id and call.call_id != wanted.call_id):
            yield f"call {(call.call_id, call.name, call.arguments)}, should be {wanted}"


def _is_call(wanted: SaidCall, name: str, arguments: str) -> bool:
    if isinstance(wanted.arguments, str):
        return (name, arguments) == (wanted.name, wanted.arguments)
    try:
        return name == wanted.name and (json.loads(arguments or "{}") == wanted.arguments)
    except ValueError:
        return False


def _check_partial_calls(case: StreamCase, message: Message | None) -> Iterator[str]:
    """Of a stream that broke, only calls that are whole may come out."""
    for call in message.tool_calls() if message is not None else ():
        if not any(_is_call(wanted, call.name, call.arguments) for wanted in _whole_calls(case)):
            yield f"a broken stream holds {(call.name, call.arguments)}"


def _whole_calls(case: StreamCase) -> list[SaidCall]:
    return [call for call in case.calls if not isinstance(call.arguments, str)]


def _differ(what: str, found: object, wanted: object) -> Iterator[str]:
    if found != wanted:
        yield f"{what} is {found!r}, should be {wanted!r}"


class CutOracle:
    """Says what is known of a case's stream once so many bytes have come."""

    def __init__(self, case: StreamCase) -> None:
        self._case = case
        self.body, self._ends, self._dispatched = frame_events(case.events, case.framing)

    def known(self, size: int, *, broken: bool) -> list[SaidEvent]:
        """Return the events that are whole: where the connection breaks, those that were dispatched by then; at an end
        that looks clean, one whose empty line is missing, too.
        """
        places = self._dispatched if broken else self._ends
        known = [event for event, place in zip(self._case.events, places, strict=True) if place <= size]
        final = next((index for index, event in enumerate(known) if event.is_final), None)
        failed = final is not None and self._case.failure is not None
        return known[: final + 1] if failed and final is not None else known

    def find_faults(self, size: int, heard: Heard, *, broken: bool) -> Iterator[str]:
        """Yield how the reading of a stream that ended after `size` bytes differs from what it means."""
        case, outcome = self._case, heard.outcome
        known = self.known(size, broken=broken)
        used = next((event.usage for event in reversed(known) if event.usage is not None), None)
        yield from _differ("usage", heard.usage, used)
        message = outcome.message if isinstance(outcome, Answer) else outcome.partial
        text, _ = _join_parts(message)
        if text.removesuffix("\ufffd") != heard.text.removesuffix("\ufffd"):
            yield f"shown {heard.text!r}, kept {text!r}"
        if case.is_stepwise:
            yield from _differ_but_half("shown text", heard.text, join_halves(event.text for event in known))
            thought = join_halves(event.reasoning for event in known)
            yield from _differ_but_half("shown reasoning", heard.reasoning, thought)
        elif not case.said_text.startswith(heard.text) and not any(event.is_final for event in known):
            yield f"shown {heard.text!r}, which {case.said_text!r} does not begin with"
        if not any(event.is_final for event in known):
            if isinstance(outcome, Answer):
                yield f"a stream without an end is answered: {outcome.message.finish.value}"
            elif outcome.kind not in _EARLY or not outcome.retryable:
                yield f"a stream without an end fails as {outcome.kind.value}: {outcome.message[:100]}"
            yield from _check_partial_calls(case, message)
        elif case.failure is not None:
            yield from _differ("failure", outcome.kind if isinstance(outcome, Failure) else None, case.failure)
        elif isinstance(outcome, Failure):
            yield f"a whole answer fails as {outcome.kind.value}"
        else:
            yield from _compare_calls(case.calls, outcome.message)


def _differ_but_half(what: str, found: str, wanted: str) -> Iterator[str]:
    if found.removesuffix("\ufffd") != wanted.removesuffix("\ufffd"):
        yield f"{what} is {found!r}, should be {wanted!r}"


async def check_case(case: StreamCase, *, singly: bool = True) -> list[str]:
    """Return the faults of a case whose bytes come whole, and `singly`: one by one, too."""
    reader, body = StreamReader(case), case.body
    faults = [f"whole: {fault}" for fault in find_faults(case, await reader.read([body]))]
    if not singly:
        return faults
    single = [body[at : at + 1] for at in range(len(body))]
    return faults + [f"byte by byte: {fault}" for fault in find_faults(case, await reader.read(single))]


async def check_cuts(case: StreamCase, every: int, first: int = 0) -> tuple[int, list[str]]:
    """Return how many readings there were with a stream cut, and ended, at every n-th byte, and their faults."""
    reader, oracle = StreamReader(case), CutOracle(case)
    body, faults, readings = oracle.body, list[str](), 0
    for at in range(first, len(body), every):
        heard = await reader.read([body[:at], body[at:]])
        faults += [f"two pieces at {at}: {fault}" for fault in find_faults(case, heard)]
        for broken in (False, True):
            heard = await reader.read([body[:at]], broken=broken)
            how = "broken" if broken else "ended"
            faults += [f"{how} at {at}: {fault}" for fault in oracle.find_faults(at, heard, broken=broken)]
        readings += 3
    return readings, faults


def choose_cut_cases(cases: Sequence[StreamCase], count: int = 50) -> list[StreamCase]:
    """Return event streams of as many formats, kinds and vendors as there is room for."""
    usable = [case for case in cases if case.content_type == EVENT_STREAM and case.raw is None]
    groups: dict[tuple[str, str], list[StreamCase]] = {}
    for case in usable:
        groups.setdefault((case.wire, case.kind), []).append(case)
    numbers: Counter[str] = Counter()
    order: list[tuple[int, list[StreamCase]]] = []
    for (wire, _), group in groups.items():
        order.append((numbers[wire], group))
        numbers[wire] += 1
    chosen: list[StreamCase] = []
    taken: Counter[str] = Counter()
    for _, group in sorted(order, key=lambda numbered: numbered[0])[:count]:
        rarest = min(group, key=lambda case: taken[case.vendor])
        taken[rarest.vendor] += 1
        chosen.append(rarest)
    left = iter(case for case in usable if case not in chosen and not taken[case.vendor])
    return [*chosen, *(case for case, _ in zip(left, range(count - len(chosen)), strict=False))]


async def run_campaign(only: str, every: int) -> int:
    """Run all of it, and print the table; return how many faults there were."""
    from tests.torture.streams.sdk_judges import judge_cases

    started = time.monotonic()
    cases = [case for case in list_streams() if only in case.name]
    faults = [f"{case.name}: {fault}" for case in cases for fault in await check_case(case)]
    judged, verdicts = judge_cases(cases)
    faults += verdicts
    readings = 0
    cut = choose_cut_cases(cases)
    for case in cut:
        number, found = await check_cuts(case, every)
        readings += number
        faults += [f"{case.name}: {fault}" for fault in found]
    lines = []
    for title, counted in (("vendor", Counter(c.vendor for c in cases)), ("kind", Counter(c.kind for c in cases))):
        lines.append(f"by {title}: " + ", ".join(f"{name} {count}" for name, count in counted.most_common()))
    lines.append(f"{len(cases)} streams; {judged}; {len(cut)} of them cut or ended {readings} times")
    lines += [f"  {fault}" for fault in faults[:60]]
    lines.append(f"{len(faults)} faults; {time.monotonic() - started:.0f} s\n")
    sys.stdout.write("\n".join(lines))
    return len(faults)


def main() -> int:
    """Run the campaign as the command line says."""
    parser = argparse.ArgumentParser(description="Streams of vendors, whole and cut, against what they mean.")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="cut at every n-th byte")
    given = parser.parse_args()
    return 1 if asyncio.run(run_campaign(given.only, given.every)) else 0


if __name__ == "__main__":
    sys.exit(main())
