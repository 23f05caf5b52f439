"""The permission gate: combines the rules, the person's policy and the session's grants
into a decision on each call.
"""

import contextlib
import logging
import os.path
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from hermes.core.errors import ToolError
from hermes.core.messages import Source
from hermes.core.outcomes import AnswerScope
from hermes.core.work_mode import WorkMode
from hermes.execution.base import DeniedPath
from hermes.i18n.messages import N_
from hermes.safety.globs import covers_subject, escape_pattern, quote_argv
from hermes.safety.policy import POLICY_RULE_NAME, PolicyRule, find_policy_findings, is_answered
from hermes.safety.shell.findings import CommandEffect, CommandFinding, EffectKind, Verdict
from hermes.tools.named_paths import list_targets
from hermes.tools.permissions import gate
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import Taint, split_source
from hermes.tools.tool import Tool
from hermes.util.localizable import join_localizable
from hermes.util.text import escape_line_breaks, is_long, shorten_value

if TYPE_CHECKING:
    from hermes.tools.permissions.call_facts import CallFacts

_LOG = logging.getLogger(__name__)
_TAINTED = "tainted-"
_EGRESS = "tainted-egress"
_SERVER = "mcp-server"
"""The rule of MCP servers that an editor hands in."""
_PLACE_RULES = (gate.OUTSIDE, gate.HIDDEN, gate.UNSEEN)
_FOLDER_RULES = (*_PLACE_RULES, gate.UNCOPIED)
"""Rules whose answers stand for a folder, whatever command comes to it."""
_LASTING_REFUSAL_RULES = (gate.NETWORK, gate.SITE, *_PLACE_RULES, _EGRESS)
"""Rules about a host or a path: a person's no to those holds for the session."""
_MAX_PARTS, _MAX_PART_CHARACTERS = 12, 300
"""How many words, and characters of each, are named of a command that is too long to be shown."""
_UNJUDGED_RULES = ("too-long", "unclear")
_LITERAL, _GLOB = re.compile(r"\[([*?\[])\]"), re.compile(r"[*?\[]")
_UNMENTIONED_KINDS = (EffectKind.READS, EffectKind.WRITES)
SavePatterns = Callable[[Sequence[str]], Awaitable[None]]
"""Writes patterns into the person's settings for good."""
_ASSIGNMENT = r"(?:^|[\s;&|({\"'])([A-Z][A-Z0-9_]{1,60}=[^\s;&|)}]*)"
"""Assignments to variables that programs see: by custom their names are in capitals."""


