"""The bars of the analyser on every corpus that is here, and on any text."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.findings import Verdict
from tests.cpu_cost import count_cpu_units
from tests.safety.corpus_score import PLACES, judged, score
from tests.safety.measured_apart import ScaledText, TextCost
from tests.safety.verdicts import overall_verdict

MAX_BEYOND_BUDGET = 150
"""Units of CPU time that judging a text takes at most beyond its budget: what is under way when it is used up.

Measured: up to 46.
"""
CORPORA = sorted((Path(__file__).parent / "corpus").glob("*.jsonl"))


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda path: path.stem)
def test_the_bars_hold(corpus: Path) -> None:
    found = score(judged(corpus))
    assert not found.recall < 0.97, found
    assert not found.hardline < 0.995, found
    assert not found.alarms > 0.02, found
    assert not found.mentions > 0.01, found


def judge_often(text: str) -> None:
    for _ in range(100):
        analyze_command(text, PLACES.workspace, PLACES)


def test_a_command_costs_little() -> None:
    # Five times what is measured: a table look-up and a few objects a command.
    assert count_cpu_units(lambda: judge_often("git status")) < 15
    assert count_cpu_units(lambda: judge_often("git status && ls -la | head -5")) < 80


@pytest.mark.slow
def test_large_texts_are_judged_within_bounds(measure_text: Callable[[ScaledText], TextCost]) -> None:
    heredoc = ScaledText("a line with words, $signs and (brackets)\n", "cat > f <<'EOF'\n{}EOF\n")
    script = ScaledText(
        'if [ -f x ]; then\n  cp -r build/$x out && mv a b\nfi\nfoo=$(ls | wc -l)\necho "$foo"\n',
    )
    for text in (heredoc, script):
        cost = measure_text(text)
        assert cost.growth < 24  # linear is 16, quadratic would be 256
        assert cost.units - cost.budget_units < MAX_BEYOND_BUDGET
        # The budget is CPU time, of which the heredoc takes a tenth: a neighbour of the machine may eat up one try.
        assert text is script or Verdict.ALLOW.value in cost.verdicts


PIECES = st.sampled_from(
    [
        "rm ",
        "-rf ",
        "/ ",
        "$x",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "{",
        "}",
        "a,b",
        "|",
        "&&",
        ";",
        "\n",
        "<<E\n",
        "E\n",
        "<(",
        ">",
        "<<< ",
        "f() ",
        "if ",
        "then ",
        "fi ",
        "for i in ",
        "do ",
        "done ",
        "case ",
        "esac ",
        "[[ ",
        "]] ",
        "((",
        "))",
        "${x:0:1}",
        "${x//a/b}",
        "x=(",
        "eval ",
        "xargs ",
        "find . -exec ",
        "\\;",
        "python3 -c ",
        "sed -n ",
        "awk ",
        "psql -c ",
        "\\",
        "!",
        "~",
        "*",
        "\u200b",
        "ｒｍ",
        "\x1b[31m",
        "trap ",
        "base64 -d ",
        "printf '\\x72' ",
        "read x ",
        "git -c alias.x=",
        "docker run -v /:/x ",
        "2>&1 ",
        "cd .. ",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_no_text_breaks_it(text: str) -> None:
    judgement = analyze_command(text, PLACES.workspace, PLACES)
    assert all(one.rule and one.reason for one in judgement.findings)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=6).map("".join))
def test_the_cost_of_any_text_grows_with_its_length(measure_text: Callable[[ScaledText], TextCost], piece: str) -> None:
    cost = measure_text(ScaledText(piece))
    assert cost.units < 100 or cost.growth < 40, (piece, cost)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "x=1 ", "cd a;", "[[ ", "xargs ", "nohup ", "> a ", "{a,b} ", "{a,", "sh <<< ", "a>b;", "$x;", "<(a) ", "\0",
        "ｒｍ x;", "\u200brm x;", "a[1]=2;", "cat a|", "curl -o a b;sh a;", "eval <<< ", "x=a;a=b:a|a|if ",
    ],
)  # fmt: skip
def test_the_worst_texts_stay_within_their_budget(piece: str, measure_text: Callable[[ScaledText], TextCost]) -> None:
    cost = measure_text(ScaledText(piece))
    assert cost.growth < 24  # linear is 16, quadratic would be 256
    assert cost.units - cost.budget_units < MAX_BEYOND_BUDGET


@pytest.mark.parametrize(
    "name", ["ip0", "kill9", "docker2", "find4", "mount.7", "apt-1", "python3.11", "gcc-12", "pip3.9"]
)
def test_names_with_numbers_break_no_rule(name: str) -> None:
    analyze_command(f"{name} a.zip -d out", PLACES.workspace, PLACES)


def test_letters_of_all_scripts_are_read_as_they_are_written() -> None:
    # The parser's scanner reads foreign memory for characters beyond Latin-1 where braces may stand, and crashes.
    for text in ("{\U00031860", "{\U000b7d0e", "\\\U000ee52f\x91\xf1{\U0005a3fb\x82", "{\u4e00,b}", "${\U0010fffd"):
        analyze_command(text * 50, PLACES.workspace, PLACES)
    for text in (
        "rm -r ~/\u6587\u6863",
        "rm -r ~/'\u6587\u6863'",
        'rm -r ~/"\u6587\u6863"',
        "rm -r ~/{\u6587,x}\u6863",
    ):
        listed = analyze_command(text, PLACES.workspace, PLACES)
        assert (
            "~/\u6587\u6863" in listed.commands[0].argv
            and overall_verdict(listed, sandboxed=False) is not Verdict.ALLOW
        )
    heredoc = analyze_command("bash <<E\nrm -r ~/\u6587$x\nE", PLACES.workspace, PLACES)
    assert ("rm", "-r", "~/\u6587${x}") in [one.argv for one in heredoc.commands]
    assert analyze_command("echo \x1f41\x1f", PLACES.workspace, PLACES).commands[0].argv == ("echo", "\x1f41\x1f")
