"""What needs no browser: addresses, keys, names of files, and which lines of a page are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.browser.downloads import make_safe_name
from hermes.browser.excerpt import MAX_CHARACTERS, Seen, choose_lines, describe_changes, page_through
from hermes.browser.keyboard import read_chord
from hermes.browser.navigation import normalize_address
from hermes.browser.outline import Line, LineKind
from hermes.browser.page_facts import is_secret_field
from hermes.core.errors import BrowserError

_LINES = st.lists(
    st.builds(
        lambda depth, text, kind, is_in_view, actions: (depth, text, kind, is_in_view, actions),
        st.integers(0, 20),
        st.text(st.characters(categories=("L", "N")), min_size=1, max_size=300),
        st.sampled_from(LineKind),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=120,
)


def _make_lines(rows: list[tuple[int, str, LineKind, bool, int]]) -> list[Line]:
    return [Line(("s", number), *row) for number, row in enumerate(rows, 1)]


@given(_LINES)
def test_no_result_is_longer_than_the_limit(rows: list[tuple[int, str, LineKind, bool, int]]) -> None:
    lines = _make_lines(rows)
    assert len(choose_lines(lines).text) <= MAX_CHARACTERS
    pages = [page_through(lines, number) for number in range(1, 20)]
    assert all(len(page.text) <= MAX_CHARACTERS for page in pages)
    assert set().union(*(page.shown for page in pages)) == {line.node for line in lines}


def test_changes_are_marked() -> None:
    seen = Seen("d", {("s", n): f"line {n}" for n in range(1, 9)}, {("s", n) for n in range(1, 9)})
    texts = {1: "line 1", 2: "line two", 9: "line 9", **{n: f"line {n}" for n in range(4, 9)}}
    lines = [Line(("s", n), 0, text, LineKind.TEXT, True, 0) for n, text in texts.items()]
    told = describe_changes(lines, seen, scrolled=False)
    assert told is not None
    assert told.text == "~ line two\n+ line 9\n- line 3"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("example.com/a", "https://example.com/a"),
        (" localhost:8000 ", "http://localhost:8000"),
        ("http://a.example", "http://a.example"),
        ("//a.example", "https://a.example"),
    ],
)
def test_addresses_are_completed(given: str, address: str) -> None:
    assert normalize_address(given) == address


@pytest.mark.parametrize(
    "given", ["file:///etc/passwd", "javascript:alert(1)", "chrome://settings", "data:text/html,x", "two words", ""]
)
def test_what_is_no_page_of_the_web_is_refused(given: str) -> None:
    with pytest.raises(BrowserError):
        normalize_address(given)


def test_chords_are_read() -> None:
    held, key = read_chord("ctrl+Shift+k")
    assert ([one.key for one in held], key.code) == (["Control", "Shift"], "KeyK")
    assert read_chord("Control++")[1].key == "+"
    assert read_chord("+")[1].key == "+"
    assert read_chord("esc")[1].key == "Escape"


@pytest.mark.parametrize(
    ("suggested", "name"),
    [
        ("../../evil.sh", "evil.sh"),
        ("C:\\x\\.bashrc", "bashrc"),
        ("", "download"),
        ("a" * 300 + ".pdf", "a" * 96 + ".pdf"),
    ],
)
def test_names_of_downloads_are_made_safe(suggested: str, name: str) -> None:
    assert make_safe_name(suggested) == name


def test_fields_of_secrets_are_known_by_type_completion_and_name() -> None:
    assert is_secret_field("input", {"type": "password"})
    assert is_secret_field("input", {"autocomplete": "section-a cc-csc"})
    assert is_secret_field("input", {"type": "text", "name": "userPassword"})
    assert not is_secret_field("input", {"type": "checkbox", "name": "show_password"})
    assert not is_secret_field("input", {"type": "text", "name": "city"})
