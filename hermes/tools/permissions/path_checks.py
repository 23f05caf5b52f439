"""Checks of the paths that a call names: closed, hidden, outside of the workspace, or led elsewhere by links."""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hermes.execution.base import DeniedPath
from hermes.execution.sandbox.opened_keys import is_kept_key
from hermes.i18n.messages import N_
from hermes.safety.autorun_files import OBEYED_REASON
from hermes.safety.globs import quote_argv
from hermes.safety.paths import CONFINED_REASON, Places, is_or_below, read_refusal, write_refusal
from hermes.safety.shell.findings import CommandFinding, EffectKind, SimpleCommand, Verdict
from hermes.safety.shell.words import word_set
from hermes.tools.named_paths import MAX_PATH, list_command_paths, list_targets
from hermes.tools.path_facts import PathFacts, resolve_link
from hermes.tools.path_patterns import FoundPlace, PatternBudget, list_matches
from hermes.tools.permissions.call_facts import PERSISTING_KINDS, CallFacts
from hermes.tools.permissions.gate import HIDDEN, OUTSIDE, READ, WRITE
from hermes.tools.session import ToolContext
from hermes.util.text import shorten_value

if TYPE_CHECKING:
    from hermes.safety.path_policy import PathJudgement

_FOLDER_READERS = word_set(
    "grep egrep fgrep rg ag ack ugrep tar bsdtar zip 7z 7za cpio pax find strings git file scp rsync"
)
"""Programs that read, or take along, everything in a folder."""


_MAX_PATHS = 2_000


def check_paths(facts: CallFacts, context: ToolContext) -> Iterable[CommandFinding]:
    """Return what speaks against the paths that a call names: of several of a command in one place, about the first."""
    found: dict[tuple[str, str], CommandFinding] = {}
    for one in _judge_paths(facts, context):
        found.setdefault((one.rule, (facts.line and one.subject) or one.reason), one)
    return found.values()


