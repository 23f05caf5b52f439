"""The gate: what the rules, the person's policy and the session's grants come to, for each call."""

import contextlib
import logging
import os.path
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from hermes.core.errors import ToolError
from hermes.core.outcomes import AnswerScope
from hermes.core.parts import Source
from hermes.safety.globs import covers, literal, spelled
from hermes.safety.policy import OWN, Rule, answered, said_by
from hermes.safety.shell.findings import Effect, EffectKind, Finding, Verdict
from hermes.tools.permissions.gate import CONNECT, NETWORK, OUTSIDE, WRITE, Decision, Grant
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import Taint
from hermes.tools.tool import Tool
from hermes.util.text import head_and_tail, is_long

if TYPE_CHECKING:
    from hermes.tools.permissions.evaluate import Weighed

_LOG = logging.getLogger(__name__)
_TAINTED = "tainted-"
_EGRESS = "tainted-egress"
_NO_LASTS = (NETWORK, OUTSIDE, _EGRESS)
"""Rules about a host or a path: a person's no to those is for the session."""
_PARTS, _PART = 12, 300
"""How many words, and characters of each, are named of a command that is too long to be shown."""
_UNREAD = ("too-long", "unclear")
_LITERAL, _GLOB = re.compile(r"\[([*?\[])\]"), re.compile(r"[*?\[]")
_SILENT = (EffectKind.READS, EffectKind.WRITES)
Remember = Callable[[Sequence[str]], Awaitable[None]]
"""Writes patterns into the person's settings for good."""
_ASSIGNS = r"(?:^|[\s;&|({\"'])([A-Z][A-Z0-9_]{1,60}=[^\s;&|)}]*)"
"""Assignments to variables that programs see: by custom their names are in capitals."""


class Policy(Struct, frozen=True, kw_only=True):
    """What the person's settings say about calls; nothing that a model, a file or a tool says changes it.

    `allow` holds patterns that need no answer (`hermes.safety.globs`), also as whole lines; `rules` may be stricter
    than Hermes. `hosts` are patterns of hosts that need no question under taint. `off_in` names the backend in which
    nothing is asked; it counts only where that backend holds commands back. None of it lifts a refusal.
    """

    allow: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    hosts: tuple[str, ...] = ()
    off_in: str = ""


class SessionLeave(Struct):
    """What a person has allowed in one session. It ends with the session and is written nowhere."""

    grants: list[Grant] = field(default_factory=list)
    always: list[str] = field(default_factory=list)
    """Patterns that were allowed for good meanwhile."""
    refused: set[str] = field(default_factory=set)
    """Hosts and paths, as subjects of findings, that the person said no to."""
    yolo: bool = False
    """The person wants no questions in this session. Refusals stand."""


