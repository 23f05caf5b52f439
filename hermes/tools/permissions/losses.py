"""Finds the files that a confined command would lose: what a checkpoint can bring back needs no question."""

from collections.abc import Collection, Iterator, Sequence

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
from hermes.tools.lost_places import PlaceFinder
from hermes.tools.named_paths import list_targets
from hermes.tools.permissions.gate import UNCOPIED
from hermes.tools.session import ToolContext


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
    return (*found.list_named(), *found.list_guessed(), *map(_ask_about_folder, known))


def _ask_about_folder(folder: str) -> AskedLoss:
    reason = N_("it may change anything in {folder}, which is too large to be copied", folder=folder)
    question = CommandFinding(Verdict.ASK, UNCOPIED, reason, quote_argv(("change", f"{folder}/*")))
    return AskedLoss(FileLoss(folder, unlisted=True), question)


class _CommandLosses:
    """What a command loses in `roots`, the folders that it may write."""

    def __init__(self, judged: CommandJudgement, context: ToolContext, roots: Sequence[str]) -> None:
        self._judged = judged
        self._roots = roots
        self._asked = [one for one in judged.findings if is_undoable(one, context)]
        self._finder = PlaceFinder(judged, context, roots)

    def list_named(self) -> Iterator[AskedLoss]:
        """Yield what the command is known to delete, and what it overwrites of which no copy is made."""
        for effect in self._judged.effects:
            about = [one for one in self._asked if _is_about(one, effect)]
            if effect.kind is EffectKind.DELETES:
                plain = CommandFinding(Verdict.ASK, "deletes-file", N_("it deletes files"), quote_argv(effect.argv))
                found = self._finder.list_deleted(effect, is_asked=bool(about))
                yield from (AskedLoss(one, about[0] if about else plain) for one in found)
            elif effect.kind is EffectKind.OVERWRITES:
                plain = CommandFinding(
                    Verdict.ASK, "overwrites-file", N_("it overwrites a file"), quote_argv(effect.argv)
                )
                yield from (AskedLoss(one, plain) for one in self._finder.list_overwritten(effect))

    def list_guessed(self) -> Iterator[AskedLoss]:
        """Yield what questions are about of which no paths are known: where git works by its words, else all."""
        for finding in self._asked:
            about = [one for one in self._judged.effects if _is_about(finding, one)]
            if not list_targets(about, EffectKind.DELETES):
                met = [one for target in list_targets(about, *EffectKind) for one in self._finder.meet_roots(target)]
                roots = [root for root in self._roots if any(is_or_below(one, root) for one in met)]
                yield from (AskedLoss(_guess_loss(finding, root), finding) for root in roots or self._roots)


def _is_about(finding: CommandFinding, effect: CommandEffect) -> bool:
    return finding.subject != "" and finding.subject.endswith(quote_argv(effect.argv))


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
