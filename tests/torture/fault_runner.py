"""Plays fault scripts: real sockets, a real program in this process, a real store; then judges what came of it.

`python -m tests.torture.fault_runner [--count 2000] [--seed 0]`; `--only SEED` plays one script and tells its story.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import apsw

from hermes.core.events import EpochBegan, Event, TurnEnded
from hermes.core.messages import PERSON, ImagePart
from hermes.core.stream import TextDelta
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.store import Store
from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.testing.prefix import PrefixError, check_prefixes
from hermes.testing.request_checks import find_problems
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.torture.fault_scripts import FAULTS, READ_SECONDS, Script, Turn, script_of

AN_HOUR = 3600.0
PICTURE = ImagePart(data="A" * 120_000, provenance=PERSON)
"""No real one: what cannot be made smaller is left out where a request is too large."""
TURN_SECONDS = 60.0
AT_ONCE = 8
SHORT = {
    "all_retries_exhausted_no_response": "retries",
    "fallback_prior_turn_content": "prior text",
    "interrupted_by_user": "stopped",
    "truncation_exhausted": "truncated",
}
"""Outcomes as the table heads its columns, where their first word will not do."""


@dataclass
class Played:
    """What came of a script."""

    script: Script
    wrong: list[str] = field(default_factory=list)
    ends: list[TurnEnded] = field(default_factory=list)
    epochs: list[set[int]] = field(default_factory=list)
    """For each server, the numbers of the requests that begin an epoch."""
    pairs: int = 0


async def play(script: Script) -> Played:
    """Play a script and judge it; what is wrong is in `wrong`."""
    played = Played(script, epochs=[set() for _ in script.wires])
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(replies)) for replies in script.replies]
        home = stack.enter_context(home_for(script, servers, read_seconds=READ_SECONDS if script.hangs else 600.0))
        session_id, clock = await _turns(played, servers, home)
        await judge_store(played, home, session_id)
        judge_requests(played, servers)
        judge_effects(played, home)
        if missing := Counter(script.waited) - Counter(clock.slept):
            played.wrong.append(f"wishes that were not waited for: {dict(missing)}")
    return played


def home_for(script: Script, servers: list[ScriptedServer], *, read_seconds: float = 600.0) -> TempHome:
    """A home whose models are these servers."""
    stand_ins = [
        {
            "provider": "custom",
            "model": f"stand-in-{place}",
            "base_url": server.url,
            "api_key": "y" * place,
            "api_mode": wire,
        }
        for place, (wire, server) in enumerate(zip(script.wires, servers, strict=True))
        if place
    ]
    agent: dict[str, object] = {"api_max_retries": script.limits.tries, "max_turns": script.max_turns}
    if script.limits.minutes is not None:
        agent |= dict.fromkeys(("api_retry_minutes", "api_retry_minutes_unattended"), script.limits.minutes)
    model = {
        "default": "mock-model",
        "provider": "custom",
        "base_url": servers[0].url,
        "api_key": "x",
        "context_length": 2_000_000,
        "api_mode": script.wires[0],
        "stream": script.setup.streams,
        "timeout": read_seconds,
    }
    config = {"model": model, "fallback_providers": stand_ins, "agent": agent, "command_allowlist": ["*"]}
    return TempHome.for_server(servers[0].url, more_config=config)


def options_for(script: Script, cwd: str) -> SessionOptions:
    """What a front-end says: who waits, which keys, whether there are tools."""
    setup = script.setup
    return SessionOptions(
        cwd=cwd,
        unattended=script.limits.unattended,
        credential_pool=tuple(f"key-{number}" + "x" * 20 for number in range(setup.keys)) if setup.keys > 1 else (),
        enabled_toolsets=None if setup.tools else (),
    )


def _place(model: str) -> int:
    return int(model.removeprefix("stand-in-")) if model.startswith("stand-in-") else 0


async def _turns(played: Played, servers: list[ScriptedServer], home: TempHome) -> tuple[str, ManualClock]:
    clock = ManualClock(auto=True)
    app = App(home.environ, options_for(played.script, str(home.cwd)), clock=clock)
    shown: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, EpochBegan):
            place = _place(event.model)
            played.epochs[place].add(len(servers[place].requests))
        elif isinstance(event, TextDelta):
            shown.append(event.text)
            servers[0].notify_waiters()

    async with app:
        actor = await app.open_session()
        actor.subscribe(hear)
        for number, turn in enumerate(played.script.turns):
            shown.clear()
            async with asyncio.timeout(TURN_SECONDS):
                pictured = played.script.setup.picture and not number
                message = InboundMessage(text=f"turn {number}", images=(PICTURE,) if pictured else ())
                ended = await _turn(actor, message, turn, servers, shown)
            played.ends.append(ended)
            _judge_shown(played, turn, "".join(shown))
            _judge_end(played, number, turn, ended)
            await clock.sleep(AN_HOUR)  # every wish of a provider is over by then
    return actor.session_id, clock


async def _turn(
    actor: SessionActor, message: InboundMessage, turn: Turn, servers: list[ScriptedServer], shown: list[str]
) -> TurnEnded:
    posted = actor.post(message)
    if turn.stop is not None:
        place, requests, partial = turn.stop
        await servers[place].wait_until(lambda: len(servers[place].requests) >= requests)
        await servers[0].wait_until(lambda: "".join(shown).endswith(partial))
        actor.stop()
    return await posted


def _judge_shown(played: Played, turn: Turn, shown: str) -> None:
    """Each text of a turn is shown once, whatever was said again."""
    for text in turn.said:
        if shown.count(text) != 1:
            played.wrong.append(f"{text!r} was shown {shown.count(text)} times")


def _judge_end(played: Played, number: int, turn: Turn, ended: TurnEnded) -> None:
    def say(what: str, found: object, promised: object) -> None:
        if found != promised:
            played.wrong.append(f"turn {number}: {what} is {found!r}, promised was {promised!r} ({ended.error})")

    say("the outcome", ended.reason.value, turn.reason.value)
    say("the answer", ended.text, turn.text)
    say("the number of model calls", ended.calls, turn.calls)
    say("the usage", (ended.usage.input, ended.usage.output), (turn.usage.input, turn.usage.output))


async def judge_store(played: Played, home: TempHome, session_id: str) -> None:
    store = await Store.open(home.hermes, SystemClock())
    try:
        open_turns = await store.turns.list_open(session_id)
        rows = await store.messages.read(session_id)
    finally:
        await store.close()
    if open_turns:
        played.wrong.append(f"turns are open in the store: {open_turns}")
    asked: list[str] = []
    for row in rows:
        answered = [result.call_id for result in row.message.tool_results()]
        if answered != asked:
            played.wrong.append(f"message {row.id}: {asked} were asked, {answered} answered")
        asked = [call.call_id for call in row.message.tool_calls()]
        told = row.message.text
        played.wrong += [f"message {row.id} holds {text!r}" for text in played.script.unsaid if text in told]
    whole = "\n".join(row.message.text for row in rows)
    for text in played.script.said:
        if whole.count(text) != 1:
            played.wrong.append(f"{text!r} is in the transcript {whole.count(text)} times")
    if asked:
        played.wrong.append(f"calls without a result: {asked}")
    if [row.message.role.value for row in rows[-1:]] != ["assistant"]:
        played.wrong.append("the transcript does not end with the assistant")
    _judge_spending(played, home)


def _judge_spending(played: Played, home: TempHome) -> None:
    """Each whole answer that told its cost is one row; no request is more than one."""
    connection = apsw.Connection(str(home.hermes / "hermes.db"), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute("SELECT model, input_tokens, output_tokens FROM spend").fetchall()
    connection.close()
    found = Counter((_place(str(model)), int(str(given)), int(str(written))) for model, given, written in rows)
    promised = Counter(played.script.spent)
    if missing := promised - found:
        played.wrong.append(f"not in the spend table: {dict(missing)}")
    if doubled := {key: count for key, count in found.items() if key in promised and count > promised[key]}:
        played.wrong.append(f"twice in the spend table: {doubled}")
    requests = sum(map(len, played.script.replies))
    if len(rows) > requests:
        played.wrong.append(f"{len(rows)} rows of spending for {requests} requests")


def judge_requests(played: Played, servers: list[ScriptedServer]) -> None:
    for place, (server, replies) in enumerate(zip(servers, played.script.replies, strict=True)):
        if len(server.requests) != len(replies):
            played.wrong.append(f"server {place} had {len(server.requests)} requests, promised were {len(replies)}")
        for request in server.requests:
            played.wrong += [f"server {place}, request {request.number}: {one}" for one in find_problems(request)]
        try:
            # A last answer that is asked for without tools stands outside of the epoch's lineage.
            has_tools = played.script.setup.tools
            with_tools = [request for request in server.requests if request.tools or not has_tools]
            played.pairs += check_prefixes(with_tools, new_epochs=played.epochs[place])
        except PrefixError as error:
            played.wrong.append(f"server {place}: {error}")
    if (began := sum(map(len, played.epochs))) != played.script.epochs:
        played.wrong.append(f"{began} epochs began, promised were {played.script.epochs}")


def judge_effects(played: Played, home: TempHome) -> None:
    path = home.cwd / "effects.txt"
    lines = path.read_text(encoding="utf-8").split() if path.exists() else []
    if sorted(lines) != sorted(played.script.effects):
        played.wrong.append(f"the effects are {lines}, promised were {played.script.effects}")


async def campaign(first: int, count: int) -> list[Played]:
    """Play `count` scripts from a seed on, a few at once; stops early when twenty were wrong."""
    seeds = iter(range(first, first + count))
    found: list[Played] = []

    async def some() -> None:
        for seed in seeds:
            found.append(await _named(seed))
            if found[-1].wrong:
                tell(found[-1])
            if sum(bool(one.wrong) for one in found) >= 20:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, count)):
            group.create_task(some())
    return found


async def _named(seed: int) -> Played:
    """A script's end; one that breaks is a wrong end like any other."""
    script = script_of(seed)
    try:
        return await play(script)
    except Exception as error:  # noqa: BLE001 - told with its seed, and counted
        return Played(script, [f"{type(error).__name__}: {error}"])


