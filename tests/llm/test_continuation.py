"""An answer that goes on after a break: what it repeats is neither shown nor kept twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.messages import Message, Role, TextPart
from hermes.llm.continuation import ContinuationJoiner

LONG = "The capital of France is Paris. It lies on the Seine, and it has about two million people. It was "


def join(before: str, fresh: str, size: int = 3) -> str:
    """Return what is shown and kept after `before`, for a continuation that comes in pieces of `size` characters."""
    joiner = ContinuationJoiner(before)
    shown = "".join(joiner.feed(fresh[at : at + size]) for at in range(0, len(fresh), size)) + joiner.finish()
    kept = joiner.trim_message(Message(Role.ASSISTANT, (TextPart(fresh),)))
    assert kept.text == shown
    return shown


@pytest.mark.parametrize(
    ("before", "fresh", "new"),
    [
        ("The quick brown fox", " jumps over", " jumps over"),
        ("The quick brown fox", "brown fox jumps over", " jumps over"),
        ("The quick brown fox", " brown fox jumps", " jumps"),
        ("The quick brown fox", "\n\nThe quick brown fox jumps", " jumps"),
        ("It is Par", "is.", "is."),
        ("It is Par", "Paris.", "is."),
        ("从前有一座山，山里有一座庙", "山里有一座庙，庙里有个老和尚", "，庙里有个老和尚"),
        (LONG, LONG + "founded long ago.", "founded long ago."),
        # In other words from the beginning on: from where it has caught up it goes on.
        (LONG, LONG.replace("lies", "is situated") + "founded long ago.", "founded long ago."),
        (LONG, LONG[:30] + "x. Nothing else.", "\n\n" + LONG[:30] + "x. Nothing else."),
        # What goes on as it was is no repetition.
        ("| - | - | - ", "| - | - |", "| - | - |"),
        ("0.33333", "33333", "33333"),
        ("=====", "=====\n", "=====\n"),
        ("row 12 ok\nrow 12 ok\n", "row 12 ok\nend", "row 12 ok\nend"),
        ("It is a ", "a b c", "a b c"),
        ("", "Hello", "Hello"),
        # Nothing new.
        ("All is said now.", "All is said now.", ""),
        (LONG, LONG[:50], ""),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_is_repeated_is_left_out(before: str, fresh: str, new: str, size: int) -> None:
    assert join(before, fresh, size) == new


@given(st.text(alphabet="ab \n", max_size=30), st.text(alphabet="ab \n", max_size=30), st.integers(1, 40))
def test_what_is_shown_is_always_the_end_of_what_came(before: str, fresh: str, size: int) -> None:
    assert fresh.endswith(join(before, fresh, size).removeprefix("\n\n"))


def test_text_that_is_no_repetition_is_held_back_for_a_word_or_two_only() -> None:
    joiner = ContinuationJoiner(LONG)
    held = [joiner.feed(character) for character in "the home of Hugo."]
    assert "".join(held) == "the home of Hugo." and held.count("") < 10


def test_of_a_continuation_that_breaks_before_it_is_clear_what_is_new_nothing_is_kept() -> None:
    joiner = ContinuationJoiner(LONG)
    assert joiner.feed("The capital of") == ""
    assert joiner.trim_message(Message(Role.ASSISTANT, (TextPart("The capital of"),))).parts == ()


@pytest.mark.parametrize(
    ("before", "fresh"),
    [
        (" ".join(map(str, range(12_000))), " ".join(map(str, range(10))) + " and other words" * 6_000),
        (" ".join(map(str, range(12_000))), " ".join(map(str, range(13_000)))),
        ("ab" * 10_000, "ab" * 9_000 + "c" * 30_000),
        ("a word", " " * 200_000),
    ],
    ids=["other words", "the same words", "few letters", "blanks"],
)
def test_a_long_answer_in_small_pieces_is_compared_in_no_more_than_moments(before: str, fresh: str) -> None:
    assert fresh.endswith(join(before, fresh, 1).removeprefix("\n\n"))
