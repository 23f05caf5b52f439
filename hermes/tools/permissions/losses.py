"""Finds the files that a confined command would lose: what a checkpoint can bring back needs no question."""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from msgspec import Struct, structs

from hermes.core.checkpoints import FileLoss
from hermes.execution.git_programs import find_config_file
from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.layout import PathAccess
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import (
    FILE_LOSS_RULES,
    CommandEffect,
    CommandFinding,
    CommandJudgement,
    EffectKind,
    Verdict,
)
from hermes.safety.shell.regenerable import is_regenerable_path
from hermes.tools.path_patterns import list_matches
from hermes.tools.session import ToolContext

_NUMBER = re.compile(r"\$\{(?:[$!?#]|RANDOM|SECONDS)\}|\$[$!?#]")
"""Values of the shell that are numbers, whatever they are: a name with one in it leads nowhere else."""
_LOSING = (EffectKind.DELETES, EffectKind.OVERWRITES, EffectKind.DESTROYS)
_OTHER_REPOSITORY = re.compile(r"GIT_|--git-dir|--work-tree|core\.worktree", re.IGNORECASE)
"""What tells git that its files are elsewhere than where it runs."""
_LINKERS = ("ln", "gln", "link", "mount")
_SEARCHES = (("find",), ("gfind",))


class AskedLoss(Struct, frozen=True):
    """A loss of files, and the question that is asked where no copy makes up for it."""

    loss: FileLoss
    question: CommandFinding


def is_undoable(finding: CommandFinding, context: ToolContext) -> bool:
    """Return whether a finding is about nothing but files that a checkpoint may bring back."""
    return finding.rule in FILE_LOSS_RULES and finding.verdict is Verdict.ASK and _keeps_copies(context)


def may_lie_outside(finding: CommandFinding, judged: CommandJudgement, line: str, context: ToolContext) -> bool:
    """Return whether a loss may be of a place outside of the workspace that commands may write, too: no copy is kept of
    that. What is not known may be anywhere.
    """
    layout, workspace = context.backend.current_layout(), context.places.workspace
    if layout is None or all(is_or_below(one, workspace) for one in layout.paths_with(PathAccess.WRITE)):
        return False
    causes = [one for one in judged.effects if one.kind in _LOSING and finding.subject.endswith(quote_argv(one.argv))]
    by_git = finding.rule.startswith("git-")
    lost = _list_repositories(causes, line, context) if by_git else _list_real_places(causes, context)
    return not lost or not all(is_or_below(one, workspace) for one in lost)


def _list_repositories(causes: Iterable[CommandEffect], line: str, context: ToolContext) -> list[str]:
    """Return the settings files of the repositories that git works in; none where something leads it elsewhere."""
    if any(one.startswith("GIT_") for one in context.state.environment) or _OTHER_REPOSITORY.search(line):
        return []
    return [find_config_file(target, context.places.workspace) for one in causes for target in one.targets]


def _list_real_places(causes: Iterable[CommandEffect], context: ToolContext) -> list[str]:
    """Return where the targets of effects lead as it is now; none where only the run knows one."""
    named = [(target, one) for one in causes for target in one.targets]
    if any(target[:1] != "/" or "$" in target for target, _ in named):
        return []
    return [os.path.realpath(place) for target, one in named for place in _list_named(target, one, context)]


def _keeps_copies(context: ToolContext) -> bool:
    return context.safeguard is not None and context.safeguard.keeps_copies


def list_losses(judged: CommandJudgement, context: ToolContext) -> tuple[AskedLoss, ...]:
    """Return what a confined command would lose in the workspace; nothing where no copies are kept of it."""
    if not context.backend.contained or not _keeps_copies(context):
        return ()
    asked = [one for one in judged.findings if is_undoable(one, context)]
    found: list[AskedLoss] = []
    told: set[CommandFinding] = set()
    for effect in judged.effects:
        if effect.kind is EffectKind.DELETES:
            subject = quote_argv(effect.argv)
            about = [one for one in asked if one.subject and one.subject.endswith(subject)]
            found += _list_deleted(effect, about, judged, context)
            told.update(about)
        found += _list_overwritten(effect, context)
    return (*found, *(AskedLoss(_guess_loss(one, context), one) for one in asked if one not in told))