class RuleGate:
    """Decides by the rules of `hermes.safety`, the person's policy, and what was allowed in this session.

    Of all that is said about a call the strictest counts. A fault in the analysis is a refusal, never a leave.
    `remember` writes patterns of an answer "always" into the settings; without it there is no such answer. `vouched`
    tells whether the person vouches for a folder now.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        remember: Remember | None = None,
        vouched: Callable[[str], bool] | None = None,
    ) -> None:
        self.policy = policy or Policy()
        self.leave = SessionLeave()
        self._opened: set[str] = set()
        self._remember = remember
        self._vouched = vouched

    def decide(self, tool: Tool, arguments: Arguments, context: ToolContext) -> Decision:
        """The strictest of what there is to say about the call."""
        try:
            from hermes.tools.permissions.evaluate import weigh  # with what it needs, when there is a first call

            self.lift(context.state.taint)
            self._open_allowed(context)
            return self._settled(weigh(tool, arguments, context, self.policy.hosts), tool.name, context)
        except Exception as error:  # noqa: BLE001 - a fault here must be a no, whatever it is; it is logged and told
            _LOG.exception("the gate failed on a call of %s", tool.name)
            reason = f"the gate could not judge it ({type(error).__name__})"
            return Decision(verdict=Verdict.DENY, rule="gate-failed", reason=reason, subject=tool.name)

    def connection(self, host: str, port: int, context: ToolContext, name: str = "") -> Decision:
        """A connection that a sandboxed command wants to make: only to hosts that are allowed, else a question."""
        from hermes.tools.permissions.evaluate import known_host
        from hermes.tools.taint import placed

        subject = spelled((CONNECT, placed(host, port)))
        led = f", where {name} leads" if name else ""
        verdict = Verdict.ALLOW if known_host(host, context, self.policy.hosts, port) else Verdict.ASK
        finding = Finding(verdict, NETWORK, f"the command wants to reach {host}, port {port}{led}", subject)
        return self._settled(_only(finding), "terminal", context)

    def opening(self, path: str, context: ToolContext) -> Decision:
        """A path outside the workspace that a sandboxed command wants to write."""
        from hermes.safety.paths import write_refused

        subject = spelled((WRITE, f"{path}/*" if os.path.isdir(path) else path))
        refused = write_refused(path, context.places)
        if refused:
            return Decision(verdict=Verdict.DENY, rule="protected-path", reason=refused, subject=subject)
        if subject in self.leave.refused:
            return Decision(verdict=Verdict.DENY, rule=OUTSIDE, reason=_said_no(subject), subject=subject)
        finding = Finding(Verdict.ASK, OUTSIDE, f"the sandbox kept the command from writing {path}", subject)
        return self._settled(_only(finding), "terminal", context)

    def refuse(self, decision: Decision) -> None:
        """Remember a person's no to hosts and paths."""
        self.leave.refused.update(decision.sticks)

    async def keep(self, decision: Decision, scope: AnswerScope) -> None:
        """Remember what an answer covers beyond its call."""
        if scope is AnswerScope.SESSION:
            self.leave.grants += decision.grants
        elif scope is AnswerScope.ALWAYS and decision.always and self._remember is not None:
            await self._remember(decision.always)
            self.leave.always += decision.always

    def lift(self, taint: Taint) -> None:
        """Let the sources that the person vouched for count no more."""
        for grant in self.leave.grants:
            if grant.source:
                taint.lift(grant.source)
        for source in taint.sources() if self._vouched is not None else ():
            kind, _, folder = source.partition(":")
            if kind == Source.FILE and self._vouched is not None and self._vouched(folder):
                taint.lift(source)

    def _settled(self, weighed: "Weighed", tool: str, context: ToolContext) -> Decision:
        base = Decision(
            verdict=Verdict.ALLOW,
            subject=weighed.subject,
            cwd=weighed.cwd,
            effects=weighed.effects,
            offline=any(effect.kind is EffectKind.UNKNOWN for effect in weighed.effects),
            looks=weighed.looks,
        )
        asks = self.standing(weighed, context.state.environment)
        never = next((one for one in asks if one.verdict is Verdict.DENY), None)
        if never is not None:
            return structs.replace(base, verdict=Verdict.DENY, rule=never.rule, reason=never.reason)
        if not asks or self._unasked(context, command=bool(weighed.line)):
            return base
        if no := self._said_no_before(asks, weighed):
            return structs.replace(base, verdict=Verdict.DENY, rule=no[0], reason=_said_no(no[1]))
        return self._question(base, weighed, asks, context, tool)

    def _open_allowed(self, context: ToolContext) -> None:
        """Let commands write the places that the person has allowed by name, from the first command on."""
        patterns = [*self.policy.allow, *self.leave.always, *(one.pattern for one in self.leave.grants)]
        patterns += [rule.pattern for rule in self.policy.rules if rule.verdict is Verdict.ALLOW]
        for path in filter(None, map(place_named, dict.fromkeys(patterns))):
            if path in self._opened or os.path.realpath(path) != path or not os.path.exists(path):
                continue
            if self.opening(path, context).verdict is Verdict.ALLOW:
                self._opened.add(path)
                with contextlib.suppress(ToolError):  # what is protected stays closed; a command that tries it is told
                    context.backend.grant(path)

    def standing(self, weighed: "Weighed", environment: Mapping[str, str]) -> list[Finding]:
        """What is left against a call by the person's policy and answers: one refusal, or the questions; or nothing."""
        findings = [*weighed.findings, *said_by(self.policy.rules, weighed.subjects)]
        never = next((one for one in findings if one.verdict is Verdict.DENY), None)
        if never is not None:
            return [never]
        asking = [one for one in findings if one.verdict is Verdict.ASK]
        runs = _files_run(weighed) if asking and self.leave.grants else ()
        asks = [one for one in asking if not self._covered(one, runs, weighed)]
        return [] if asks and self._whole_line(weighed, asks, environment) else asks

    def _said_no_before(self, asks: Iterable[Finding], weighed: "Weighed") -> tuple[str, str] | None:
        """The rule and the host or path that the person said no to in this session; None where there is none."""
        names = ((one.rule, name) for one in asks for name in _lasting_no(one, weighed))
        return next((one for one in names if one[1] in self.leave.refused), None)

    def _question(
        self, base: Decision, weighed: "Weighed", asks: Sequence[Finding], context: ToolContext, tool: str
    ) -> Decision:
        from hermes.tools.permissions.fingerprint import seal

        state = context.state
        plain = [one for one in asks if not one.rule.startswith(_TAINTED)]
        taints = state.taint.sources() if len(plain) < len(asks) else ()
        patterns = _patterns(plain)
        wider = _grants(plain, taints, weighed)
        return structs.replace(
            base,
            verdict=Verdict.ASK,
            rule=asks[0].rule,
            reason="; ".join(dict.fromkeys(_reasons(asks, weighed))),
            grants=wider,
            always=self._lasting(wider),
            pattern=patterns[0] if len(patterns) == 1 and not taints else literal(weighed.line),
            seal=seal(f"{tool} {weighed.subject}", weighed.cwd or str(state.cwd), state, weighed.effects),
            sticks=_sticks(asks, weighed),
            hint=_hint(taints),
        )

    def _lasting(self, grants: Sequence[Grant]) -> tuple[str, ...]:
        """What an answer for good would cover: nothing where a source or a file's content is a part of it."""
        if self._remember is None or any(not one.pattern or one.seal for one in grants):
            return ()
        return tuple(one.pattern for one in grants)

    def _covered(self, finding: Finding, runs: Sequence[str] | None, weighed: "Weighed") -> bool:
        if finding.rule.startswith(_TAINTED):
            return any(covers(one, finding.subject) for one in self.policy.allow)
        patterns = (*self.policy.allow, *self.leave.always)
        # Variables may turn the same words at another cluster, account or database: only the whole line says which.
        if not _steered(weighed.line) and answered(finding, patterns, self.policy.rules):
            return True
        grants = [grant for grant in self.leave.grants if grant.pattern and covers(grant.pattern, finding.subject)]
        led = _led(weighed.effects, finding.subject, _variables(weighed)) if grants else ""
        return any(grant.places == led and (not grant.seal or grant.seal == _sealed(runs)) for grant in grants)

    def _whole_line(self, weighed: "Weighed", asks: Iterable[Finding], environment: Mapping[str, str]) -> bool:
        """Whether the person allowed this very line, letter by letter; their own stricter rules stand."""
        if not weighed.line or any(one.rule == OWN or one.rule.startswith(_TAINTED) for one in asks):
            return False
        lines = (*self.policy.allow, *self.leave.always)
        led = _led(weighed.effects, "", environment) if self.leave.grants else ""
        granted = (grant.pattern for grant in self.leave.grants if not grant.seal and grant.places == led)
        return weighed.line in lines or literal(weighed.line) in (*lines, *granted)

    def _unasked(self, context: ToolContext, *, command: bool) -> bool:
        if self.leave.yolo:
            return True
        backend = context.backend
        # What a backend holds back is its commands: other tools, and connections, are asked about all the same.
        return command and bool(self.policy.off_in) and backend.contained and backend.name == self.policy.off_in


