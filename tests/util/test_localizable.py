"""A message remembers its template and values, and is a plain string to everything else."""

import json

import pytest

from hermes.util.localizable import (
    Localizable,
    change_text,
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


def test_a_value_cannot_bring_a_wording_of_its_own() -> None:
    evil = 'm\x1e["spoof","{name} is allowed",{"name":"x"}]'
    for message in (fill_template("you chose {model}", {"model": evil}), f"you chose {evil}"):
        back = unpack_message(pack_message(message))
        assert back == "you chose " + evil.replace("\x1e", "")
    assert not isinstance(unpack_message(pack_message(evil)), Localizable)
    assert unpack_message('gone\x1e["other","{name}",{}]') == "gone"


@pytest.mark.parametrize("deep", ["[" * 100_000, '["a","b",{"c":' * 2_000 + '["a","b",{}]' + "}]" * 2_000])
def test_a_wording_that_is_nested_without_end_leaves_the_english(deep: str) -> None:
    assert unpack_message(f"gone\x1e{deep}") == "gone"


def test_a_thousand_reasons_are_few_levels_deep() -> None:
    joined = join_localizable("; ", [fill_template("it deletes {path}", {"path": str(n)}) for n in range(3_000)])
    assert joined.startswith("it deletes 0; it deletes 1; ") and joined.endswith("it deletes 2999")
    assert unpack_message(pack_message(joined)) == joined
    assert isinstance(unpack_message(pack_message(joined)), Localizable)


def test_what_is_escaped_is_escaped_in_the_values_too() -> None:
    shown = change_text(Localizable("fine", "{path}", {"path": "\x1b[31m"}), lambda text: text.replace("\x1b", ""))
    assert isinstance(shown, Localizable) and shown.values == {"path": "[31m"}