def tell(played: Played) -> None:
    """Say what is wrong with a script."""
    script = played.script
    say(f"seed {script.seed}: wires {', '.join(script.wires)}; {script.limits}, {script.setup}")
    for line in played.wrong:
        say(f"  {line}")
    for number, turn in enumerate(script.turns):
        say(f"  turn {number}: {', '.join(turn.faults)} -> {turn.reason.value}")
    say(f"  again: python -m tests.torture.fault_runner --only {script.seed}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def table(found: list[Played]) -> str:
    """How often each fault was met in a turn with each outcome."""
    counts: Counter[tuple[str, str]] = Counter()
    for played in found:
        for turn, ended in zip(played.script.turns, played.ends, strict=False):
            counts.update((fault, ended.reason.value) for fault in turn.faults)
    reasons = sorted({reason for _, reason in counts}, key=lambda reason: -sum(counts[one, reason] for one in FAULTS))
    heads = [SHORT.get(reason, reason.partition("_")[0]) for reason in reasons]
    lines = ["fault".ljust(20) + "".join(head.rjust(12) for head in heads) + "all".rjust(8)]
    for fault in (*FAULTS, "good"):
        cells = [counts[fault, reason] for reason in reasons]
        lines.append(fault.ljust(20) + "".join(f"{cell:12}" for cell in cells) + f"{sum(cells):8}")
    turns = Counter(ended.reason.value for played in found for ended in played.ends)
    lines.append("turns".ljust(20) + "".join(f"{turns[reason]:12}" for reason in reasons) + f"{turns.total():8}")
    return "\n".join(lines)


def share(found: list[Played]) -> str:
    """How many of the plain scripts without a permanent fault were answered in every turn."""
    plain = [played for played in found if played.script.setup.plain and not played.script.permanent]
    answered = [played for played in plain if all(ended.reason.is_completed for ended in played.ends)]
    part = len(answered) / max(1, len(plain))
    return f"{len(answered)} of {len(plain)} scripts of up to five passing faults were answered: {part:.1%}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays random fault scripts against the whole program.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", type=int, help="play one script and show its replies")
    given = parser.parse_args()
    if given.only is not None:
        script = script_of(given.only)
        for place, replies in enumerate(script.replies):
            for reply in replies:
                say(f"server {place} ({script.wires[place]}): {reply}")
        played = asyncio.run(play(script))
        tell(played)
        return bool(played.wrong)
    began = time.monotonic()
    found = asyncio.run(campaign(given.seed, given.count))
    wrong = [played.script.seed for played in found if played.wrong]
    say(table(found))
    say(share(found))
    requests = sum(len(replies) for played in found for replies in played.script.replies)
    pairs = sum(played.pairs for played in found)
    say(
        f"{len(found)} scripts from seed {given.seed} on, {requests} requests, {pairs} prefixes compared, "
        f"{time.monotonic() - began:.0f} s; wrong: {wrong or 'none'}"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