def _grants(plain: Sequence[Finding], sources: Sequence[str], weighed: "Weighed") -> tuple[Grant, ...]:
    """What an answer for the session covers. Where a part of the call cannot be named, nothing can say what that is."""
    patterns = _patterns(plain)
    if plain and not patterns:
        return ()
    runs = _files_run(weighed)
    if runs is None:
        return ()
    bound = _sealed(runs)
    led = {literal_or_folder(one): _led(weighed.effects, one.subject, _variables(weighed)) for one in plain}
    named = (Grant(pattern=one, seal=bound, places=led[one]) for one in patterns)
    return (*named, *(Grant(source=one) for one in sources))


def place_named(pattern: str) -> str:
    """The one place that a pattern `write PLACE` or `write PLACE/*` names, absolute; empty for any other pattern."""
    verb, _, named = pattern.strip().partition(" ")
    if verb != WRITE:
        return ""
    try:
        words = shlex.split(named)
    except ValueError:
        return ""
    path = _LITERAL.sub(r"\1", words[0].removesuffix("/*")) if len(words) == 1 else ""
    plain = not _GLOB.search(_LITERAL.sub("", words[0].removesuffix("/*"))) if path else False
    return path if plain and os.path.isabs(path) else ""


def _said_no(subject: str) -> str:
    return f"the person said no to `{subject}` before, and that holds for this session"


def _lasting_no(one: Finding, weighed: "Weighed") -> tuple[str, ...]:
    """The hosts or paths that a question is about, as a no to it is remembered; none where it is about more."""
    if one.rule not in _NO_LASTS:
        return ()
    if one.rule == OUTSIDE and one.subject != weighed.subject:  # a file tool's: the question names the folder, too
        written = (effect for effect in weighed.effects if effect.kind is EffectKind.WRITES)
        return tuple(spelled((WRITE, target)) for effect in written for target in effect.targets)
    return (one.subject,)


