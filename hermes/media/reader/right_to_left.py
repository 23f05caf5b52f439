"""Lines of pages with letters that are written from right to left, put into the order in which they are read.

A page holds letters by their places. Programs store such lines in either direction, word by word or as a whole, so the
order in the file tells nothing: what counts is where each letter stands.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_RIGHT = ("R", "AL")
_NUMBERS = ("EN", "AN")
_SAME = 0.01
"""Points: nothing printed is that small."""
_MARK = "Mn"
_LAM = "\u0644"
_MIN_GAP = 0.25
"""The part of a line's height that stands empty between two words."""
_MIRRORED = str.maketrans("()[]{}<>«»", ")(][}{><»«")


class PlacedLetter(NamedTuple):
    """A letter with the edges of its place and its height, in points."""

    letter: str
    left: float
    right: float
    height: float


def has_right_to_left(text: str) -> bool:
    """Return whether a text has Hebrew or Arabic letters, or forms of them."""
    return any("\u0590" <= one <= "\u08ff" or "\ufb1d" <= one <= "\ufefc" for one in text)


def order_line(letters: Sequence[PlacedLetter]) -> str:
    """Return a line's letters in the order in which they are read; they are given in the file's order, with spaces."""
    found = _place_words(letters)
    kinds = [unicodedata.bidirectional(one[0]) for one in found]
    rights = sum(kind in _RIGHT for kind in kinds)
    lefts = sum(kind == "L" for kind in kinds)
    runs = _split_runs(found, kinds, is_right=rights >= lefts)
    if rights >= lefts:
        runs.reverse()
    return "".join(_read_backwards(run) if is_right else "".join(run) for run, is_right in runs)


def _read_backwards(run: Sequence[str]) -> str:
    return "".join(one.translate(_MIRRORED) if len(one) == 1 else one for one in reversed(run))


def _place_words(letters: Sequence[PlacedLetter]) -> list[str]:
    """Return the clusters of a line from left to right, with spaces. A word's letters stand side by side in a file, in
    either direction; where its spaces are on the page says little, since they may have no width.
    """
    words: list[list[PlacedLetter]] = [[]]
    for one in letters:
        if one.letter.strip():
            words[-1].append(one)
        elif words[-1]:
            words.append([])
    placed = sorted(filter(None, words), key=lambda word: sum(one.left + one.right for one in word) / len(word))
    found: list[str] = []
    for word in placed:
        found += [" "] if found else []
        found += _split_clusters(_sort_letters(word), has_spaces=len(placed) > 1)
    return found


def _split_clusters(clusters: Sequence[PlacedLetter], *, has_spaces: bool) -> list[str]:
    """Return a word's clusters; of a line without spaces, with one wherever much is left empty."""
    height = max((one.height for one in clusters), default=0.0)
    found: list[str] = []
    edge = clusters[0].left if clusters else 0.0
    for one in clusters:
        if one.left - edge > _MIN_GAP * height and not has_spaces:
            found.append(" ")
        found.append(one.letter)
        edge = max(one.right, edge)
    return found


def _sort_letters(letters: Sequence[PlacedLetter]) -> list[PlacedLetter]:
    """Return clusters of letters from left to right: what shares one place, as a ligature does, is one of them, and so
    is a letter with the vowel marks above and below it.
    """
    marks = [one for one in letters if unicodedata.category(one.letter) == _MARK]
    clusters = _join_ligatures(one for one in letters if one not in marks)
    if not clusters:
        return list(letters)
    for mark in marks:
        place = min(range(len(clusters)), key=lambda at: abs(_find_middle(clusters[at]) - _find_middle(mark)))
        clusters[place] = clusters[place]._replace(letter=clusters[place].letter + mark.letter)
    return clusters


def _join_ligatures(letters: Iterable[PlacedLetter]) -> list[PlacedLetter]:
    clusters: list[PlacedLetter] = []
    for one in sorted(letters, key=_find_middle):
        last = clusters[-1] if clusters else None
        if last is None or not _is_same_place(one, last):
            clusters.append(one)
            continue
        is_lam_alef = one.letter == _LAM and last.letter != _LAM
        clusters[-1] = last._replace(letter=one.letter + last.letter if is_lam_alef else last.letter + one.letter)
    return clusters


def _find_middle(one: PlacedLetter) -> float:
    return one.left + one.right


def _is_same_place(one: PlacedLetter, other: PlacedLetter) -> bool:
    return abs(one.left - other.left) < _SAME and abs(one.right - other.right) < _SAME


def _split_runs(clusters: Sequence[str], kinds: Sequence[str], *, is_right: bool) -> list[tuple[list[str], bool]]:
    """Return runs of one direction, from left to right; what has none goes with what is around it."""
    directions: list[bool] = []
    for place, kind in enumerate(kinds):
        if kind in _RIGHT or kind == "NSM":
            directions.append(True)
        elif kind == "L" or kind in _NUMBERS:
            directions.append(False)
        else:
            before = _find_strong(kinds, range(place - 1, -1, -1))
            after = _find_strong(kinds, range(place + 1, len(kinds)))
            directions.append(before if before == after and before is not None else is_right)
    runs: list[tuple[list[str], bool]] = []
    for cluster, direction in zip(clusters, directions, strict=True):
        if runs and runs[-1][1] == direction:
            runs[-1][0].append(cluster)
        else:
            runs.append(([cluster], direction))
    return runs


def _find_strong(kinds: Sequence[str], places: range) -> bool | None:
    """Return the direction of the next letter or number there; None at the line's end."""
    for place in places:
        if kinds[place] in _RIGHT:
            return True
        if kinds[place] == "L" or kinds[place] in _NUMBERS:
            return False
    return None
