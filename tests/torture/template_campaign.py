"""Whole conversations with servers whose templates and validators refuse orders of roles.

    python -m tests.torture.template_campaign [--only WORD]

Each rule set has a conversation of its own, over three processes: thoughts without an answer, warnings, words and news
that join tool results, hints of folders, stops, the end of a budget, undo, compression, pictures, and thirty turns. No
refusal may end a turn; each one is followed by an epoch that is shown; within an epoch what was sent stays sent.
"""

import argparse
import asyncio
import itertools
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from hermes.config.trusted_folders import set_trust
from hermes.core.events import EpochBegan, Event, RequestStarted, ToolStarted
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.testing.template_rules import NAMED_RULES, Alternation, RefusalForm, TemplateRules

PICTURES = Path(__file__).parent.parent / "mcp" / "broken_server.py"
BUDGET = 6
REWRITTEN = "rewritten: "
_SUMMARY = Say("## Goal\nA talk.\n## Progress\n### Done\nA few turns.\nFINISHED:")


class RuleCase(Struct, frozen=True):
    """A rule set, and the provider that Hermes takes its server for."""

    name: str
    rules: TemplateRules
    provider: str = "custom"


class CaseReport(Struct):
    """What came of a conversation."""

    turns: int = 0
    requests: int = 0
    refusals: int = 0
    healed: list[str] = field(default_factory=list)
    """The rewrites of the epochs that a refusal led to."""
    pairs: int = 0
    problems: list[str] = field(default_factory=list)


_LIMITS: Mapping[str, Mapping[str, bool]] = {
    "plain": {"user_first": True},
    "tool then user": {"user_after_tool": False},
    "prefill": {"ends_in_assistant": False, "empty": False},
    "system": {"system": False, "user_first": True},
    "calls": {"parallel_calls": False, "calls_with_text": False},
}
_FORMS = (RefusalForm.LLAMA_CPP, RefusalForm.VLLM, RefusalForm.LM_STUDIO, RefusalForm.TGI, RefusalForm.OPENAI)
_OWN_PROVIDERS = {
    "mistral": "mistral",
    "deepseek": "deepseek",
    "qwen": "vllm",
    "gemma": "llamacpp",
    "llama": "lmstudio",
}


def list_cases() -> Iterator[RuleCase]:
    """Yield every rule set: forty made ones, and the named ones at the providers that have such servers."""
    forms = itertools.cycle(_FORMS)
    for alternation, (name, limits) in itertools.product(Alternation, _LIMITS.items()):
        rules = TemplateRules(alternation=alternation, tools=alternation is not Alternation.ALL, **limits)
        for provider in ("custom", "vllm"):
            form = next(forms)
            title = f"{alternation.value}, {name}, {form.value}, {provider}"
            yield RuleCase(title, structs.replace(rules, form=form), provider)
    yield RuleCase("reasoning, custom", TemplateRules(form=RefusalForm.OPENAI, reasoning="reasoning_content"))
    for name, rules in NAMED_RULES.items():
        yield RuleCase(name, rules, _OWN_PROVIDERS.get(name, "custom"))


