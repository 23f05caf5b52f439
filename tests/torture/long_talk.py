"""A conversation of hundreds of turns with tools, memory and skills, and a new process every so many turns.

    python -m tests.torture.long_talk --turns 200                                    the scripted model, three wires
    python -m tests.torture.long_talk --turns 200 --url http://127.0.0.1:8080/v1     a real llama-server

Reported are the requests, the pairs that were compared, the epochs with their reasons, and the hit rate: of the
scripted model the share of each request's bytes that stood in the one before, of a real server what it says itself.
"""

import argparse
import asyncio
import itertools
import re
import sys
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from hermes.config.trusted_folders import set_trust
from hermes.core.events import EpochBegan, Event, RequestEnded, RequestStarted
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.conversation import StepRole
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Call, Reply, Say, ScriptedModel
from hermes.testing.server import ScriptedServer

RESTART = 20
_TURN = re.compile(r"(?:/[a-z-]+ )?Turn (\d+):")
WIRES = ("chat_completions", "responses", "anthropic_messages")


class Report(Struct):
    """What came of a talk."""

    turns: int = 0
    requests: list[RecordedRequest] = field(default_factory=list)
    pairs: int = 0
    epochs: list[str] = field(default_factory=list)
    """Why each epoch but the first began."""
    hit_rate: float = 0.0
    worst: float = 1.0
    """The lowest share of the previous prompt that a real server had cached, outside of new epochs."""


def calls_for(turn: int) -> tuple[Call, ...]:
    """The tools that the scripted model wants in a turn; most turns want none or one."""
    calls: list[Call] = []
    if turn % 3 == 0:
        calls.append(Call("terminal", {"command": f"printf 'line {turn}\\n%.0s' $(seq 40)"}))
    if turn % 4 == 0:
        calls.append(Call("write_file", {"path": f"notes/{turn}.txt", "content": f"note {turn}\n" * 10}))
        calls.append(Call("read_file", {"path": "notes/4.txt"}))
    if turn % 7 == 0:
        calls.append(Call("memory", {"action": "add", "target": "memory", "content": f"Fact number {turn}."}))
    if turn % 11 == 0:
        calls.append(Call("skill_view", {"name": "sqlite-inspect"}))
    if turn % 13 == 0:
        calls.append(Call("session_search", {"query": "note"}))
    if turn % 17 == 0:
        calls.append(Call("todo", {"todos": [{"id": "1", "content": f"step {turn}", "status": "pending"}]}))
    return tuple(calls)


def scripted(request: RecordedRequest) -> Reply:
    """A summary where one is wanted, else the turn's calls, then its answer."""
    if not request.tool_names:
        return Say("## Goal\nA long talk.\n## Progress\n### Done\nMany turns.\nFINISHED:")
    said = [match for step in request.conversation if step.role is StepRole.USER and (match := _TURN.match(step.text))]
    turn = int(said[-1][1])
    wants = calls_for(turn)
    if wants and request.conversation[-1].role is StepRole.USER:
        return Say(f"I look ({turn}).", calls=wants)
    return Say(f"Answer {turn}. " + "It is as you say. " * 8)


HARMLESS = ("todo", "memory", "skills", "session_search")
"""Tool sets for a model that calls tools with nonsense."""


def text_of(turn: int) -> str:
    """What the person says in a turn; a word that makes a toy model call a tool stands in every third."""
    extra = "/meeting-notes " if turn % 50 == 49 else ""
    how = "use a tool" if turn % 3 == 0 else "tell me"
    return f"{extra}Turn {turn}: {how} about item {turn}, please."


