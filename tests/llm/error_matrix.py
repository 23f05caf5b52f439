"""Every class of failure on every wire, each way it can come, against the scripted server: what Hermes does about it.

`python -m tests.llm.error_matrix` prints it as a table.
"""

import asyncio
import json
import ssl
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hermes.core.events import Event, Retrying
from hermes.core.frame import EpochFrame
from hermes.core.messages import user_message
from hermes.core.outcomes import FailureKind as Kind
from hermes.core.outcomes import Scope
from hermes.core.protocols import HttpTimeouts
from hermes.core.stream import Answer, Failure
from hermes.llm.client import ModelClient, RetryLimits
from hermes.llm.key_pool import KeyLease
from hermes.llm.lineage import Lineage
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.testing.clock import ManualClock
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending, Fail, Reply, ReplyDelivery, Say, ScriptedModel, StreamError
from hermes.testing.server import ScriptedServer
from tests.certificates import certificate
from tests.llm.account_errors import ACCOUNT_ERRORS
from tests.llm.request_errors import REQUEST_ERRORS
from tests.llm.role_errors import ROLE_ERRORS
from tests.llm.vendor_errors import ALL, Case

CASES = (*ACCOUNT_ERRORS, *REQUEST_ERRORS, *ROLE_ERRORS)
KEYS = ("key-" + "1" * 20, "key-" + "2" * 20)
PAUSES = 3

NEXT_KEY, PAUSE, COMPRESS, REWRITE = "next key", "pause", "compress", "rewrite"

# What the write-ups promise for each kind (rows ER and RC), stated here once more and not taken from the tables: what
# the call itself does, then what is left to the turn. All fall back to another provider in the end.
PROMISES: dict[Kind, tuple[str, ...]] = {
    Kind.AUTH: (NEXT_KEY,),
    Kind.AUTH_PERMANENT: (NEXT_KEY,),
    Kind.BILLING: (NEXT_KEY,),
    Kind.RATE_LIMIT: (NEXT_KEY, PAUSE),
    Kind.UPSTREAM_RATE_LIMIT: (PAUSE,),
    Kind.OVERLOADED: (PAUSE,),
    Kind.SERVER_ERROR: (PAUSE,),
    Kind.TIMEOUT: (PAUSE,),
    Kind.UNREACHABLE: (PAUSE,),
    Kind.CUT: (PAUSE,),
    Kind.BAD_RESPONSE: (PAUSE,),
    Kind.TLS: (),
    Kind.CONTEXT_OVERFLOW: (COMPRESS,),
    Kind.LONG_CONTEXT_TIER: (COMPRESS,),
    Kind.PAYLOAD_TOO_LARGE: (COMPRESS,),
    Kind.IMAGE_TOO_LARGE: (REWRITE,),
    Kind.THINKING_SIGNATURE: (REWRITE,),
    Kind.ENCRYPTED_CONTENT: (REWRITE,),
    Kind.TOOL_CONTENT: (REWRITE,),
    Kind.IMAGES_UNSUPPORTED: (REWRITE,),
    Kind.GRAMMAR: (REWRITE,),
    Kind.ROLE_ORDER: (REWRITE,),
    Kind.REASONING_MISSING: (REWRITE,),
    Kind.SYSTEM_ROLE: (REWRITE,),
    Kind.TOOL_ROLE: (REWRITE,),
    Kind.PARALLEL_CALLS: (REWRITE,),
    Kind.CALLS_WITH_TEXT: (REWRITE,),
    Kind.STREAMING: (REWRITE,),
    Kind.CONTENT_POLICY: (),
    Kind.PROVIDER_POLICY: (),
    Kind.MODEL_NOT_FOUND: (),
    Kind.FORMAT_ERROR: (),
    Kind.UNKNOWN: (),
}
CHARGED: dict[Kind, Scope] = {
    **dict.fromkeys((Kind.AUTH, Kind.AUTH_PERMANENT, Kind.RATE_LIMIT), Scope.KEY),
    Kind.BILLING: Scope.ORGANISATION,
    **dict.fromkeys((Kind.MODEL_NOT_FOUND, Kind.PROVIDER_POLICY), Scope.MODEL),
    **dict.fromkeys((kind for kind, steps in PROMISES.items() if steps == (PAUSE,)), Scope.UPSTREAM),
    Kind.TLS: Scope.UPSTREAM,
}

