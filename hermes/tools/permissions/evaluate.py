"""Evaluates a call: its facts are collected once, and a table of checks says what speaks against it."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from hermes.i18n.messages import N_
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.tools.named_paths import list_targets
from hermes.tools.path_patterns import PatternBudget, list_matches
from hermes.tools.permissions import path_checks, taint_checks
from hermes.tools.permissions.call_facts import CallFacts, collect_facts
from hermes.tools.permissions.git_config import find_repository_programs, judge_changed_settings
from hermes.tools.permissions.losses import is_undoable
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool

_PLACEHOLDER = "it holds a placeholder of a secret, which is not put into commands: name the variable that holds it"


class Where(StrEnum):
    """The calls that a check is for."""

    CALL = "call"
    """Every call."""
    COMMAND = "command"
    """Every command."""
    CONFINED = "confined"
    """Commands that a kernel, or another machine, keeps from this machine's files."""
    UNCONFINED = "unconfined"
    """Commands that nothing confines."""
    ASKED = "asked"
    """Commands behind a wall, where a person would be asked about the call or untrusted content is there."""


class Check(Struct, frozen=True):
    """One row of the table: its name, the calls that it is for, and what yields the findings."""

    name: str
    where: Where
    check: Callable[[CallFacts, ToolContext], Iterable[CommandFinding]]


def _check_typed_text(facts: CallFacts, _: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question, once a process, about typing into a program that may run what it reads."""
    if facts.reader:
        reason = N_("it types into {runs}, which may run it", runs=repr(facts.reader[:200]))
        subject = N_("input of {process_id}", process_id=facts.process_id)
        yield CommandFinding(Verdict.ASK, "types-into", reason, subject)


def _check_addresses(facts: CallFacts, context: ToolContext) -> Sequence[CommandFinding]:
    """Return the findings on the addresses. Where only some are refused, the tool leaves those out itself."""
    if not facts.addresses:
        return ()
    from hermes.safety.urls import UrlPolicy, judge_url

    policy = UrlPolicy(private=context.web.private if context.web is not None else ())
    judged = [(url, judge_url(url, policy)) for url in facts.addresses]
    if any(one.verdict is Verdict.ALLOW for _, one in judged):
        return ()
    return [CommandFinding(one.verdict, one.rule, one.reason, f"{facts.tool} {url}") for url, one in judged]


def _check_command(facts: CallFacts, context: ToolContext) -> Sequence[CommandFinding]:
    """Return the findings of the analysis that count where the command runs."""
    found = facts.judged.relevant_findings(sandboxed=False)
    if not context.backend.contained:
        return found
    is_held = not _is_changing_opened(facts, context)
    return [one for one in found if not (one.contained and is_held) and not is_undoable(one, context)]


def _is_changing_opened(facts: CallFacts, context: ToolContext) -> bool:
    """Return whether a confined command changes an opened place outside of the workspace: there nothing holds it."""
    once = context.state.one_time_paths.get(facts.subject)
    if any(one.is_write for one in (*facts.opened, *(once.paths if once is not None else ()))):
        return True
    budget, workspace = PatternBudget(), os.path.realpath(context.places.workspace)
    targets = [one for one in list_targets(facts.judged.effects) if one[:1] == "/"]
    paths = (
        path for one in targets for path in {one.rstrip("*"), *(place.path for place in list_matches(one, budget))}
    )
    named = map(os.path.realpath, paths)
    return any(not is_or_below(one, workspace) and context.backend.is_writable(one) for one in named)


def _check_placeholder(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a refusal of a command that holds a placeholder of a secret."""
    if context.redactor is not None and context.redactor.has_placeholder(facts.subject):
        yield CommandFinding(Verdict.DENY, "placeholder", _PLACEHOLDER, facts.subject)


CHECKS = (
    Check("typed text", Where.CALL, _check_typed_text),
    Check("doubts of the tool's owner", Where.CALL, lambda facts, _: facts.doubts),
    Check("paths", Where.CALL, path_checks.check_paths),
    Check("addresses", Where.CALL, _check_addresses),
    Check("own effects beside untrusted content", Where.CALL, taint_checks.check_own_effects),
    Check("rules about commands", Where.COMMAND, _check_command),
    Check("git settings", Where.COMMAND, lambda it, _: judge_changed_settings(it.judged) if it.settings_file else ()),
    Check("placeholders", Where.COMMAND, _check_placeholder),
    Check("links", Where.UNCONFINED, path_checks.check_links),
    Check("deletions through links", Where.UNCONFINED, path_checks.check_linked_deletions),
    Check("dot files", Where.UNCONFINED, path_checks.check_dot_files),
    Check("reads of keys", Where.UNCONFINED, path_checks.check_secret_reads),
    Check("runs of own files", Where.UNCONFINED, taint_checks.check_own_file_runs),
    Check("repositories", Where.UNCONFINED, lambda facts, context: find_repository_programs(facts.judged, context)),
    Check("commands beside untrusted content", Where.UNCONFINED, taint_checks.check_tainted_command),
    Check("effects beside untrusted content", Where.CONFINED, taint_checks.check_confined_effects),
    Check("losses", Where.CONFINED, path_checks.check_losses),
    Check("closed paths", Where.ASKED, path_checks.check_closed_paths),
)
"""The checks, in the order in which a question names what they find. The strictest finding decides."""


def evaluate_call(tool: Tool, arguments: Arguments, context: ToolContext, hosts: Sequence[str]) -> CallFacts:
    """Return the facts about a call, with everything that speaks against it.

    `hosts` are patterns of hosts that the person's settings allow.
    """
    facts = structs.replace(collect_facts(tool, arguments, context), known_hosts=tuple(hosts))
    findings: list[CommandFinding] = []
    for row in CHECKS:
        if _is_for(row.where, facts, context, findings):
            findings += row.check(facts, context)
    return structs.replace(facts, findings=tuple(findings))


def _is_for(where: Where, facts: CallFacts, context: ToolContext, found: Sequence[CommandFinding]) -> bool:
    if where is Where.CALL or not facts.line:
        return where is Where.CALL
    if where is Where.ASKED:
        return context.backend.current_layout() is not None and bool(found or facts.sources)
    return where is Where.COMMAND or (where is Where.CONFINED) is context.backend.contained
