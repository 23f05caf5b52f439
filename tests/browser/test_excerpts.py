"""Which lines of a page are told."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.browser.excerpt import MAX_CHARACTERS, Seen, choose_lines, describe_changes, find_lines, page_through
from hermes.browser.outline import Line, LineKind

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


def test_a_part_is_found_with_what_it_holds() -> None:
    rows = [
        (0, 'article "One":', LineKind.CONTAINER, False, 0),
        (1, "## One", LineKind.HEADING, False, 0),
        (0, 'article "Two":', LineKind.CONTAINER, False, 0),
        (1, "## Two", LineKind.HEADING, False, 0),
        (1, 'e7 button "Like"', LineKind.ACTION, False, 1),
        (0, "The end", LineKind.TEXT, False, 0),
    ]
    assert find_lines(_make_lines(rows), "two").text == 'article "Two":\n ## Two\n e7 button "Like"'


def test_refs_that_are_gone_are_told_by_their_runs() -> None:
    texts = {("s", n): f'e{n} button "{n}"' for n in (3, 4, 5, 9)}
    lines = [Line(("s", n), 0, f"line {n}", LineKind.TEXT, True, 0) for n in range(20, 90)]
    seen = Seen("d", texts | {line.node: line.text for line in lines}, {*texts})
    told = describe_changes(lines, seen, scrolled=False)
    assert told is not None
    assert told.text == "- 4 lines are gone (e3-e5 e9)"
