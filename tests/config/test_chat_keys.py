"""Keys of a person's own: what can be written, and what is refused by name."""

import pytest

from hermes.config.chat_keys import ACTIONS, format_action_keys, parse_keys
from hermes.core.errors import UsageError


def test_every_action_has_keys_and_no_key_two_actions() -> None:
    found = parse_keys({})
    assert set(found) == set(ACTIONS) and all(found.values())
    assert found["edit"] == (("c-x", "c-e"), ("c-g",)) and found["reasoning"] == (("escape", "t"),)
    assert format_action_keys(found["edit"]) == "Ctrl-X Ctrl-E, Ctrl-G"
    assert format_action_keys(found["newline"]) == "Ctrl-J"


def test_keys_of_ones_own_take_the_place_of_the_default_ones() -> None:
    found = parse_keys({"unfold": "F2, ctrl-x o", "plan": "off", "reasoning": "ctrl-t"})
    assert found["unfold"] == (("f2",), ("c-x", "o")) and found["plan"] == ()
    assert found["reasoning"] == (("c-t",),)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"unfodl": "f2"}, "There is no action 'unfodl'"),
        ({"unfold": "ctrl-shift-x"}, "'ctrl-shift-x' is not a key"),
        ({"unfold": "x"}, "'x' cannot be the key of 'unfold'"),
        ({"unfold": "enter"}, "it is for writing"),
        ({"unfold": "ctrl-l"}, "Ctrl-L is 'clear' and 'unfold'"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=r"Did you mean|Actions|Keys|Take one|Give one") as refused:
        parse_keys(settings)
    assert words in str(refused.value)