def _judge_paths(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    for one in facts.paths:
        if one.judged.verdict is not Verdict.ALLOW:
            yield _finding_from_path(one.use.path, one.judged)
        if one.kept:
            yield _ask_about_opening(one, context)
        elif one.judged.verdict is not Verdict.ALLOW:
            continue
        elif one.use.write and not (one.hidden and context.backend.is_writable(one.real)):
            yield from _find_outside_write(one.real, context)
        elif one.hidden:
            yield from _find_hidden_read(one, context)  # a change shows what is beside it


def _ask_about_opening(path: PathFacts, context: ToolContext) -> CommandFinding:
    """Return the question, or the refusal, about the folder that a command needs opened to write a path."""
    named, folder = context.backend.to_command_path(_name_path(path)), path.kept
    if folder == context.places.home:
        reason = N_("{named} lies directly in the home, which is never opened to commands", named=named)
        return CommandFinding(Verdict.DENY, OUTSIDE, reason)
    reason = N_(
        "{named} is outside the workspace: a yes lets it read and write all of {folder}", named=named, folder=folder
    )
    return CommandFinding(Verdict.ASK, OUTSIDE, reason, quote_argv((WRITE, f"{folder}/*")))


def _name_path(path: PathFacts) -> str:
    """Return a path as it was typed; where it meets no link, without what is gone back."""
    return path.real if os.path.normpath(path.use.path) == path.real else path.use.path


def _find_outside_write(real: str, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for a file outside of the workspace, and for one of the home's dot files."""
    from hermes.tools.path_access import name_written_folder

    named = context.backend.to_command_path(real)
    if _is_home_dot_file(real, context):
        reason = N_("{named} is a setting of some program", named=named)
        yield CommandFinding(Verdict.ASK, "dot-file", reason, N_("write {real}", real=real))
    elif not context.backend.is_writable(real):
        folder = os.path.dirname(real)
        reason = N_("{named} is outside the workspace", named=named)
        if context.backend.can_open(DeniedPath(folder, is_write=True)):
            reason = N_(
                "{named} is outside the workspace: a yes for the session lets commands read and write all of {folder}",
                named=named,
                folder=folder,
            )
        yield CommandFinding(Verdict.ASK, OUTSIDE, reason, quote_argv((WRITE, name_written_folder(real, context))))


def _find_hidden_read(path: PathFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield what speaks against reading what commands do not see: nothing where the person has named the file."""
    from hermes.tools.path_access import SessionView, is_named_by_person, name_folder

    view = SessionView(context)
    if context.places.confined:
        reason = N_("{path} is not open to tools: {reason}", path=path.use.path, reason=CONFINED_REASON)
        yield CommandFinding(Verdict.DENY, HIDDEN, reason)
    elif not is_named_by_person(path.real, path.hidden, context):
        named = path.real if is_kept_key(path.real) or path.use.path[:1] != "/" else _name_path(path)
        for one in path.hidden:
            reason = N_("{named} is in a place that commands do not see", named=named)
            if os.path.isdir(one) and one != named:
                reason = N_("{named} is hidden from commands: a yes shows it all of {folder}", named=named, folder=one)
            # A yes for a folder is none for the keys in it: the words for those fit no pattern of a folder.
            words = (READ, "key", one) if view.is_key(one) else (READ, name_folder(one, context))
            yield CommandFinding(Verdict.ASK, HIDDEN, reason, quote_argv(words))


def _finding_from_path(path: str, judged: "PathJudgement") -> CommandFinding:
    """Return what speaks against a path that is not simply open."""
    if judged.verdict is Verdict.DENY:
        reason = N_("{path} is not open to tools: {reason}", path=path, reason=judged.reason)
        return CommandFinding(judged.verdict, judged.rule, reason)
    reason = N_("it writes {real}: {reason}", real=judged.real, reason=judged.reason)
    # A yes for a folder is none for what programs obey in it: the words for that fit no pattern of a folder.
    words = (WRITE, judged.rule, judged.real) if judged.rule == "start-link" else (WRITE, judged.real)
    return CommandFinding(judged.verdict, judged.rule, reason, quote_argv(words))


def check_dot_files(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each dot file of the home that a command writes."""
    for target in sorted(list_targets(facts.judged.effects)):
        if _is_home_dot_file(os.path.normpath(target), context) and "/.cache/" not in target:
            reason = N_("{target} is a setting of some program", target=target)
            yield CommandFinding(Verdict.ASK, "dot-file", reason, quote_argv((">", target)))


def _is_home_dot_file(path: str, context: ToolContext) -> bool:
    """Return whether a path is one of the home's dot files, outside of the workspace: any program may run those."""
    home, workspace = context.places.home, context.places.workspace
    if not path.startswith(f"{home}/.") or is_or_below(path, context.places.hermes):
        return False
    return not is_or_below(path, workspace) or is_or_below(home, workspace)


def check_secret_reads(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each program that reads a key, or a whole folder with keys in it."""
    for simple in facts.judged.commands:
        paths = _list_read_paths(simple, context)
        read = (one for one in paths if _holds_keys(one, context.places))
        if path := next(read, ""):
            reason = N_("it reads keys, or all of {path}", path=path)
            yield CommandFinding(Verdict.ASK, "reads-secret", reason, quote_argv(simple.argv))


def _holds_keys(path: str, places: Places) -> bool:
    """Return whether a path is a key, or a folder in which keys are: the home, or Hermes' own."""
    holds = is_or_below(places.home, path) or is_or_below(places.hermes, path)
    return holds or bool(read_refusal(path, places))


def _list_read_paths(simple: SimpleCommand, context: ToolContext) -> Iterator[str]:
    """Yield the paths that a program which reads whole folders is given, and where they lead."""
    name = simple.argv[0].rpartition("/")[2] if simple.argv else ""
    if name == "find" and not any("exec" in word or "-ok" in word for word in simple.argv):
        return
    for word in simple.argv[1:] if name in _FOLDER_READERS else ():
        if len(word) < MAX_PATH and "\0" not in word:
            path = os.path.normpath(context.places.expand_path(word, simple.cwd))
            yield from dict.fromkeys((path, os.path.realpath(path)))


def check_links(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield findings for paths that lead to protected places through links, as they are now, and for what a repository
    makes git run: the text shows neither.
    """
    from hermes.execution.git_programs import is_led_to
    from hermes.safety.path_policy import judge_path

    changed = list_targets(facts.judged.effects)
    for path, real, is_changed in _list_linked_paths(facts, changed, context):
        found = judge_path(path, "write" if is_changed else "read", "/", context.places) if real else None
        if found is not None and found.verdict is not Verdict.ALLOW:
            own = is_or_below(real, context.places.hermes)
            reason = N_("{path} leads to {real}: {reason}", path=path, real=real, reason=found.reason)
            verdict = Verdict.DENY if own else Verdict.ASK
            yield CommandFinding(verdict, "protected-path", reason, quote_argv((">", real)))
        elif is_changed and path[:1] == "/" and is_led_to(real or path, context.places.home):
            reason = N_("it {how_said} {path}: {refused}", how_said=N_("writes"), path=path, refused=OBEYED_REASON)
            yield CommandFinding(Verdict.ASK, "protected-path", reason, quote_argv((">", path)))


def _list_linked_paths(facts: CallFacts, changed: set[str], context: ToolContext) -> Iterator[tuple[str, str, bool]]:
    """Yield what the words of a command may stand for now, patterns resolved, where that leads, and whether it is
    changed.
    """
    budget = PatternBudget()
    for word in sorted(changed | list_command_paths(facts.judged.commands, context.places))[:_MAX_PATHS]:
        for place in dict.fromkeys((FoundPlace(word), *list_matches(word, budget))):
            path = os.path.join(place.path, "*") if place.is_whole else place.path
            yield path, resolve_link(place.path), word in changed


def check_linked_deletions(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield questions for deletions by a name in the session's folder, where a link on the way leads out of it now.

    A link that is named itself is only unlinked, unless a slash or a pattern follows it or a search starts there.
    """
    workspace = os.path.realpath(context.places.workspace)
    for effect in facts.judged.effects:
        searches = effect.argv[:1] in (("find",), ("gfind",)) or any(word[-1:] in "/*?]." for word in effect.argv)
        for target in effect.targets if effect.kind is EffectKind.DELETES else ():
            real = os.path.realpath(target if searches else os.path.dirname(target))
            if is_or_below(target, context.places.workspace) and not is_or_below(real, workspace):
                reason = N_("{target} leads to {real}, outside the session's folder", target=target, real=real)
                reason = N_("it deletes there: {reason}", reason=reason)
                yield CommandFinding(Verdict.ASK, "rm-outside", reason, quote_argv(effect.argv))


def check_closed_paths(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield refusals for what a sandbox keeps closed, or takes back after a command, whatever a person says."""
    for target in sorted(one for one in list_targets(facts.judged.effects, *PERSISTING_KINDS) if one[:1] == "/"):
        real = os.path.realpath(target)
        why = write_refusal(real, context.places)
        if why == OBEYED_REASON or (why and not context.backend.is_writable(real)):
            reason = N_("{target} is never opened to commands: {why}", target=target, why=why)
            yield CommandFinding(Verdict.DENY, "protected-path", reason, target)


def check_losses(facts: CallFacts, context: ToolContext) -> Iterator[CommandFinding]:
    """Yield a question for each loss of files that no checkpoint covers, or of which that is not known yet."""
    lost: dict[CommandFinding, dict[str, None]] = {}
    for one in facts.losses:
        if uncovered := context.state.uncovered.get(one.loss, one.loss.path):
            lost.setdefault(one.question, {})[uncovered] = None
    for question, paths in lost.items():
        path = shorten_value(", ".join(paths), MAX_PATH)
        reason = N_("{reason}; no copy is kept for certain of {path}", reason=question.reason, path=path)
        yield CommandFinding(Verdict.ASK, question.rule, reason, question.subject)
