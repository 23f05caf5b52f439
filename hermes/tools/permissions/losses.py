"""Finds the files that a confined command would lose: what a checkpoint can bring back needs no question."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

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
from hermes.safety.shell.regenerable import is_regenerable_path
from hermes.tools.named_paths import is_led_by_links, list_targets
from hermes.tools.path_patterns import PatternBudget, list_matches, list_places
from hermes.tools.permissions.gate import UNCOPIED
from hermes.tools.session import ToolContext

_NUMBER = re.compile(r"\$\{(?:[$!?#]|RANDOM|SECONDS)\}|\$[$!?#]")
"""Values of the shell that are numbers, whatever they are: a name with one in it leads nowhere else."""


class AskedLoss(Struct, frozen=True):
    """A loss of files, and the question that is asked where no copy makes up for it."""

    loss: FileLoss
    question: CommandFinding


def is_undoable(finding: CommandFinding, context: ToolContext) -> bool:
    """Return whether a finding is about nothing but files that a checkpoint may bring back."""
    return finding.rule in FILE_LOSS_RULES and finding.verdict is Verdict.ASK and context.keeps_copies


def list_losses(
    judged: CommandJudgement, context: ToolContext, folders: Sequence[str], answered: Collection[str]
) -> tuple[AskedLoss, ...]:
    """Return what a confined command would lose in the workspace, and in `folders`, those outside of it that it may
    write; nothing where no copies are kept. `answered` are places that were opened by an answer: where that did not
    tell that a folder is too large for copies, it is asked. The settings open theirs without a question.
    """
    if not context.backend.contained or not context.keeps_copies:
        return ()
    found = _CommandLosses(judged, context, (context.places.workspace, *folders))
    large = (one for one in folders if context.state.uncovered.get(FileLoss(one, unlisted=True)))
    known = (one for one in large if any(is_or_below(one, place) for place in answered))
    return (*found.list_deletions(), *found.list_overwritten(), *found.list_guessed(), *map(_ask_about_folder, known))


def _ask_about_folder(folder: str) -> AskedLoss:
    reason = N_("it may change anything in {folder}, which is too large to be copied", folder=folder)
    question = CommandFinding(Verdict.ASK, UNCOPIED, reason, quote_argv(("change", f"{folder}/*")))
    return AskedLoss(FileLoss(folder, unlisted=True), question)


class _CommandLosses:
    """What a command loses in `roots`, the folders that it may write."""

    def __init__(self, judged: CommandJudgement, context: ToolContext, roots: Sequence[str]) -> None:
        self._judged = judged
        self._context = context
        self._roots = roots
        self._asked = [one for one in judged.findings if is_undoable(one, context)]
        self._moved = {*context.state.moved_paths, *judged.moved}
        self._budget = PatternBudget()

    def list_deletions(self) -> Iterator[AskedLoss]:
        """Yield what the command is known to delete."""
        for effect in (one for one in self._judged.effects if one.kind is EffectKind.DELETES):
            yield from self._list_deleted(effect, [one for one in self._asked if _is_about(one, effect)])

    def list_overwritten(self) -> Iterator[AskedLoss]:
        """Yield the files that it names for overwriting, itself or by their folder, and that are too large to be
        copied.
        """
        for effect in self._judged.effects:
            plain = CommandFinding(Verdict.ASK, "overwrites-file", N_("it overwrites a file"), quote_argv(effect.argv))
            for target in effect.targets if effect.kind is EffectKind.OVERWRITES else ():
                known = list_matches(self._context.backend.to_local_path(target), self._budget)
                named = (one for path in known if target[:1] == "/" for one in _list_named(path, effect))
                yield from (AskedLoss(FileLoss(one), plain) for one in named if _has_no_copy(one, self._context))

    def list_guessed(self) -> Iterator[AskedLoss]:
        """Yield what questions are about of which no paths are known: where git works by its words, else all."""
        for finding in self._asked:
            about = [one for one in self._judged.effects if _is_about(finding, one)]
            if not list_targets(about, EffectKind.DELETES):
                met = self._list_met(list_targets(about, *EffectKind))
                roots = [root for root in self._roots if any(is_or_below(one, root) for one in met)]
                yield from (AskedLoss(_guess_loss(finding, root), finding) for root in roots or self._roots)

    def _list_met(self, places: Iterable[str]) -> list[str]:
        """Return what of places lies in the folders; a folder where a place is around it."""
        pairs = ((one, root) for one in places for root in self._roots)
        return [max(pair, key=len) for pair in pairs if is_or_below(*pair) or is_or_below(*reversed(pair))]

    def _list_deleted(self, effect: CommandEffect, about: list[CommandFinding]) -> Iterator[AskedLoss]:
        """Yield what a deletion loses. A folder of a search counts where a question is about it, since less is deleted,
        or where it is build output: a repository may lie in it.

        A folder that is moved away counts, too: undoing that takes away what is at its new name.
        """
        plain = CommandFinding(Verdict.ASK, "deletes-file", N_("it deletes files"), quote_argv(effect.argv))
        for path in dict.fromkeys(self._list_places(effect, is_asked=bool(about))):
            is_move = os.path.basename("".join(effect.argv[:1])) == "mv"
            if about or is_move or not os.path.isdir(path):
                is_moved = any(is_or_below(one, path) or is_or_below(path, one) for one in self._moved)
                yield AskedLoss(FileLoss(path, builds=is_moved), about[0] if about else plain)
            elif is_regenerable_path(path, self._context.places):
                yield AskedLoss(FileLoss(path), plain)

    def _list_places(self, effect: CommandEffect, *, is_asked: bool) -> Iterator[str]:
        """Yield the paths in the folders that a deletion is about; the folders where they are not known."""
        if is_asked and is_led_by_links(effect, self._judged):
            yield from self._roots
            return
        for target in (_NUMBER.sub("0", one) for one in effect.targets):
            is_known = target[:1] == "/" and "$" not in target
            yield from self._list_met(
                list_places(target, effect, self._context, self._budget) if is_known else self._roots
            )


def _is_about(finding: CommandFinding, effect: CommandEffect) -> bool:
    return finding.subject != "" and finding.subject.endswith(quote_argv(effect.argv))


def _list_named(path: str, effect: CommandEffect) -> Iterator[str]:
    """Yield the file that a command changes at a path; in a folder those that have the last names of its words."""
    names = effect.argv[1:] if os.path.isdir(path) else ("",)
    return (os.path.realpath(os.path.join(path, os.path.basename(name))) for name in names)


def _has_no_copy(path: str, context: ToolContext) -> bool:
    """Return whether a command may write a file that is too large to be copied."""
    return context.backend.is_writable(path) and context.safeguard is not None and not context.safeguard.can_copy(path)


def _guess_loss(finding: CommandFinding, root: str) -> FileLoss:
    """Return what a command loses of which no paths are known: of the work tree what git would, else all of it."""
    if not finding.rule.startswith("git-"):
        return FileLoss(root)
    words = finding.subject.split()
    letters = "".join(one for one in words if one.startswith("-") and not one.startswith("--"))
    cleans = finding.rule == "git-clean"
    # With a second force git takes whole repositories along: what they ignore, and their histories.
    takes_repositories = not words or (cleans and letters.count("f") + words.count("--force") > 1)
    takes_ignored = takes_repositories or (cleans and "x" in letters.lower())
    return FileLoss(root, ignored=takes_ignored, history=takes_repositories)
