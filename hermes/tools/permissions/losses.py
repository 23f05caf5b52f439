"""Finds the files that a confined command would lose: what a checkpoint can bring back needs no question."""

import glob
import os
import re
from collections.abc import Iterable, Iterator

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
from hermes.tools.named_paths import is_led_away, is_led_by_links
from hermes.tools.path_patterns import PatternBudget, list_matches, list_places
from hermes.tools.session import ToolContext

_NUMBER = re.compile(r"\$\{(?:[$!?#]|RANDOM|SECONDS)\}|\$[$!?#]")
"""Values of the shell that are numbers, whatever they are: a name with one in it leads nowhere else."""
_LOSING = (EffectKind.DELETES, EffectKind.OVERWRITES, EffectKind.DESTROYS)


class AskedLoss(Struct, frozen=True):
    """A loss of files, and the question that is asked where no copy makes up for it."""

    loss: FileLoss
    question: CommandFinding


def is_undoable(finding: CommandFinding, context: ToolContext) -> bool:
    """Return whether a finding is about nothing but files that a checkpoint may bring back."""
    return finding.rule in FILE_LOSS_RULES and finding.verdict is Verdict.ASK and _keeps_copies(context)


def may_lie_outside(
    finding: CommandFinding, judged: CommandJudgement, line: str, context: ToolContext, budget: PatternBudget
) -> bool:
    """Return whether a loss may be of a place outside of the workspace that commands may write, too: no copy is kept of
    that. What is not known may be anywhere.
    """
    opened = _list_opened(context) if finding.rule in FILE_LOSS_RULES else []
    by_git = finding.rule.startswith("git-")
    if not opened or is_led_away(judged.commands, line, context.state.environment, by_git=by_git):
        return bool(opened)
    causes = _list_causes(finding, judged)
    if any(_is_unknown(one) or is_led_by_links(one, judged) for one in causes):
        return True
    lost = _list_repositories(causes, context) if by_git else _list_real_places(causes, context, budget)
    return not lost or any(is_or_below(one, place) or is_or_below(place, one) for one in lost for place in opened)


def _list_causes(finding: CommandFinding, judged: CommandJudgement) -> list[CommandEffect]:
    """Return the effects that a finding is about; none where its command is not known, or where it runs."""
    losing = [one for one in judged.effects if one.kind in _LOSING]
    is_any = not finding.subject and all(one.is_certain for one in judged.commands)
    return [one for one in losing if is_any or finding.subject.endswith(quote_argv(one.argv))]


def _is_unknown(effect: CommandEffect) -> bool:
    """Return whether only the run of a command tells what it changes."""
    return "$" in " ".join((*effect.argv, *effect.targets)) or any(one[:1] != "/" for one in effect.targets)


def _list_repositories(causes: Iterable[CommandEffect], context: ToolContext) -> list[str]:
    """Return the settings files of the repositories that git works in; the root for one that lies elsewhere."""
    known = ((at, context.places.workspace) for one in causes for at in one.targets)
    return ["/" if glob.has_magic(at) else find_config_file(at, workspace) or "/" for at, workspace in known]


def _list_real_places(causes: Iterable[CommandEffect], context: ToolContext, budget: PatternBudget) -> list[str]:
    """Return where the targets of effects lead as it is now."""
    named = (place for one in causes for at in one.targets for place in list_places(at, one, context, budget))
    return list(map(os.path.realpath, named))


def _list_opened(context: ToolContext) -> list[str]:
    """Return the places outside of the workspace that commands may write."""
    layout, workspace = context.backend.current_layout(), context.places.workspace
    writable = layout.paths_with(PathAccess.WRITE) if layout is not None else ()
    return [one for one in writable if not is_or_below(one, workspace)]


def _keeps_copies(context: ToolContext) -> bool:
    return context.safeguard is not None and context.safeguard.keeps_copies


def list_losses(judged: CommandJudgement, context: ToolContext) -> tuple[AskedLoss, ...]:
    """Return what a confined command would lose in the workspace; nothing where no copies are kept of it."""
    if not context.backend.contained or not _keeps_copies(context):
        return ()
    asked = [one for one in judged.findings if is_undoable(one, context)]
    found: list[AskedLoss] = []
    told: set[CommandFinding] = set()
    moved, budget = {*context.state.moved_paths, *judged.moved}, PatternBudget()
    for effect in judged.effects:
        if effect.kind is EffectKind.DELETES:
            subject = quote_argv(effect.argv)
            about = [one for one in asked if one.subject and one.subject.endswith(subject)]
            places = _list_own_places(effect, judged, context, budget, is_asked=bool(about))
            found += _list_deleted(effect, about, places, moved, context)
            told.update(about)
        found += _list_overwritten(effect, context, budget)
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
    effect: CommandEffect, about: list[CommandFinding], places: Iterable[str], moved: set[str], context: ToolContext
) -> Iterator[AskedLoss]:
    """Yield what a deletion loses. A folder of a search counts where a question is about it, since less is deleted, or
    where it is build output: a repository may lie in it.

    A folder that is moved away counts, too: undoing that takes away what is at its new name.
    """
    plain = CommandFinding(Verdict.ASK, "deletes-file", N_("it deletes files"), quote_argv(effect.argv))
    for path in dict.fromkeys(places):
        is_move = os.path.basename("".join(effect.argv[:1])) == "mv"
        if about or is_move or not os.path.isdir(path):
            is_moved = any(is_or_below(one, path) or is_or_below(path, one) for one in moved)
            yield AskedLoss(FileLoss(path, builds=is_moved), about[0] if about else plain)
        elif is_regenerable_path(path, context.places):
            yield AskedLoss(FileLoss(path), plain)


def _list_overwritten(effect: CommandEffect, context: ToolContext, budget: PatternBudget) -> Iterator[AskedLoss]:
    """Yield the files that a command names for overwriting, itself or by their folder, and that are too large to be
    copied.
    """
    plain = CommandFinding(Verdict.ASK, "overwrites-file", N_("it overwrites a file"), quote_argv(effect.argv))
    targets = effect.targets if effect.kind is EffectKind.OVERWRITES else ()
    known = (context.backend.to_local_path(one) for one in targets if one[:1] == "/")
    for path in (one for target in known for one in list_matches(target, budget)):
        names = effect.argv[1:] if os.path.isdir(path) else ("",)
        for real in (os.path.realpath(os.path.join(path, os.path.basename(name))) for name in names):
            if context.safeguard is not None and not context.safeguard.can_copy(real):
                yield AskedLoss(FileLoss(real), plain)


def _list_own_places(
    effect: CommandEffect, judged: CommandJudgement, context: ToolContext, budget: PatternBudget, *, is_asked: bool
) -> Iterator[str]:
    """Yield the paths in the workspace that a deletion is about; all of it where they lie above it or are not known."""
    workspace = context.places.workspace
    if is_asked and is_led_by_links(effect, judged):
        yield workspace
        return
    for target in (_NUMBER.sub("0", one) for one in effect.targets):
        is_known = target[:1] == "/" and "$" not in target
        for place in list_places(target, effect, context, budget) if is_known else (workspace,):
            if is_or_below(workspace, place):
                yield workspace
            elif is_or_below(place, workspace):
                yield place
