"""Finds where the words of a command lead now, and what of the files there it would lose."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from hermes.core.checkpoints import FileLoss
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import MADE_HERE, CommandEffect, CommandJudgement
from hermes.safety.shell.regenerable import is_regenerable_path
from hermes.tools.named_paths import SEARCHES, is_led_by_links, split_word
from hermes.tools.path_patterns import ALL_BELOW, EVERYWHERE, FoundPlace, PatternBudget, is_pattern, list_matches
from hermes.tools.session import ToolContext

_UNKNOWN = re.compile(r"\$(?:\{(?![$!?#:]|RANDOM\}|SECONDS\})[^}]*\}|\(\))")
"""What stands for a value that is only known at run time. A number is none, nor is a name that is made new: they lead
nowhere else.
"""
_UNKNOWN_BACK = re.compile(_UNKNOWN.pattern + r".*/\.\.(?:/|$)", re.DOTALL)
_GOES_BACK = re.compile(r"[^/.][^/]*/\.\.(?:/|$)")
_ANY_VALUE = FoundPlace("", is_whole=True)
"""Where a value leads that is only known at run time."""
_MAX_READINGS = 100
"""The most words of a line that lead elsewhere than their letters say; with more of them any place may be meant."""
_LOOKS_A_FILE = 5
"""Finding where a path leads takes as long as looking at so many entries."""
_MAX_NAMED = 500
"""The most files of a folder that are named; beyond it all of the folder counts."""


class PlaceFinder:
    """Finds where the words of a command line lead in `roots`, the folders that it may write."""

    def __init__(self, judged: CommandJudgement, context: ToolContext, roots: Sequence[str]) -> None:
        self._judged = judged
        self._context = context
        self._roots = roots
        self._budget = PatternBudget()
        self._moved = {*context.state.moved_paths, *judged.moved}
        self._readings: dict[str, set[str]] | None = None
        self._is_unreadable = False
        self._known_back: dict[tuple[str, ...], bool] = {}

    def meet_roots(self, path: str) -> list[str]:
        """Return what of a path lies in the folders; a folder where the path is around it."""
        pairs = [(path, root) for root in self._roots]
        return [max(pair, key=len) for pair in pairs if is_or_below(*pair) or is_or_below(*reversed(pair))]

    def list_deleted(self, effect: CommandEffect, *, is_asked: bool) -> Iterator[FileLoss]:
        """Yield what a deletion loses. A folder counts where a question is about it, since else less is deleted,
        or where it is build output: a repository may lie in it.

        A folder that is moved away counts, too: undoing that takes away what is at its new name.
        """
        takes_folders = is_asked or os.path.basename("".join(effect.argv[:1])) == "mv"
        for path, place in self._list_met(effect, is_asked=is_asked):
            if place.is_whole and not takes_folders:
                is_known = place != _ANY_VALUE
                yield FileLoss(path, ignored=is_known, history=place == EVERYWHERE, builds=self._is_moved(path))
            elif takes_folders or not os.path.isdir(path):
                yield FileLoss(path, builds=self._is_moved(path))
            elif is_regenerable_path(path, self._context.places):
                yield FileLoss(path)

    def _list_met(self, effect: CommandEffect, *, is_asked: bool) -> Iterator[tuple[str, FoundPlace]]:
        """Yield what of the folders lies where a deletion leads, with that place."""
        found = (place for target in effect.targets for place in self._find_deleted(target, effect, is_asked=is_asked))
        for place in dict.fromkeys(found):
            yield from ((path, place) for path in self.meet_roots(place.path or "/"))

    def _is_moved(self, path: str) -> bool:
        """Return whether something else may lie at a path, or in it, than its name says."""
        return any(is_or_below(one, path) or is_or_below(path, one) for one in self._moved)

    def _find_deleted(self, target: str, effect: CommandEffect, *, is_asked: bool) -> Iterator[FoundPlace]:
        """Yield where the target of a deletion leads, by the links on the way as they are now.

        A link that is named itself is only unlinked, unless it is entered.
        """
        if self._is_led(os.path.dirname(target), effect, is_asked=is_asked):
            yield EVERYWHERE
        elif target[:1] != "/" or self._is_unknown(target, effect) or (is_asked and MADE_HERE in target):
            yield _ANY_VALUE
        else:
            enters = effect.argv[:1] in SEARCHES or any(word.endswith(("/", "/.")) for word in effect.argv)
            for place in self._list_matches(target):
                yield place
                enters_it = enters or place.is_whole
                yield place._replace(path=os.path.realpath(place.path) if enters_it else _find_real(place.path))

    def _is_unknown(self, target: str, effect: CommandEffect) -> bool:
        """Return whether an effect's target is only known at run time, also since a word goes back behind a value."""
        return self._goes_back(effect.argv) or _UNKNOWN.search(target) is not None

    def _goes_back(self, argv: tuple[str, ...]) -> bool:
        """Return whether a word of an effect, or of what changes the folder, goes back behind an unknown value."""
        if argv not in self._known_back:
            moves = [one.argv for one in self._judged.commands if one.argv[:1] in (("cd",), ("pushd",))]
            words = {word for one in (argv, *moves) for word in one if ".." in word and "$" in word}
            self._known_back[argv] = any(map(_UNKNOWN_BACK.search, words))
        return self._known_back[argv]

    def _is_led(self, path: str, effect: CommandEffect, *, is_asked: bool = False) -> bool:
        """Return whether an effect's path may go through links that its own line makes before."""
        if not is_led_by_links(effect, self._judged):
            return False
        goes_back = any(_GOES_BACK.search(word) for word in effect.argv)
        return is_asked or goes_back or any(is_or_below(path, one) for one in self._judged.moved)

    def _list_matches(self, target: str) -> Iterator[FoundPlace]:
        """Yield what a target stands for in each reading of its words.

        A folder above the workspace may be the session's own in the eyes of its commands: both are named.
        """
        for path in dict.fromkeys(map(os.path.normpath, (target, self._context.backend.to_local_path(target)))):
            for one in (path, *self._list_other_readings(path)):
                yield from list_matches(one, self._budget)
        if self._is_unreadable:
            yield EVERYWHERE

    def list_overwritten(self, effect: CommandEffect) -> Iterator[FileLoss]:
        """Yield the files of which a command loses the content, named by itself or by their folder, and of which no
        copy is made since they are too large, or since no word names them in a folder that is not listed.
        """
        for number, (place, is_plain) in enumerate(dict.fromkeys(self._find_overwritten(effect))):
            if place.is_whole or number >= _MAX_NAMED:
                for path in self.meet_roots(place.path):
                    yield FileLoss(path, ignored=False, history=False)
            elif os.path.isfile(place.path) and self._context.backend.is_writable(place.path):
                if self._context.safeguard is not None and not self._context.safeguard.can_copy(place.path):
                    yield FileLoss(place.path)
                elif not is_plain and not is_or_below(place.path, self._context.places.workspace):
                    yield FileLoss(place.path, ignored=False, history=False)

    def _find_overwritten(self, effect: CommandEffect) -> Iterator[tuple[FoundPlace, bool]]:
        """Yield where an effect's targets lead, and whether that is what the words say."""
        for target in (one for one in effect.targets if one[:1] == "/"):
            if self._is_led(target, effect):
                yield EVERYWHERE, False
            if _UNKNOWN.search(target):
                yield from ((one, False) for one in self._list_anywhere(os.path.basename(target)))
                continue
            for place in self._list_matches(target):
                if place.is_whole or not os.path.isdir(place.path):
                    yield place._replace(path=os.path.realpath(place.path)), place.path == target
                else:
                    yield from ((one, False) for one in self._list_put(effect, place.path))

    def _list_anywhere(self, name: str) -> Iterator[FoundPlace]:
        """Yield the files of a name in folders of which nothing is known; of an unknown name as little is known as of
        what a program writes.
        """
        for root in self._roots if not _UNKNOWN.search(name) else ():
            found = list_matches(f"{root}/{ALL_BELOW}/{name}", self._budget)
            yield from (one for one in found if not one.is_whole)

    def _list_put(self, effect: CommandEffect, folder: str) -> Iterator[FoundPlace]:
        """Yield the files in a folder that have the names of what an effect's words stand for."""
        folders = {one.cwd for one in self._judged.commands if one.argv[: len(effect.argv)] == effect.argv}
        for word in (one for one in effect.argv[1:] if one[:1] != "-"):
            yield FoundPlace(os.path.realpath(os.path.join(folder, os.path.basename(word))))
            sources = self._list_sources(word, folders)
            for source in sources:
                yield from (
                    [FoundPlace(folder, is_whole=True)] if source.is_whole else self._list_merged(source.path, folder)
                )
            if not sources and (is_pattern(word) or word.endswith("/.")):
                yield FoundPlace(folder, is_whole=True)

    def _list_sources(self, word: str, folders: Iterable[str]) -> list[FoundPlace]:
        """Return what is there now of what a word stands for in any of these folders."""
        paths = {self._context.places.expand_path(word, one) for one in folders}
        found = dict.fromkeys(place for path in paths for place in list_matches(path, self._budget))
        return [one for one in found if os.path.lexists(one.path)]

    def _list_merged(self, source: str, folder: str) -> Iterator[FoundPlace]:
        """Yield the files of a folder in which another one is put, or what is in that one, that may be overwritten."""
        if is_or_below(os.path.realpath(folder), os.path.realpath(source)):
            return  # no program puts a folder into itself: that is where the others are put
        waiting = [(source, os.path.join(folder, os.path.basename(source))), (source, folder)]
        while waiting:
            source, there = waiting.pop()
            if not os.path.isdir(there):
                yield from [FoundPlace(os.path.realpath(there))] if os.path.lexists(there) else ()
            elif os.path.isdir(source):
                entries = self._budget.list_entries(source) if self._budget.spend(_LOOKS_A_FILE) else None
                if entries is None:
                    yield FoundPlace(folder, is_whole=True)
                    return
                waiting += [(one.path, os.path.join(there, one.name)) for one in entries]

    def _list_other_readings(self, path: str) -> Iterator[str]:
        """Yield where a path leads that is one by its letters, if the `..` in some word goes back behind a link."""
        if self._readings is None:
            self._readings = {}
            for _ in range(2):  # what comes later in a loop changes what its beginning means
                self._read_links(self._readings)
        yield from _follow_readings(path, self._readings)

    def _read_links(self, readings: dict[str, set[str]]) -> None:
        """Note for the words with `..` in them what their letters say, and where the kernel comes by them."""
        places, backend = self._context.places, self._context.backend
        for word, cwd in self._list_words_back():
            letters = os.path.normpath(places.expand_path(word, cwd))
            for folder in (cwd, *_follow_readings(cwd, readings)):
                path = backend.to_local_path(places.expand_path(word, folder))
                found = list(list_matches(path, self._budget))
                others = {_find_real(place.path) for place in found if not place.is_whole} - {_find_real(letters)}
                if others:
                    readings.setdefault(letters, set()).update(others)
                if len(readings) > _MAX_READINGS or any(place.is_whole for place in found):
                    self._is_unreadable = True
                    return

    def _list_words_back(self) -> Iterator[tuple[str, str]]:
        """Yield the words that have `..` in them, each with the folder in which its command runs."""
        for command in self._judged.commands:
            words = (part for word in command.argv if ".." in word for part in split_word(word))
            yield from ((one, command.cwd) for one in words if ".." in one.split("/"))


def _follow_readings(path: str, readings: dict[str, set[str]]) -> list[str]:
    """Return where a path leads by the readings of it, or of the folders around it."""
    around = [letters for letters in readings if is_or_below(path, letters)]
    return [one + path[len(letters.rstrip("/")) :] for letters in around for one in readings[letters]]


def _find_real(path: str) -> str:
    """Return a path behind the links on its way; a link that is named itself stays."""
    folder, name = os.path.split(path)
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(folder), name)