def _guess_loss(finding: CommandFinding, context: ToolContext) -> FileLoss:
    """Return what a command loses of which no paths are known: of the work tree what git would, else all of it."""
    loss = FileLoss(context.places.workspace)
    if not finding.rule.startswith("git-"):
        return loss
    words = finding.subject.split()
    letters = "".join(one for one in words if one.startswith("-") and not one.startswith("--"))
    cleans = finding.rule == "git-clean"
    # With a second force git takes whole repositories along: what they ignore, and their histories.
    takes_repositories = not words or (cleans and letters.count("f") + words.count("--force") > 1)
    takes_ignored = takes_repositories or (cleans and "x" in letters.lower())
    return structs.replace(loss, ignored=takes_ignored, history=takes_repositories)


def _list_deleted(
    effect: CommandEffect, about: list[CommandFinding], judged: CommandJudgement, context: ToolContext
) -> Iterator[AskedLoss]:
    """Yield what a deletion loses. A folder of a search counts where a question is about it, since less is deleted, or
    where it is build output: a repository may lie in it.

    A folder that is moved away counts, too: undoing that takes away what is at its new name.
    """
    plain = CommandFinding(Verdict.ASK, "deletes-file", N_("it deletes files"), quote_argv(effect.argv))
    workspace, moved_paths = context.places.workspace, {*context.state.moved_paths, *judged.moved}
    places = (workspace,) if about and _is_led_elsewhere(effect, judged) else _list_places(effect, context)
    for path in dict.fromkeys(places):
        is_move = os.path.basename("".join(effect.argv[:1])) == "mv"
        if about or is_move or not os.path.isdir(path):
            moved = any(is_or_below(one, path) or is_or_below(path, one) for one in moved_paths)
            yield AskedLoss(FileLoss(path, builds=moved), about[0] if about else plain)
        elif is_regenerable_path(path, context.places):
            yield AskedLoss(FileLoss(path), plain)


def _list_overwritten(effect: CommandEffect, context: ToolContext) -> Iterator[AskedLoss]:
    """Yield the files that a command names for overwriting, itself or by their folder, and that are too large to be
    copied.
    """
    plain = CommandFinding(Verdict.ASK, "overwrites-file", N_("it overwrites a file"), quote_argv(effect.argv))
    targets = effect.targets if effect.kind is EffectKind.OVERWRITES else ()
    known = (context.backend.to_local_path(one) for one in targets if one[:1] == "/")
    for path in (one for target in known for one in list_matches(target)):
        names = effect.argv[1:] if os.path.isdir(path) else ("",)
        for real in (os.path.realpath(os.path.join(path, os.path.basename(name))) for name in names):
            if context.safeguard is not None and not context.safeguard.can_copy(real):
                yield AskedLoss(FileLoss(real), plain)


def _is_led_elsewhere(effect: CommandEffect, judged: CommandJudgement) -> bool:
    """Return whether a deletion may go through links that cannot be looked at: those that its own line makes before,
    and those that a search finds.
    """
    before = takewhile(lambda one: one.argv != effect.argv, judged.commands)
    if any(one.argv[:1] and os.path.basename(one.argv[0]) in _LINKERS for one in before):
        return True
    return effect.argv[:1] in _SEARCHES and any(word in ("-L", "-follow") for word in effect.argv)


def _list_places(effect: CommandEffect, context: ToolContext) -> Iterator[str]:
    """Yield the paths in the workspace that a deletion is about; all of it where they lie above it or are not known."""
    workspace = context.places.workspace
    for target in (_NUMBER.sub("0", one) for one in effect.targets):
        is_known = target[:1] == "/" and "$" not in target
        for place in _list_named(target, effect, context) if is_known else (workspace,):
            if is_or_below(workspace, place):
                yield workspace
            elif is_or_below(place, workspace):
                yield place


def _list_named(target: str, effect: CommandEffect, context: ToolContext) -> Iterator[str]:
    """Yield where the target of a deletion leads, by the links on the way as they are now.

    A folder above the workspace may be the session's own in the eyes of its commands: both are named. A link that is
    named itself is only unlinked, unless it is entered.
    """
    enters = effect.argv[:1] in _SEARCHES or any(word.endswith(("/", "/.")) for word in effect.argv)
    for path in {os.path.normpath(one) for one in (target, context.backend.to_local_path(target))}:
        for one in list_matches(path):
            folder, name = os.path.split(one)
            yield one
            yield os.path.realpath(one) if enters else os.path.join(os.path.realpath(folder), name)
