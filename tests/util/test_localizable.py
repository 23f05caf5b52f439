"""A message remembers its template and values, and is a plain string to everything else."""

import json

import pytest

from hermes.util.localizable import (
    Localizable,
    fill_template,
    get_wording,
    join_localizable,
    pack_message,
    restore_wording,
    unpack_message,
)

REASON = fill_template("{path} is gone after {n:.1f} s", {"path": "a.txt", "n": 1.25})


def test_a_message_is_the_string_that_it_says() -> None:
    assert REASON == "a.txt is gone after 1.2 s"
    assert hash(REASON) == hash("a.txt is gone after 1.2 s") and json.dumps([REASON]) == '["a.txt is gone after 1.2 s"]'
    assert (REASON.template, REASON.values) == ("{path} is gone after {n:.1f} s", {"path": "a.txt", "n": 1.25})


def test_another_kind_of_value_is_kept_as_its_text() -> None:
    assert fill_template("{found}", {"found": OSError("no")}).values == {"found": "no"}


def test_what_is_joined_keeps_its_parts() -> None:
    joined = join_localizable("; ", ["", REASON, "it deletes /", ""])
    assert joined == "a.txt is gone after 1.2 s; it deletes /"
    assert isinstance(joined, Localizable) and joined.values["first_said"] is REASON
    assert join_localizable("; ", [REASON]) is REASON and join_localizable("; ", []) == ""


def test_a_stored_message_comes_back_with_its_parts() -> None:
    joined = join_localizable("; ", [REASON, "it deletes /"])
    back = unpack_message(pack_message(joined))
    assert back == joined and isinstance(back, Localizable)
    assert get_wording(back) == get_wording(
        Localizable(joined, "{first_said}; {second_said}", {"first_said": REASON, "second_said": "it deletes /"})
    )


@pytest.mark.parametrize("stored", ["", "the model was changed", "a {name} and 100 %"])
def test_a_message_of_an_earlier_version_stays_as_it_is(stored: str) -> None:
    assert unpack_message(stored) == stored and pack_message(stored) == stored


@pytest.mark.parametrize("wording", ["{", "[]", "[1,2,3]", '["a","b",{"c":[]}]', '["a","b",{"c":null}]', "null"])
def test_a_broken_wording_leaves_the_english(wording: str) -> None:
    assert unpack_message(f"gone\x1e{wording}") == "gone"


def test_the_template_of_a_stored_message_is_never_filled() -> None:
    sent = restore_wording(["gone", "{path.__class__} {path:>9999999999}", {"path": "x"}])
    assert sent == "gone"