NO_ANSWER = ReplyDelivery(head=False, ending=Ending.CUT)
TRANSPORT: dict[tuple[Kind, str], Reply] = {
    (Kind.CUT, "no answer"): Say("late", delivery=NO_ANSWER),
    (Kind.CUT, "cut"): Say("late", delivery=ReplyDelivery(at=1, ending=Ending.CUT)),
    (Kind.CUT, "reset"): Say("late", delivery=ReplyDelivery(at=1, ending=Ending.RESET)),
    (Kind.CUT, "stopped"): Say("late", delivery=ReplyDelivery(at=1, ending=Ending.STOP)),
    (Kind.BAD_RESPONSE, "empty"): Say("late", delivery=ReplyDelivery(at=0, ending=Ending.STOP)),
    (Kind.BAD_RESPONSE, "garbage"): Say("late", delivery=ReplyDelivery(garbage=b"data: {not json\n\n", garbage_at=0)),
    (Kind.TIMEOUT, "silence"): Say("late", delivery=ReplyDelivery(head=False, ending=Ending.HANG)),
    (Kind.UNREACHABLE, "no server"): Say("late"),
    (Kind.TLS, "certificate"): Say("late"),
}


@dataclass(frozen=True)
class Line:
    """One line of the matrix: what failed how on which wire, and what was promised."""

    kind: Kind
    wire: str
    way: str
    vendor: str
    reply: Reply
    promised: tuple[str, ...]
    scope: Scope
    wait: float | None = None

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.wire}-{self.way}-{self.vendor}"


@dataclass(frozen=True)
class Seen:
    """What a call did: its outcome, the key of each request, the seconds of each pause that was announced."""

    outcome: Answer | Failure
    keys: tuple[str, ...]
    pauses: tuple[float, ...]
    slept: tuple[float, ...]


@dataclass(frozen=True)
class Result:
    line: Line
    recovery: str
    outcome: str
    problem: str


class TwoKeys:
    """Two keys; one that failed for its own sake is not handed out again while the other one is left."""

    def __init__(self) -> None:
        self.left = list(KEYS)

    async def lease_key(self, _model: str) -> KeyLease | Failure:
        return KeyLease(self.left[0], self.left[0][-1])

    async def has_usable_key(self, _model: str) -> bool:
        return True

    async def report_success(self, lease: KeyLease) -> None:
        pass

    async def report_failure(self, lease: KeyLease, failure: Failure) -> bool:
        if not failure.rotate or len(self.left) == 1:
            return False
        self.left.remove(lease.key)
        return True

    def was_renewed(self, _lease: KeyLease) -> bool:
        return False


def lines() -> Iterator[Line]:
    """The whole matrix."""
    for case in CASES:
        for wire in case.wires:
            for way in case.ways:
                if not (isinstance(case.body, str) and way == "stream"):
                    yield _line(case, wire, way)
    for (kind, way), reply in TRANSPORT.items():
        for wire in ALL:
            yield Line(kind, wire, way, "transport", reply, PROMISES[kind], CHARGED[kind])


def _line(case: Case, wire: str, way: str) -> Line:
    promised = PROMISES[case.kind]
    if case.retryable is False:
        promised = tuple(step for step in promised if step != PAUSE)
    elif case.retryable:
        promised = (*promised, PAUSE)
    scope = case.scope or CHARGED.get(case.kind, Scope.REQUEST)
    return Line(case.kind, wire, way, case.vendor, _reply(case, way), promised, scope, case.wait)


def _reply(case: Case, way: str) -> Reply:
    """The case as an HTTP error, as an error inside a stream, or as a whole answer with status 200."""
    if way == "stream":
        body = case.body[0] if isinstance(case.body, list) else case.body
        assert isinstance(body, dict)
        return Say("Hello", delivery=ReplyDelivery(error=StreamError(body=body), error_at=1))
    text = isinstance(case.body, str)
    body = case.body if text else json.dumps(case.body)
    headers = {"content-type": "text/html" if text else "application/json", **case.headers}
    return Fail(200 if way == "whole" else case.status, body=str(body), headers=headers)


async def call(line: Line, folder: Path, *, always: bool) -> Seen:
    """Make one call that fails once, or always."""
    clock, events = ManualClock(auto=True), list[Event]()
    given: list[RecordedRequest] = []

    def reply(request: RecordedRequest) -> Reply:
        given.append(request)
        return line.reply if always or len(given) == 1 else Say("Hello.")

    async def emit(event: Event) -> None:
        events.append(event)

    tls: ssl.SSLContext | None = certificate(folder)[0] if line.kind is Kind.TLS else None
    async with ScriptedServer(ScriptedModel(reply), tls=tls) as server:
        if line.kind is Kind.UNREACHABLE:
            async with ScriptedServer([]) as gone:
                url = gone.url
        else:
            url = server.url
        endpoint = resolve_endpoint(ModelChoice("m", "custom", base_url=url, api_key=KEYS[0], api_mode=line.wire), {})
        frame = EpochFrame(provider="custom", model="m", wire=endpoint.wire, encoder_version=1, system="s")
        lineage = Lineage(frame, endpoint)
        lineage.append_messages([user_message("hi")])
        timeouts = HttpTimeouts(connect=60.0, read=0.05 if line.way == "silence" else 60.0)
        client = ModelClient(
            endpoint,
            create_http_transport({}),
            clock,
            keys=TwoKeys(),
            limits=RetryLimits(retries=PAUSES),
            timeouts=timeouts,
        )
        try:
            outcome = await client.request_answer(lineage, emit)
        finally:
            await client.close()
    told = [event for event in events if isinstance(event, Retrying)]
    pauses = tuple(event.delay for event in told if not event.message.endswith("another key."))
    return Seen(outcome, tuple(map(_key, given)), pauses, tuple(clock.slept))


