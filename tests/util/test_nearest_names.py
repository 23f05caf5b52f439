"""What a mistyped name may mean: a swap is one slip, and the same rule serves commands, settings and files."""

import pytest

from hermes.util.nearest_names import count_edits, list_nearest


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        *(("", "", 0), ("a", "", 1), ("", "abc", 3), ("same", "same", 0), ("modle", "model", 1), ("modle", "mode", 1)),
        *(("stpo", "stop", 1), ("usgae", "usage", 1), ("kitten", "sitting", 3), ("ca", "abc", 3), ("ab", "ba", 1)),
        *(("/模型", "/模形", 1), ("abcd", "badc", 2)),
        *(("x" * 90 + "ab" + "y" * 90, "x" * 90 + "bac" + "y" * 90, 2), ("ab" * 80, "ba" * 80, 2)),
    ],
)
def test_a_swap_of_two_letters_is_one_edit(one: str, other: str, edits: int) -> None:
    assert count_edits(one, other) == count_edits(other, one) == edits


@pytest.mark.parametrize(
    ("typed", "names", "nearest"),
    [
        ("modle", ["mode", "model"], ["model", "mode"]),
        ("MODLE", ["Mode", "Model"], ["Model", "Mode"]),
        ("perm", ["term", "permissions", "permit"], ["permit", "permissions", "term"]),
        ("st", ["stop", "status"], []),
        ("fil", ["web", "file"], ["file"]),
        ("xyzzy", ["model", "mode"], []),
        ("", ["a", ""], []),
        ("telegramm:5", ["telegram", "slack"], ["telegram"]),
    ],
)
def test_the_nearest_come_first(typed: str, names: list[str], nearest: list[str]) -> None:
    assert list_nearest(typed, names) == nearest


def test_how_near_a_name_must_be_can_be_said() -> None:
    assert list_nearest("cat", ["car", "cow"], nearness=0.7) == []
    assert list_nearest("cat", ["cow", "car"], nearness=0.3) == ["car", "cow"]
