"""Finds the files that a confined command would lose: what a checkpoint can bring back needs no question."""

import glob
import os
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct, structs

from hermes.core.checkpoints import FileLoss
from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import (
    FILE_LOSS_RULES,
    CommandEffect,
    CommandFinding,
    CommandJudgement,
    EffectKind,
    Verdict,
)
from hermes.tools.session import ToolContext

_MAX_MATCHES = 500
"""The most files that a pattern is resolved to; beyond it all of the folder counts."""


class AskedLoss(Struct, frozen=True):
    """A loss of files, and the question that is asked where no copy makes up for it."""

    loss: FileLoss
    question: CommandFinding


def is_undoable(finding: CommandFinding, context: ToolContext) -> bool:
    """Return whether a finding is about nothing but files that a checkpoint may bring back."""
    return finding.rule in FILE_LOSS_RULES and finding.verdict is Verdict.ASK and _keeps_copies(context)


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
            found += _list_deleted(effect, about, context)
            told.update(about)
    return (*found, *(AskedLoss(_guess_loss(one, context), one) for one in asked if one not in told))


def _guess_loss(finding: CommandFinding, context: ToolContext) -> FileLoss:
    """Return what a command loses of which no paths are known: of the work tree what git would, else all of it."""
    loss = FileLoss(context.places.workspace)
    if not finding.rule.startswith("git-"):
        return loss
    options = [one for one in finding.subject.split() if one.startswith("-") and not one.startswith("--")]
    takes_ignored = not finding.subject or (finding.rule == "git-clean" and any("x" in one.lower() for one in options))
    return structs.replace(loss, ignored=takes_ignored, history=False)


def _list_deleted(effect: CommandEffect, about: list[CommandFinding], context: ToolContext) -> Iterator[AskedLoss]:
    """Yield what a deletion loses. Folders count where a question is about them: a search in one deletes less."""
    plain = CommandFinding(Verdict.ASK, "deletes-file", N_("it deletes files"), quote_argv(effect.argv))
    for path in _list_places(effect, context):
        if about or not os.path.isdir(path):
            moved = any(is_or_below(one, path) or is_or_below(path, one) for one in context.state.moved_paths)
            yield AskedLoss(FileLoss(path, builds=moved), about[0] if about else plain)


def _list_places(effect: CommandEffect, context: ToolContext) -> Iterator[str]:
    """Yield the paths in the workspace that a deletion is about; all of it where they are not known."""
    for target in effect.targets:
        if target[:1] != "/" or "$" in target:
            yield context.places.workspace
            continue
        path = os.path.normpath(context.backend.to_local_path(target))
        if is_or_below(path, context.places.workspace):
            yield from _list_matches(path) if glob.has_magic(path) else (path,)


def _list_matches(pattern: str) -> Iterator[str]:
    """Yield the files that a pattern stands for now; for too many, or in unknown folders, the folder that is known."""
    found = list(islice(glob.iglob(pattern, include_hidden=True), _MAX_MATCHES + 1))
    if len(found) <= _MAX_MATCHES and "{" not in pattern:
        yield from found
        return
    while glob.has_magic(pattern) or "{" in pattern:
        pattern = os.path.dirname(pattern)
    yield pattern
