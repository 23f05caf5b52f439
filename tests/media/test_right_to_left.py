"""Lines from right to left are put into the order in which they are read, however a file stores them."""

import pytest

from hermes.media.reader.right_to_left import PlacedLetter, has_right_to_left, order_line


def place(visual: str, *, reverse: bool = False, width: float = 5.0) -> list[PlacedLetter]:
    """Letters as they stand on a page from left to right; in the file's order, or word by word the other way round."""
    placed = [PlacedLetter(one, at * width, (at + 1) * width, 10.0) for at, one in enumerate(visual)]
    return placed[::-1] if reverse else placed


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("visual", "read"),
    [
        ("مالس ابحرم", "مرحبا سلام"),
        ("2026 ابحرم", "مرحبا 2026"),
        ("ابحرم hello there", "مرحبا hello there"),
        ("םולש", "שלום"),
    ],
)
def test_a_line_is_read_from_its_own_side(visual: str, read: str, reverse: bool) -> None:
    assert order_line(place(visual, reverse=reverse)) == read


def test_a_ligature_is_one_place_and_marks_stay_with_their_letters() -> None:
    lam_alef = [PlacedLetter("ا", 0, 5, 10), PlacedLetter("ل", 0, 5, 10)]
    assert order_line(lam_alef) == "لا"
    word = [PlacedLetter("ب", 0, 5, 6), PlacedLetter("ك", 10, 15, 9), PlacedLetter("ت", 5, 10, 6)]
    marks = [PlacedLetter("\u0650", 11, 14, 2), PlacedLetter("\u064e", 6, 9, 2)]
    assert order_line([*marks, *word]) == "ك\u0650ت\u064eب"
    assert has_right_to_left("a ب") and not has_right_to_left("天气 a")