def _key(request: RecordedRequest) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")


async def run(line: Line, folder: Path) -> Result:
    """Play a line: the failure once, then for ever. `problem` is empty when all is as promised."""
    problems: list[str] = []
    once = await call(line, folder, always=False)
    always = await call(line, folder, always=True)
    failure = always.outcome
    if isinstance(failure, Failure):
        problems += _failure_problems(line, failure)
    else:
        problems.append("the call was answered although it always failed")
    waits = PAUSE in line.promised and (line.wait is None or line.wait <= 120)
    rotates = NEXT_KEY in line.promised
    problems += _call_problems(line, once, always, waits=waits, rotates=rotates)
    steps = [step for step in line.promised if step != PAUSE or waits]
    recovery = ", ".join([*steps, "fall back"])
    said = "answered" if isinstance(once.outcome, Answer) else "failed"
    return Result(line, recovery, f"once: {said}; always: failed", "; ".join(problems))


def _failure_problems(line: Line, failure: Failure) -> list[str]:
    told = {
        "kind": (failure.kind, line.kind),
        "retryable": (failure.retryable, PAUSE in line.promised),
        "rotate": (failure.rotate, NEXT_KEY in line.promised),
        "compress": (failure.compress, COMPRESS in line.promised),
        "fall_back": (failure.fall_back, True),
        "scope": (failure.scope, line.scope),
    }
    if line.wait is not None:
        # An auto clock moves with each pause, and with it what is left until a moment; one that is over is no wish.
        told["retry_after"] = (0 <= (failure.retry_after or 0.0) <= line.wait, True)
    problems = [f"{name} is {found}, not {wanted}" for name, (found, wanted) in told.items() if found != wanted]
    if any(key in repr(failure) for key in KEYS):
        problems.append("a key is shown")
    return problems


def _call_problems(line: Line, once: Seen, always: Seen, *, waits: bool, rotates: bool) -> list[str]:
    problems = []
    recovers = waits or rotates
    served = line.kind not in (Kind.TLS, Kind.UNREACHABLE)
    if served and isinstance(once.outcome, Answer) is not recovers:
        problems.append(f"after one failure: {once.outcome}")
    keys = [KEYS[0]] + ([KEYS[1]] if rotates else []) + ([KEYS[int(rotates)]] * PAUSES if waits else [])
    if served and list(always.keys) != keys:
        problems.append(f"{len(always.keys)} requests, not {len(keys)}, or with other keys")
    if served and list(once.keys) != keys[: 1 + recovers]:
        problems.append(f"{len(once.keys)} requests after one failure")
    pauses = 2 if line.kind is Kind.UNREACHABLE else PAUSES  # it was never there: told soon
    if always.slept != always.pauses or len(always.pauses) != (pauses if waits else 0):
        problems.append(f"pauses {always.pauses} were announced, {always.slept} were made")
    if line.wait is not None and waits and abs(sum(always.pauses[:1]) - line.wait) > 1e-3:
        problems.append(f"the first pause was {always.pauses[:1]}, not {line.wait}")
    return problems


async def results() -> list[Result]:
    """Play the whole matrix."""
    with tempfile.TemporaryDirectory() as folder:
        return [await run(line, Path(folder)) for line in lines()]


def table(found: list[Result]) -> str:
    """The matrix as text."""
    head = ("kind", "wire", "way", "vendor", "recovery", "outcome", "ok")
    rows = [
        (r.line.kind, r.line.wire, r.line.way, r.line.vendor, r.recovery, r.outcome, r.problem or "ok") for r in found
    ]
    rows.sort(key=lambda row: (list(Kind).index(row[0]), ALL.index(row[1])))
    widths = [max(len(str(row[column])) for row in [head, *rows]) for column in range(6)]
    shown = [
        " | ".join([*(str(cell).ljust(width) for cell, width in zip(row, widths, strict=False)), row[6]])
        for row in [head, *rows]
    ]
    bad = sum(bool(result.problem) for result in found)
    vendors = {result.line.vendor for result in found} - {"transport", "a gateway"}
    shown.append(
        f"{len(found)} lines, {len({r.line.kind for r in found})} kinds, {len(vendors)} vendors, {bad} not as promised"
    )
    return "\n".join(shown)


def main() -> int:
    found = asyncio.run(results())
    sys.stdout.write(table(found) + "\n")
    return int(any(result.problem for result in found))


if __name__ == "__main__":
    sys.exit(main())
