"""Names of keys, and chords of them."""

from hermes.browser.keyboard import read_chord


def test_chords_are_read() -> None:
    held, key = read_chord("ctrl+Shift+k")
    assert ([one.key for one in held], key.code) == (["Control", "Shift"], "KeyK")
    assert read_chord("Control++")[1].key == "+"
    assert read_chord("+")[1].key == "+"
    assert read_chord("esc")[1].key == "Escape"