class TemplateTalk:
    """One conversation with one such server."""

    def __init__(self, case: RuleCase, home: TempHome, server: ScriptedServer, replies: deque[Reply]) -> None:
        self.report = CaseReport()
        self._case = case
        self._home = home
        self._server = server
        self._replies = replies
        self._fresh = False
        self._new: set[int] = set()

    async def run(self, turns: int) -> CaseReport:
        """Hold the conversation in three processes, and judge what was sent."""
        await self._in_process(self._first_half, latest=False)
        await self._in_process(self._second_half)
        await self._in_process(lambda app, actor: self._plain_turns(actor, turns))
        self._judge()
        return self.report

    async def _in_process(self, talk: Callable[[App, SessionActor], Awaitable[None]], *, latest: bool = True) -> None:
        options = SessionOptions(cwd=str(self._home.cwd), max_turns=BUDGET)
        async with App(self._home.environ, options) as app:
            actor = await app.open_session(latest=latest)
            if latest and actor.conversation.epoch_reason:
                self.report.problems.append(f"restored as {actor.conversation.epoch_reason!r}")
            actor.subscribe(self._hear)
            await talk(app, actor)

    async def _first_half(self, _: App, actor: SessionActor) -> None:
        await self._turn(actor, Say("Hello."))
        await self._turn(actor, Say("", reasoning="hm"), Say("Thought out."))
        await self._turn(actor, _read("a"), Say(""), Say("It says apple."))
        await self._turn(actor, _read("gone"), _read("gone"), _read("gone"), Say("It is gone."))
        both = (Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"}))
        await self._turn(actor, Say("I look.", calls=both), Say("Both."))
        await self._turn(actor, Say("I look again.", calls=both), Say("One ", finish="length"), Say("two."))
        await self._turn(actor, _read("sub/c"), Say("A hint came along."))
        await self._steered_turn(actor)
        await self._turn(actor, *_background_calls(), Say("Built."))
        await self._stopped_turn(actor)
        await self._stopped_turn(actor, _read("a"))

    async def _second_half(self, app: App, actor: SessionActor) -> None:
        looks = [_read(f"n{number}") for number in range(BUDGET)]
        await self._turn(actor, *looks, Say("That is all I have."), reason=ExitReason.BUDGET_EXHAUSTED)
        await app.session_undo(actor).undo_turns(1, files=False)
        await self._turn(actor, Say("Undone."))
        if not await actor.compress():
            self.report.problems.append("nothing was compressed")
        await self._turn(actor, _read("b"), Say("Compressed."))
        await self._turn(actor, Say("", reasoning="hm"), Say("", reasoning="hm"), Say("At last."))
        picture = Call("tool_call", {"name": "mcp__srv__picture", "arguments": {}})
        await self._turn(actor, Say(calls=(picture,)), Say("I see."))

    async def _plain_turns(self, actor: SessionActor, turns: int) -> None:
        for number in range(turns):
            replies = (_read("a"), Say(f"Answer {number}.")) if number % 3 == 0 else (Say(f"Answer {number}."),)
            await self._turn(actor, *replies)

    async def _turn(self, actor: SessionActor, *replies: Reply, reason: ExitReason = ExitReason.TEXT_RESPONSE) -> None:
        self._replies.extend(replies)
        ended = await actor.post(InboundMessage(text=f"Turn {self.report.turns}.", cwd=str(self._home.cwd)))
        self._check_end(ended.reason, reason, ended.error)

    async def _steered_turn(self, actor: SessionActor) -> None:
        self._replies.extend([Say(calls=(Call("terminal", {"command": "sleep 0.1; echo ran"}),)), Say("I minded it.")])
        joined: list[asyncio.Future[object]] = []

        def steer(event: Event) -> None:
            if isinstance(event, ToolStarted) and not joined:
                joined.append(asyncio.ensure_future(actor.steer(InboundMessage(text="Mind the gap."))))

        unsubscribe = actor.subscribe(steer)
        ended = await actor.post(InboundMessage(text="Steer.", cwd=str(self._home.cwd)))
        unsubscribe()
        await asyncio.gather(*joined)
        self._check_end(ended.reason, ExitReason.TEXT_RESPONSE, ended.error)

    async def _stopped_turn(self, actor: SessionActor, *before: Reply) -> None:
        self._replies.extend([*before, Say("slow", delivery=ReplyDelivery(hold_at=0))])
        turn = actor.post(InboundMessage(text="Stop me.", cwd=str(self._home.cwd)))
        while self._replies and not turn.done():
            arrived = asyncio.ensure_future(self._server.wait_for(len(self._server.requests) + 1))
            await asyncio.wait({turn, arrived}, return_when=asyncio.FIRST_COMPLETED)
            arrived.cancel()
        actor.stop()
        ended = await turn
        self._check_end(ended.reason, ExitReason.INTERRUPTED, ended.error)

    def _check_end(self, reason: ExitReason, wanted: ExitReason, error: str) -> None:
        if reason is not wanted or self._replies:
            left = f", {len(self._replies)} replies left" if self._replies else ""
            self.report.problems.append(f"turn {self.report.turns} ended as {reason.value}{left}: {error[:300]}")
            self._replies.clear()
        self.report.turns += 1

    def _hear(self, event: Event) -> None:
        if isinstance(event, EpochBegan):
            self._fresh = True
            if event.reason.startswith(REWRITTEN):
                self.report.healed.append(event.reason.removeprefix(REWRITTEN))
        elif isinstance(event, RequestStarted) and self._fresh:
            self._new.add(len(self._server.requests))
            self._fresh = False

    def _judge(self) -> None:
        report, rules = self.report, self._case.rules
        own = [request for request in self._server.requests if request.tool_names]
        refused = [request for request in own if rules.find_refusal(request) is not None]
        report.requests, report.refusals = len(own), len(refused)
        if len(refused) != len(report.healed):
            report.problems.append(f"{len(refused)} refusals, epochs: {report.healed}")
        report.pairs = check_prefixes(own, new_epochs=self._new)
        if not any("Mind the gap." in str(one.messages) for one in own):
            report.problems.append("what the person said meanwhile was not sent")


def _read(path: str) -> Say:
    return Say(calls=(Call("read_file", {"path": path}),))


def _background_calls() -> Sequence[Reply]:
    command = {"command": "sleep 0.05; echo built", "background": True, "notify_on_complete": True}
    return Say(calls=(Call("terminal", command),)), Say(calls=(Call("terminal", {"command": "sleep 0.2"}),))


def _config(case: RuleCase, url: str) -> dict[str, object]:
    served = {"command": sys.executable, "args": ["-I", str(PICTURES)], "trust": "always"}
    return {
        "model": {
            "default": "mock-model",
            "provider": case.provider,
            "base_url": url,
            "api_key": "key-for-a-test",
            "context_length": 2_000_000,
        },
        "agent": {"api_max_retries": 0},
        "compression": {"protect_last_n": 4, "protect_first_n": 1},
        "command_allowlist": ["*", "connect mcp:srv"],
        "mcp_servers": {"srv": served},
    }


async def run_case(case: RuleCase, turns: int = 30) -> CaseReport:
    """Hold the conversation with the server of one rule set."""
    replies: deque[Reply] = deque()

    def answer(request: RecordedRequest) -> Reply:
        return replies.popleft() if request.tool_names else _SUMMARY

    async with ScriptedServer(ScriptedModel(answer), strict=case.rules) as server:
        with TempHome.for_server(server.url, more_config=_config(case, server.url)) as home:
            set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)
            (home.cwd / "sub").mkdir()
            (home.cwd / "sub" / "AGENTS.md").write_text("In this folder all is blue.\n")
            for name in ("a", "b", "sub/c", *(f"n{number}" for number in range(BUDGET))):
                (home.cwd / name).write_text(f"apple {name}\n")
            return await TemplateTalk(case, home, server, replies).run(turns)


async def _run_all(only: str) -> int:
    bad = 0
    for case in list_cases():
        if only not in case.name:
            continue
        began = time.monotonic()
        report = await run_case(case)
        bad += bool(report.problems)
        seconds = time.monotonic() - began
        healed = ", ".join(report.healed) or "-"
        sys.stdout.write(
            f"{case.name}: {report.turns} turns, {report.requests} requests, {report.pairs} pairs, "
            f"{report.refusals} refused, epochs {healed}, {seconds:.1f} s\n"
        )
        sys.stdout.writelines(f"    {problem}\n" for problem in report.problems)
    sys.stdout.write(f"{bad} rule sets with problems\n")
    return int(bad > 0)


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    return asyncio.run(_run_all(parser.parse_args().only))


if __name__ == "__main__":
    sys.exit(main())
