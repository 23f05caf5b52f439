"""Find the names that are nearest to a mistyped one: the one mechanism behind every `did you mean`."""

from collections.abc import Iterable

MIN_BEGINNING = 3
"""Letters from which on what was typed is taken for the beginning of a name."""
DEFAULT_NEARNESS = 0.6


_SHORT, _MEDIUM = 5, 8
"""Letters of the longer of two words up to which one edit is a slip, and up to which two are; of more, each third."""


def count_edits(one: str, other: str) -> int:
    """Return how many letters must be added, left out, replaced or swapped with their neighbour to make one text of the
    other (the optimal string alignment distance). The cost is some operations for each letter of the other.

    The table of all beginnings of both texts is computed a row at a time, by its differences: a bit for each letter of
    the first one (Hyyrö, 2003).
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for at, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << at
    whole, last = (1 << len(one)) - 1, 1 << len(one) - 1
    rises, falls, kept, before, edits = whole, 0, 0, 0, len(one)
    for letter in other:
        here = places.get(letter, 0)
        swapped = ((~kept & here) << 1) & before
        kept = ((((here & rises) + rises) ^ rises) | here | falls | swapped) & whole
        up, down = falls | (whole & ~(kept | rises)), kept & rises
        edits += bool(up & last) - bool(down & last)
        up = up << 1 | 1
        rises, falls = (down << 1 | ~(kept | up)) & whole, up & kept
        before = here
    return edits


def list_nearest(typed: str, names: Iterable[str], *, nearness: float | None = None) -> list[str]:
    """Return the names that a mistyped one may mean, in any letter case, the nearest first: those that it begins, the
    shortest of them first, then those that differ in few letters for their length.

    Of equally near names the one of the same length is nearer, then the one that was named first. `nearness` is the
    share of the longer text that must be right, from 0 to 1; where it is not given, `_count_slips` counts, too.
    """
    low, share_right = typed.lower(), DEFAULT_NEARNESS if nearness is None else nearness
    found: list[tuple[tuple[int, float, int], str]] = []
    for name in names:
        known = name.lower()
        longest, difference = max(len(low), len(known)), abs(len(low) - len(known))
        least = max(difference, sum(letter not in known for letter in low))
        if len(low) >= MIN_BEGINNING and known.startswith(low):
            found.append(((0, difference, 0), name))
        elif longest and 1 - least / longest >= share_right:  # counting the edits costs more than the rest
            edits = count_edits(low, known)
            share = edits / longest
            if 1 - share >= share_right and (nearness is not None or edits <= _count_slips(longest)):
                found.append(((1, share, difference), name))
    return [name for _, name in sorted(found, key=lambda one: one[0])]


def _count_slips(letters: int) -> int:
    """Return how many edits are a slip in a word of so many letters; more make another word of it."""
    return 1 if letters <= _SHORT else 2 if letters <= _MEDIUM else letters // 3