def _sticks(asks: Sequence[Finding], weighed: "Weighed") -> tuple[str, ...]:
    """What a no is about beyond the call: where all that is asked is about hosts or paths."""
    found = [_lasting_no(one, weighed) for one in asks]
    return tuple(dict.fromkeys(name for names in found for name in names)) if all(found) else ()


def _hint(sources: Iterable[str]) -> str:
    """What spares a person such questions, where the text that stands there is of a folder's files."""
    parted = [(kind, label) for kind, _, label in (one.partition(":") for one in sources)]
    folder = next((label for kind, label in parted if kind == Source.FILE), "")
    if not folder:
        return "`/new` begins a conversation without that text" if parted else ""
    named = spelled((folder,))
    others = ", and `/new` those about the other text" if any(kind != Source.FILE for kind, _ in parted) else ""
    return f"`hermes trust {named}` stops such questions{others}: its files then count as yours. Do it if you know them"


def _reasons(asks: Sequence[Finding], weighed: "Weighed") -> Iterator[str]:
    """Why it is asked; of a command that is too long to be shown whole, with the words that each reason is about."""
    if not is_long(weighed.subject):
        yield from (one.reason for one in asks)
    else:
        yield from _with_words(asks, weighed)


def _with_words(asks: Sequence[Finding], weighed: "Weighed") -> Iterator[str]:
    for one in asks:
        words = one.subject if one.subject != weighed.subject else ""
        yield f"{one.reason} (`{head_and_tail(words, _PART)}`)" if words else one.reason
    if any(one.rule in _UNREAD for one in asks):
        yield "not all of it could be judged: read all of it before you say yes"
    if not all(one.subject for one in asks):
        parts = [spelled(one.argv) for one in weighed.effects if one.argv and one.kind not in _SILENT]
        yield from (f"it has `{head_and_tail(one, _PART)}`" for one in list(dict.fromkeys(parts))[:_PARTS])


def _steered(line: str) -> list[str]:
    """The assignments in a line that programs may see, in the order of the line."""
    return re.findall(_ASSIGNS, line) if "=" in line else []


def _variables(weighed: "Weighed") -> Mapping[str, str]:
    """What steers a call's programs besides their words: what earlier commands exported, and what the line assigns."""
    return {**weighed.exported, "": " ".join(_steered(weighed.line))}


def _led(effects: Iterable[Effect], subject: str, variables: Mapping[str, str] | None = None) -> str:
    """Where the effects of a finding's command lead now, as a hash; for a whole line all, with its variables."""
    from hermes.tools.permissions.fingerprint import text_seal

    found = {one for effect in effects if subject in ("", spelled(effect.argv)) for one in effect.targets}
    marks = [text for one in sorted(found) if one[:1] == "/" for text in (one, os.path.realpath(one))]
    return text_seal(*marks, *(f"{name}={value}" for name, value in sorted((variables or {}).items())))


def _sealed(runs: Sequence[str] | None) -> str:
    """The hash of the files that a call runs; empty when it runs none, or they cannot be told."""
    from hermes.tools.permissions.fingerprint import file_seal

    return file_seal(runs) if runs else ""


def _only(finding: Finding) -> "Weighed":
    """What is to be said where there is one thing to say."""
    from hermes.tools.permissions.evaluate import Weighed

    return Weighed((finding,), (), finding.subject, "", "", (finding.subject,))


def _patterns(asks: Sequence[Finding]) -> tuple[str, ...]:
    """The patterns that cover these findings and nothing else; none where one of them has no name."""
    if any(not one.subject for one in asks):
        return ()
    return tuple(dict.fromkeys(literal_or_folder(one) for one in asks))


def literal_or_folder(finding: Finding) -> str:
    """A finding's subject as a pattern; one about a folder's files stands for the folder."""
    pattern = literal(finding.subject)
    if finding.rule != OUTSIDE:
        return pattern
    return re.sub(r"/\[\*\]('?)$", r"/*\1", pattern)


def _files_run(weighed: "Weighed") -> tuple[str, ...] | None:
    """The files that the call takes code from; of a folder, those in it that may hold code. None: too many to tell."""
    from hermes.tools.permissions.fingerprint import code_in

    found = [one for effect in weighed.effects if effect.kind is EffectKind.RUNS for one in effect.targets]
    listed: dict[str, None] = {}
    for path in dict.fromkeys(one for one in found if one[:1] == "/"):
        below = code_in(path) if os.path.isdir(path) else [path]
        if below is None:
            return None
        listed |= dict.fromkeys(below)
    return tuple(listed)
