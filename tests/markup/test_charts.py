"""Pictures of numbers: right to the eighth of a column, never wider than the room, and said in words on demand."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.commands.usage import draw_context_bar
from hermes.core.messages import Message, Role, TextPart, ToolResultPart, ToolStatus, user_message
from hermes.markup.cells import fit_text, measure_width
from hermes.markup.charts import BarRow, draw_bar, draw_bars, draw_sparkline
from hermes.sessions.context_usage import FREE, KINDS, RESULTS, SYSTEM, TOOLS, YOURS, TokenShare, estimate_shares
from hermes.sessions.epoch_frame import PromptPartSize


def test_a_bar_is_exact_to_an_eighth_and_shows_what_is_little() -> None:
    assert draw_bar(0.5, 4) == "██" and draw_bar(1, 4) == "████" and draw_bar(0, 4) == ""
    assert draw_bar(0.0001, 10) == "▏" and draw_bar(0.53125, 4) == "██▏"
    assert draw_bar(0.42, 10, words=True) == "42%"


def test_a_sparkline_has_a_character_for_each_number() -> None:
    assert draw_sparkline([0, 1, 8]) == " ▂█" and draw_sparkline([0, 0]) == "  " and draw_sparkline([]) == ""


@given(
    st.lists(
        st.tuples(st.text(alphabet="ab天ア", max_size=30), st.floats(0, 1e12), st.text("0123456789", max_size=8)),
        max_size=5,
    ),
    st.integers(20, 120),
)
def test_columns_stay_in_their_room(rows: list[tuple[str, float, str]], room: int) -> None:
    lines = draw_bars([BarRow(*one) for one in rows], room)
    assert len(lines) == len(rows) and all(measure_width(line) <= room for line in lines)


def test_wide_characters_take_two_columns() -> None:
    assert measure_width("天气") == 4 and fit_text("天气预报", 5) == "天气…" and fit_text("ab", 4) == "ab  "
    assert (
        draw_bars([BarRow("天气", 2, "x"), BarRow("ab", 1, "y")], 40)[1].index("█")
        == draw_bars([BarRow("ab", 1, "y")], 40)[0].index("█") + 2
    )
    assert draw_bars([BarRow("a", 2, "2 calls")], 40, words=True) == ["a: 2 calls"]


def test_the_context_bar_shows_each_kind_and_what_is_free() -> None:
    sizes = [
        PromptPartSize("prompt: identity", 4_000),
        PromptPartSize("tool: terminal", 8_000),
        PromptPartSize("prompt: MEMORY.md", 400),
    ]
    result = ToolResultPart(call_id="c", name="terminal", text="x" * 4_000, status=ToolStatus.OK)
    said = [user_message("y" * 400), Message(role=Role.TOOL, parts=(result,))]
    found = estimate_shares(sizes, said)
    tokens = {one.kind: one.tokens for one in found}
    assert list(tokens) == [one for one in KINDS if one in tokens]
    assert tokens[SYSTEM] == 1_000 and tokens[TOOLS] == 2_000 and 1_000 < tokens[RESULTS] < 1_100
    lines = draw_context_bar(found, 20_000, 60)
    assert len(lines) == len(found) + 2 and all(measure_width(line) <= 60 for line in lines)
    bars = {line.split("  ")[0].strip(): line.count("█") for line in lines[:-1]}
    assert bars[FREE] == 0 and bars[TOOLS] == max(bars.values()) > 0
    assert lines[-1].startswith("About 4.") and FREE in lines[-2]


def test_the_providers_own_count_scales_the_shares() -> None:
    found = estimate_shares([PromptPartSize("prompt: identity", 400)], [user_message("z" * 400)], counted=1_000)
    assert abs(sum(one.tokens for one in found) - 1_000) <= 2


def test_a_full_window_and_an_unknown_one_are_said() -> None:
    parts = [TokenShare(SYSTEM, 900), TokenShare(YOURS, 300)]
    assert draw_context_bar(parts, 1_000, 40)[-1] == "About 1.2k tokens, more than the 1k that fit."
    assert draw_context_bar(parts, None, 40)[-1] == "About 1.2k tokens; how many fit is not known."
    words = draw_context_bar(parts, 2_400, 40, words=True)
    assert words[0] == "system prompt: 900 tokens, 38%" and not any(mark in "".join(words) for mark in "█▓·")


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=8), st.integers(8, 200))
def test_the_bars_are_never_wider_than_their_room(tokens: list[int], room: int) -> None:
    parts = [TokenShare(kind, count) for kind, count in zip(KINDS, tokens, strict=False) if count]
    lines = draw_context_bar(parts, None, room)
    assert len(lines) == len(parts) + 1 and all(measure_width(line) <= max(room, 40) for line in lines[:-1])


def test_text_of_strangers_counts_as_what_it_came_in() -> None:
    assert [one.kind for one in estimate_shares([], [Message(role=Role.USER, parts=(TextPart(text="x"),))])] == [YOURS]
