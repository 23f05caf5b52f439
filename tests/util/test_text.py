"""Text that is shown: what a terminal obeys is gone, what cannot be seen is shown, what scripts need stays."""

import importlib
import re
import sys
from pathlib import Path
from unicodedata import category

import pytest

import hermes
from hermes.util.text import (
    compile_late,
    escape_unseen_characters,
    strip_control_characters,
    strip_terminal_controls,
)

FAMILY, HEART, KEYCAP = "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥 ❤\ufe0f", "1\ufe0f\u20e3"
WALES = "🏴" + "".join(chr(0xE0000 + ord(one)) for one in "gbwls") + "\U000e007f"


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "naïve 中文，א",
        "می\u200cخواهم",
        "क्\u200dष",
        FAMILY,
        HEART,
        KEYCAP,
        WALES,
        "葛\U000e0100",
        "∩\ufe00 ⚕\ufe0f 👩🏽\u200d⚕\ufe0f",
    ],
)
def test_what_people_write_stays(text: str) -> None:
    assert (
        strip_control_characters(text) == escape_unseen_characters(text) == strip_terminal_controls(text)
        or text == WALES
    )
    assert strip_control_characters(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("read\u200b_file", "read\\u{200b}_file"),
        ("read\u200d_file", "read\\u{200d}_file"),
        ("\u200dread_file\u200c", "\\u{200d}read_file\\u{200c}"),
        ("a\ufe0f", "a\\u{fe0f}"),
        ("\ufe0fa", "\\u{fe0f}a"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\u{fe0f}"),
        ("中\u200d\u200d文", "中\\u{200d}\\u{200d}文"),
        ("中\u200b文", "中\\u{200b}文"),
        ("🏴\U000e0067\U000e0062x", "🏴\\u{e0067}\\u{e0062}x"),
        ("\U0001d173a", "\\u{1d173}a"),
        ("a\u202eb", "a\\u{202e}b"),
        ("报\u200d告", "报\\u{200d}告"),
        ("п\u200cр é\u200dé", "п\\u{200c}р é\\u{200d}é"),
        ("é\ufe01 п\U000e0101 🔥\U000e0101", "é\\u{fe01} п\\u{e0101} 🔥\\u{e0101}"),
        ("yes\u2800\u2800no", "yes\\u{2800}\\u{2800}no"),
        ("a\U00016fe4b\U0001d159c", "a\\u{16fe4}b\\u{1d159}c"),
        ("a\U00013430b", "a\\u{13430}b"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert strip_control_characters(text) == shown == escape_unseen_characters(text)


def test_no_format_character_stays_beside_ascii() -> None:
    """By Unicode's own kinds, not by our list: the signs of Arabic and Kaithi that are seen are left out."""
    seen = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    for code in range(sys.maxunicode + 1):
        if category(chr(code)) in ("Cc", "Cf") and code not in seen and chr(code) not in "\t\n":
            text = f"a{chr(code)}b"
            assert chr(code) not in strip_control_characters(text) and chr(code) not in escape_unseen_characters(text)


def test_a_terminal_obeys_nothing() -> None:
    assert strip_control_characters("\x1b[31mred\x9b2J\x07\r\n") == "[31mred2J\n"
    assert strip_terminal_controls("\x1b[31mr\u202eed\u200b") == "[31mred\u200b"


def test_a_late_pattern_is_a_pattern() -> None:
    late = compile_late(r"(\w+)@(\w+)", re.IGNORECASE)
    assert late.sub(r"\2", "a@b c@d") == "b d"
    assert [found[1] for found in late.finditer("a@b c@d")] == ["a", "c"]
    assert late.flags & re.IGNORECASE


def test_a_mistake_in_a_late_pattern_is_raised_at_its_first_use() -> None:
    late = compile_late("(")
    with pytest.raises(re.error):
        late.search("")


def test_every_late_pattern_of_the_package_compiles() -> None:
    package = Path(hermes.__file__).parent
    files = [one for one in package.rglob("*.py") if " = compile_late(" in one.read_text(encoding="utf-8")]
    kind = type(compile_late(""))
    late = []
    for file in files:
        module = importlib.import_module(".".join(file.relative_to(package.parent).with_suffix("").parts))
        late += [value for value in vars(module).values() if isinstance(value, kind)]
    assert len(late) >= len(files) > 5
    assert all(one.pattern for one in late)