class Talk:
    """One conversation in one home, in as many processes as it takes."""

    def __init__(
        self, home: TempHome, report: Report, server: ScriptedServer | None, *, options: Mapping[str, int]
    ) -> None:
        self._home = home
        self._report = report
        self._server = server
        self._max_tokens = options.get("max_tokens")
        self._new: set[int] = set()
        """Numbers of the requests that begin an epoch."""
        self._fresh = False
        self._before = 0
        self._cached = self._sent = 0

    async def go(self, turns: int, *, condense: Sequence[int] = (), undo: Sequence[int] = ()) -> None:
        """All turns; before some of them the conversation is condensed, or that is undone."""
        for first in range(1, turns + 1, RESTART):
            real = self._server is None
            options = SessionOptions(
                cwd=str(self._home.cwd),
                max_tokens=self._max_tokens,
                enabled_toolsets=HARMLESS if real else None,
            )
            async with App(self._home.environ, options) as app:
                actor = await app.open_session(latest=first > 1)
                if first > 1:
                    assert actor.conversation.epoch_reason == "", actor.conversation.epoch_reason
                actor.subscribe(self._heard)
                for turn in range(first, min(first + RESTART, turns + 1)):
                    if turn in condense:
                        assert await actor.compress()
                    if turn in undo:
                        assert await actor.compress(undo=True)
                    ended = await actor.post(InboundMessage(text=text_of(turn), cwd=str(self._home.cwd)))
                    assert real or ended.reason is ExitReason.TEXT_RESPONSE, ended
                    self._report.turns += 1
        if self._server is not None:
            self._judge(self._server.requests)
        elif self._sent:
            self._report.hit_rate = self._cached / self._sent

    def _heard(self, event: Event) -> None:
        if isinstance(event, EpochBegan):
            self._report.epochs.append(event.reason)
            self._fresh = True
        elif isinstance(event, RequestStarted) and self._server is not None and self._fresh:
            self._new.add(len(self._server.requests))
            self._fresh = False
        elif isinstance(event, RequestEnded) and self._server is None and event.usage is not None:
            self._counted(event.usage.input, event.usage.cache_read)

    def _counted(self, prompt: int, cached: int) -> None:
        if self._before and not self._fresh:
            self._report.worst = min(self._report.worst, cached / self._before)
        self._cached, self._sent = self._cached + cached, self._sent + prompt
        self._before, self._fresh = prompt, False

    def _judge(self, requests: Sequence[RecordedRequest]) -> None:
        own = [request for request in requests if request.tool_names]
        report = self._report
        report.requests = own
        report.pairs = check_prefixes(own, new_epochs=self._new)
        wrong = [line for request in own for line in find_problems(request)]
        assert wrong == [], wrong[:3]
        same = sum(_common(one.body, other.body) for one, other in itertools.pairwise(own))
        report.hit_rate = same / sum(len(request.body) for request in own[1:])


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two requests begin with that are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


async def scripted_talk(wire: str, turns: int, *, condense: Sequence[int] = (), undo: Sequence[int] = ()) -> Report:
    """A talk with the scripted model on one wire."""
    report = Report()
    async with ScriptedServer(ScriptedModel(scripted)) as server:
        more = {"memory": {"memory_char_limit": 20_000}}
        with TempHome.for_server(server.url, api_mode=wire, more_config=more) as home:
            # Of a folder that nobody vouches for the files are strangers' words, and memories wait for a yes.
            set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)
            await Talk(home, report, server, options={}).go(turns, condense=condense, undo=undo)
            report.epochs.append(f"memory: {len(memory_of(home).split('§'))} entries")
    return report


def memory_of(home: TempHome) -> str:
    """What the talk has kept."""
    return (home.hermes / "memories" / "MEMORY.md").read_text()


async def real_talk(url: str, turns: int) -> Report:
    """A talk with a real llama-server, which counts itself what it had cached."""
    report = Report()
    with TempHome.for_server(url, more_config={"compression": {"enabled": False}}) as home:
        await Talk(home, report, None, options={"max_tokens": 40}).go(turns)
    return report


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    if given.url:
        report = asyncio.run(real_talk(given.url, given.turns))
        _say(f"{report.turns} turns: {report.hit_rate:.2%} of all prompt tokens came from the server's cache;")
        _say(f"the lowest share of a previous prompt that was cached: {report.worst:.2%}; epochs: {report.epochs}")
        return 0
    for wire in WIRES:
        condense, undo = [given.turns // 2], [given.turns * 3 // 4]
        report = asyncio.run(scripted_talk(wire, given.turns, condense=condense, undo=undo))
        size = len(report.requests[-1].body)
        _say(f"{wire}: {report.turns} turns, {len(report.requests)} requests (the last has {size:,} bytes),")
        _say(f"  {report.pairs} pairs compared, nothing re-sent had changed; hit rate {report.hit_rate:.2%}")
        _say(f"  epochs: {report.epochs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