class ApprovalPolicy(Struct, frozen=True, kw_only=True):
    """The person's settings about calls; nothing that a model, a file or a tool says changes it.

    `allow` holds patterns that need no answer (`hermes.safety.patterns`), also as whole lines; `rules` may
    be stricter than Hermes. `hosts` are patterns of hosts that need no question under taint. `off_in` names
    the backend in which nothing is asked; it counts only where that backend confines commands. None of it
    lifts a refusal.
    """

    allow: tuple[str, ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    hosts: tuple[str, ...] = ()
    off_in: str = ""


class SessionGrants(Struct):
    """The permissions that a person gave in one session. They end with the session and are written nowhere."""

    grants: list[gate.SessionGrant] = field(default_factory=list)
    always: list[str] = field(default_factory=list)
    """Patterns that were allowed for good during the session."""
    refused_subjects: set[str] = field(default_factory=set)
    """Hosts and paths, as subjects of findings, that the person said no to."""
    yolo: bool = False
    """Whether the person wants no questions in this session. Refusals stand."""


class PolicyGate:
    """Decides by the rules of `hermes.safety`, the person's policy, and what was allowed in this session.

    Of all findings about a call the strictest counts. A fault in the analysis is a refusal, never a
    permission. `remember` writes patterns of an answer "always" into the settings; without it there is no
    such answer. `is_trusted` tells whether the person trusts a folder now.
    """

    def __init__(
        self,
        policy: ApprovalPolicy | None = None,
        *,
        remember: SavePatterns | None = None,
        is_trusted: Callable[[str], bool] | None = None,
    ) -> None:
        self.policy = policy or ApprovalPolicy()
        self.session_grants = SessionGrants()
        self._granted_paths: set[tuple[str, str]] = set()
        self._remember = remember
        self._is_trusted = is_trusted or (lambda _: False)

    def decide_call(self, tool: Tool, arguments: Arguments, context: ToolContext) -> gate.PermissionDecision:
        """Return the strictest decision that the findings on the call lead to."""
        try:
            from hermes.tools.permissions.evaluate import evaluate_call  # at the first call, with what it needs

            self.lift_trusted_sources(context.state.taint)
            self._grant_allowed_paths(context)
            facts = evaluate_call(tool, arguments, context, self.policy.hosts)
            if context.state.mode is WorkMode.PLAN:
                from hermes.tools.permissions.work_modes import PLAN_RULE, explain_plan_refusal

                if why := explain_plan_refusal(tool, facts, context.backend):
                    return gate.PermissionDecision(
                        verdict=Verdict.DENY, rule=PLAN_RULE, reason=why, subject=facts.subject, cwd=facts.cwd
                    )
            return self._apply_policy(facts, context)
        except Exception as error:  # noqa: BLE001 - a fault here must be a no, whatever it is; it is logged and told
            _LOG.exception("the gate failed on a call of %s", tool.name)
            reason = N_("the gate could not judge it ({name})", name=type(error).__name__)
            return gate.PermissionDecision(verdict=Verdict.DENY, rule="gate-failed", reason=reason, subject=tool.name)

    def decide_connection(self, host: str, port: int, context: ToolContext, name: str = "") -> gate.PermissionDecision:
        """Decide on a connection that a sandboxed command wants to make: only to hosts that are allowed, else a
        question.
        """
        from hermes.tools.permissions.taint_checks import is_known_host
        from hermes.tools.taint import format_host

        subject = quote_argv((gate.CONNECT, format_host(host, port)))
        led = f", where {name} leads" if name else ""
        verdict = Verdict.ALLOW if is_known_host(host, context, self.policy.hosts, port) else Verdict.ASK
        reason = N_("the command connects to {host}, port {port}{led}", host=host, port=port, led=led)
        return self._decide_finding(CommandFinding(verdict, gate.NETWORK, reason, subject), context)

    def decide_site(self, host: str, port: int, context: ToolContext, sender: str = "") -> gate.PermissionDecision:
        """Decide on a site that the browser wants to open, or to which a page of `sender` wants to send data: a
        question, unless the settings allow the host to open.
        """
        from hermes.tools.taint import format_host

        named = format_host(host, port)
        if sender:
            reason = N_("a page of {sender} sends data to {host}, another site", sender=sender, host=named)
            subject, verdict = quote_argv((gate.SEND, named, sender)), Verdict.ASK
        else:
            reason = N_("the browser opens {host}; what its pages load is not asked about", host=named)
            is_known = _is_known_site(named, [one.lower() for one in self.policy.hosts])
            subject, verdict = quote_argv((gate.VISIT, named)), Verdict.ALLOW if is_known else Verdict.ASK
        return self._decide_finding(CommandFinding(verdict, gate.SITE, reason, subject), context)

    def decide_opening(self, denied: DeniedPath, context: ToolContext) -> gate.PermissionDecision:
        """Decide on a path outside the workspace that a sandboxed command wants to read or write."""
        from hermes.safety.paths import read_refusal, write_refusal

        path, rule = denied.path, gate.OUTSIDE if denied.is_write else gate.UNSEEN
        verb = gate.WRITE if denied.is_write else gate.READ
        subject = quote_argv((verb, f"{path}/*" if os.path.isdir(path) else path))
        refused = (write_refusal if denied.is_write else read_refusal)(path, context.places)
        if denied.is_write and context.state.mode is WorkMode.PLAN:
            refused = N_("this is plan mode, in which nothing is changed")
        rule = "protected-path" if refused else rule
        if refused := refused or self._find_refusal(subject):
            return gate.PermissionDecision(
                verdict=Verdict.DENY, rule=rule, reason=escape_line_breaks(refused), subject=subject
            )
        reason = N_("the sandbox kept the command from writing {path}", path=path)
        if not denied.is_write:
            reason = N_("the command missed something in {path}, which commands do not see", path=path)
        return self._decide_finding(CommandFinding(Verdict.ASK, rule, reason, subject), context)

    def decide_server(self, subject: str, what: str, context: ToolContext) -> gate.PermissionDecision:
        """Decide on an MCP server that a session's editor hands in. `subject` stands for exactly that server, `what`
        says what would be started or reached.
        """
        if context.state.mode is WorkMode.PLAN:
            reason = N_("this is plan mode, in which nothing is changed")
            return gate.PermissionDecision(verdict=Verdict.DENY, rule=_SERVER, reason=reason, subject=subject)
        reason = N_("the editor hands in an MCP server, which has all of your rights: {what}", what=what)
        return self._decide_finding(CommandFinding(Verdict.ASK, _SERVER, reason, subject), context)

    def _decide_finding(self, finding: CommandFinding, context: ToolContext) -> gate.PermissionDecision:
        from hermes.tools.permissions.call_facts import CallFacts

        facts = CallFacts(subject=escape_line_breaks(finding.subject), subjects=(finding.subject,), findings=(finding,))
        return self._apply_policy(facts, context)

    def remember_refusal(self, decision: gate.PermissionDecision) -> None:
        """Remember a person's no to hosts and paths."""
        self.session_grants.refused_subjects.update(decision.lasting_refusals)

    def _find_refusal(self, subject: str) -> str:
        """Return the reason why a host or path is refused: the person's no to it; for a folder, or to one around it."""
        said = self.session_grants.refused_subjects
        around = sorted(said) if _name_below(subject) != escape_pattern(subject) else ()
        found = next((one for one in around if covers_subject(_name_below(one), subject)), subject * (subject in said))
        return found and N_("the person said no to `{subject}` before, and that holds for this session", subject=found)

    async def remember_approval(self, decision: gate.PermissionDecision, scope: AnswerScope) -> None:
        """Remember what an answer covers beyond its call."""
        if scope is AnswerScope.SESSION:
            self.session_grants.grants += decision.grants
        elif scope is AnswerScope.ALWAYS and decision.always and self._remember is not None:
            await self._remember(decision.always)
            self.session_grants.always += decision.always

    def lift_trusted_sources(self, taint: Taint) -> None:
        """Lift the taint of the sources that the person trusts."""
        for grant in self.session_grants.grants:
            if grant.source:
                taint.trust_source(grant.source)
        for source in taint.list_sources():
            kind, folder = split_source(source)
            if kind == Source.FILE and self._is_trusted(folder):
                taint.trust_source(source)

    def _apply_policy(self, facts: "CallFacts", context: ToolContext) -> gate.PermissionDecision:
        decision = self._weigh_findings(facts, context)
        # Names that others chose stand in it: none may begin a line of its own.
        return structs.replace(decision, reason=escape_line_breaks(decision.reason))

    def _weigh_findings(self, facts: "CallFacts", context: ToolContext) -> gate.PermissionDecision:
        base = gate.PermissionDecision(
            verdict=Verdict.ALLOW,
            subject=facts.subject,
            cwd=facts.cwd,
            effects=facts.effects,
            offline=any(effect.kind is EffectKind.UNKNOWN for effect in facts.effects),
            is_read_only=facts.is_read_only,
            opened=facts.opened,
            losses=tuple(one.loss for one in facts.losses if one.loss not in context.state.uncovered),
            folders=facts.folders,
            moved=facts.judged.moved,
        )
        asks = self.list_objections(facts)
        if asks and asks[0].verdict is Verdict.DENY:
            return structs.replace(base, verdict=Verdict.DENY, rule=asks[0].rule, reason=asks[0].reason)
        asks = self._list_asked(asks, facts, context)
        if not asks:
            return base
        named = ((one.rule, subject) for one in asks for subject in _list_refusal_subjects(one, facts))
        for rule, subject in named:
            if refused := self._find_refusal(subject):
                return structs.replace(base, verdict=Verdict.DENY, rule=rule, reason=refused)
        return self._build_question(base, facts, asks, context)

    def _grant_allowed_paths(self, context: ToolContext) -> None:
        """Let commands write, or read, the places that the person has allowed by name, from the first command on."""
        granted = (one.pattern for one in self.session_grants.grants)
        allowing = (rule.pattern for rule in self.policy.rules if rule.verdict is Verdict.ALLOW)
        patterns = dict.fromkeys((*self.policy.allow, *self.session_grants.always, *granted, *allowing))
        for verb, path in map(parse_granted_path, patterns):
            known = (verb, path) in self._granted_paths
            if not path or known or os.path.realpath(path) != path or not os.path.exists(path):
                continue
            opened = DeniedPath(path, is_write=True)
            if verb == gate.READ or self.decide_opening(opened, context).verdict is Verdict.ALLOW:
                self._granted_paths.add((verb, path))
                with contextlib.suppress(ToolError):  # what is protected stays closed; a command that tries it is told
                    (context.backend.grant_read if verb == gate.READ else context.backend.grant_write)(path)

    def list_objections(self, facts: "CallFacts") -> list[CommandFinding]:
        """Return what is left against a call by the person's policy and answers: one refusal, or the questions; or
        nothing.
        """
        findings = [*facts.findings, *find_policy_findings(self.policy.rules, facts.subjects)]
        never = next((one for one in findings if one.verdict is Verdict.DENY), None)
        if never is not None:
            return [never]
        asking = [one for one in findings if one.verdict is Verdict.ASK]
        code = _fingerprint_run_files(_list_run_files(facts)) if asking and self.session_grants.grants else ""
        asks = [one for one in asking if not self._is_covered(one, code, facts)]
        return [] if asks and self._is_line_allowed(facts, asks) else asks

    def _build_question(
        self, base: gate.PermissionDecision, facts: "CallFacts", asks: Sequence[CommandFinding], context: ToolContext
    ) -> gate.PermissionDecision:
        from hermes.tools.permissions.fingerprint import fingerprint_call

        state, cwd = context.state, facts.cwd or str(context.state.cwd)
        # What a yes opens is part of the question: an answer to another one is none to this.
        what = " ".join((facts.tool, facts.subject, *(f"{one.is_write} {one.path}" for one in facts.opened)))
        plain = [one for one in asks if not one.rule.startswith(_TAINTED)]
        taints = state.taint.list_sources() if len(plain) < len(asks) else ()
        wider = _build_grants(plain, taints, facts)
        # Nothing is allowed for good where a source or a file's content is a part of it.
        is_lasting = self._remember is not None and all(one.pattern and not one.fingerprint for one in wider)
        return structs.replace(
            base,
            verdict=Verdict.ASK,
            rule=asks[0].rule,
            reason=join_localizable("; ", dict.fromkeys(_list_reasons(asks, facts))),
            grants=wider,
            always=tuple(one.pattern for one in wider) if is_lasting else (),
            pattern=_pick_pattern(() if taints else plain, facts),
            fingerprint=fingerprint_call(what, cwd, state, facts.effects),
            lasting_refusals=_list_lasting_refusals(asks, facts),
            hint=_build_hint(taints),
        )

    def _is_covered(self, finding: CommandFinding, code: str, facts: "CallFacts") -> bool:
        if finding.rule.startswith(_TAINTED):
            return any(covers_subject(one, finding.subject) for one in self.policy.allow)
        patterns = (*self.policy.allow, *self.session_grants.always)
        # Variables may turn the same words at another cluster, account or database: only the whole line says which.
        if not _find_assignments(facts.line) and is_answered(finding, patterns, self.policy.rules):
            return True
        named = (one for one in self.session_grants.grants if one.pattern)
        grants = [one for one in named if covers_subject(one.pattern, finding.subject)]
        led, bound = _bind_grant(finding, facts, code) if grants else ("", "")
        return any(one.places_hash == led and one.fingerprint in ("", bound) for one in grants)

    def _is_line_allowed(self, facts: "CallFacts", asks: Iterable[CommandFinding]) -> bool:
        """Return whether the person allowed this very line, letter by letter; their own stricter rules stand."""
        if not facts.line or any(one.rule == POLICY_RULE_NAME or one.rule.startswith(_TAINTED) for one in asks):
            return False
        lines = (*self.policy.allow, *self.session_grants.always)
        plain = [one for one in self.session_grants.grants if not one.fingerprint]
        led = _hash_places(facts.effects, "", facts.exported) if plain else ""
        granted = (one.pattern for one in plain if one.places_hash == led)
        return facts.line in lines or escape_pattern(facts.line) in (*lines, *granted)

    def _list_asked(self, asks: list[CommandFinding], facts: "CallFacts", context: ToolContext) -> list[CommandFinding]:
        """Return the questions that are put: none where the person wants none in this session, and of a command that
        is not asked about where it runs those about places, connections being decided when they are made.
        """
        backend = context.backend
        is_off = facts.line and self.policy.off_in == backend.name and backend.contained
        if context.state.mode is WorkMode.AUTO and backend.contained:
            from hermes.tools.permissions.work_modes import HELD_RULES

            asks = [one for one in asks if one.rule not in HELD_RULES]
        return [one for one in asks if (one.rule in _PLACE_RULES or not is_off) and not self.session_grants.yolo]


def _is_known_site(named: str, patterns: Sequence[str]) -> bool:
    """Return whether the settings let the browser open a host; an inner one needs more of its name than wildcards."""
    from hermes.safety.urls import judge_url

    is_public = judge_url(f"http://{named}/").verdict is Verdict.ALLOW
    return any(
        covers_subject(one, named) and (is_public or bool(re.sub(r":[\d*]+$", "", one).strip("*?.")))
        for one in patterns
    )


def _build_grants(
    plain: Sequence[CommandFinding], sources: Sequence[str], facts: "CallFacts"
) -> tuple[gate.SessionGrant, ...]:
    """Return what an answer for the session covers; nothing where a part of the call cannot be named."""
    runs = _list_run_files(facts) if all(one.subject for one in plain) else None
    if runs is None:
        return ()
    code = _fingerprint_run_files(runs)
    bound = {pattern_from_finding(one): _bind_grant(one, facts, code) for one in plain}
    named = (gate.SessionGrant(pattern=one, places_hash=bound[one][0], fingerprint=bound[one][1]) for one in bound)
    return (*named, *(gate.SessionGrant(source=one) for one in sources))


def _bind_grant(finding: CommandFinding, facts: "CallFacts", code: str) -> tuple[str, str]:
    """Return what a yes for the session is bound to: where the effects lead, and the code that runs. A place that is
    opened is open to all commands.
    """
    if finding.rule in _FOLDER_RULES:
        return "", ""
    # What steers a call's programs besides their words counts: earlier exports, and what the line assigns.
    steering = {**facts.exported, "": " ".join(_find_assignments(facts.line))}
    return _hash_places(facts.effects, finding.subject, steering), code


@lru_cache(maxsize=256)
def parse_granted_path(pattern: str) -> tuple[str, str]:
    """Return the verb and the one absolute path of a pattern `write PATH`, `read PATH` or one with `/*` behind it;
    an empty path for any other pattern.
    """
    verb, _, named = pattern.strip().partition(" ")
    if verb not in (gate.READ, gate.WRITE):
        return "", ""
    try:
        words = shlex.split(named)
    except ValueError:
        return "", ""
    path = _LITERAL.sub(r"\1", words[0].removesuffix("/*")) if len(words) == 1 else ""
    plain = not _GLOB.search(_LITERAL.sub("", words[0].removesuffix("/*"))) if path else False
    return verb, path if plain and os.path.isabs(path) else ""


def _list_refusal_subjects(one: CommandFinding, facts: "CallFacts") -> tuple[str, ...]:
    """Return the hosts or paths that a question is about, as a no to it is remembered; none where it is about more."""
    if one.rule not in _LASTING_REFUSAL_RULES:
        return ()
    if one.rule == gate.OUTSIDE and not facts.line and one.subject != facts.subject:
        # A file tool's: the question names the folder, too.
        return tuple(quote_argv((gate.WRITE, one)) for one in sorted(list_targets(facts.effects, EffectKind.WRITES)))
    return (one.subject,)


def _list_lasting_refusals(asks: Sequence[CommandFinding], facts: "CallFacts") -> tuple[str, ...]:
    """Return what a no is about beyond the call: where all that is asked is about hosts or paths."""
    found = [_list_refusal_subjects(one, facts) for one in asks]
    return tuple(dict.fromkeys(name for names in found for name in names)) if all(found) else ()


def _build_hint(sources: Iterable[str]) -> str:
    """Return how to avoid such questions, where the untrusted text in the conversation is of a folder's files."""
    parted = list(map(split_source, sources))
    folder = next((label for kind, label in parted if kind == Source.FILE), "")
    if not folder:
        return N_("`/new` begins a conversation without that text") if parted else ""
    named = quote_argv((folder,))
    if all(kind == Source.FILE for kind, _ in parted):
        return N_(
            "`hermes trust {named}` stops such questions, if you know its files: they count as yours", named=named
        )
    return N_("`hermes trust {named}`, if you know its files, and `/new` stop such questions", named=named)


def _list_reasons(asks: Sequence[CommandFinding], facts: "CallFacts") -> Iterator[str]:
    """Return the reasons of a question; for a command too long to be shown whole, with the words that each is about."""
    return _quote_reasons(asks, facts) if is_long(facts.subject) else (one.reason for one in asks)


def _quote_reasons(asks: Sequence[CommandFinding], facts: "CallFacts") -> Iterator[str]:
    for one in asks:
        words = shorten_value(one.subject, _MAX_PART_CHARACTERS) if one.subject != facts.subject else ""
        yield N_("{reason} (`{words}`)", reason=one.reason, words=words) if words else one.reason
    if any(one.rule in _UNJUDGED_RULES for one in asks):
        yield "not all of it could be judged: read all of it before you say yes"
    if not all(one.subject for one in asks):
        parts = [quote_argv(one.argv) for one in facts.effects if one.argv and one.kind not in _UNMENTIONED_KINDS]
        for part in list(dict.fromkeys(parts))[:_MAX_PARTS]:
            yield N_("it has `{truncate_middle}`", truncate_middle=shorten_value(part, _MAX_PART_CHARACTERS))


def _find_assignments(line: str) -> list[str]:
    """Return the assignments in a line that programs may see, in the order of the line."""
    return re.findall(_ASSIGNMENT, line) if "=" in line else []


def _hash_places(effects: Iterable[CommandEffect], subject: str, variables: Mapping[str, str]) -> str:
    """Return a hash of where the effects of a finding's command lead now; for a whole
    line of all, with its variables.
    """
    from hermes.tools.permissions.fingerprint import fingerprint_texts

    found = {one for effect in effects if subject in ("", quote_argv(effect.argv)) for one in effect.targets}
    marks = [text for one in sorted(found) if one[:1] == "/" for text in (one, os.path.realpath(one))]
    return fingerprint_texts(*marks, *(f"{name}={value}" for name, value in sorted(variables.items())))


def _fingerprint_run_files(runs: Sequence[str] | None) -> str:
    """Return the fingerprint of the files that a call runs; empty when it runs none, or they cannot be told."""
    from hermes.tools.permissions.fingerprint import fingerprint_files

    return fingerprint_files(runs) if runs else ""


def _pick_pattern(asks: Sequence[CommandFinding], facts: "CallFacts") -> str:
    """Return the pattern that would allow a call: that of its only question, else of its whole line."""
    # Where a line may assign a variable, only the whole of it is ever allowed.
    patterns = set(map(pattern_from_finding, () if _find_assignments(facts.line) else asks))
    return (patterns.pop() if len(patterns) == 1 else "") or escape_pattern(facts.line)


def pattern_from_finding(finding: CommandFinding) -> str:
    """Return a finding's subject as a pattern; one about a folder's files stands for the folder."""
    return _name_below(finding.subject) if finding.rule in _FOLDER_RULES else escape_pattern(finding.subject)


def _name_below(subject: str) -> str:
    """Return a subject as a pattern, in which `/*` at the end stands for all of a folder."""
    return re.sub(r"/\[\*\]('?)$", r"/*\1", escape_pattern(subject))


def _list_run_files(facts: "CallFacts") -> list[str] | None:
    """Return the files that the call takes code from; of a folder, those in it that may hold code.

    None: too many to tell.
    """
    from hermes.tools.permissions.fingerprint import list_run_files

    found = (one for effect in facts.effects if effect.kind is EffectKind.RUNS for one in effect.targets)
    return list_run_files(one for one in found if one[:1] == "/")
