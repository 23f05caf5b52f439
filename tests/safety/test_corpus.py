"""The bars of the analyser on every corpus that is here, and on any text."""

import gc
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.findings import Verdict

from .score import PLACES, judged, score

CORPORA = sorted((Path(__file__).parent / "corpus").glob("*.jsonl"))


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda path: path.stem)
def test_the_bars_hold(corpus: Path) -> None:
    found = score(judged(corpus))
    assert not found.recall < 0.97, found
    assert not found.hardline < 0.995, found
    assert not found.alarms > 0.02, found
    assert not found.mentions > 0.01, found


def least(text: str) -> float:
    """CPU seconds of judging a text, the least of three tries."""
    tries = []
    gc.disable()
    try:
        for _ in range(3):
            started = time.process_time()
            analyze_command(text, PLACES.workspace, PLACES)
            tries.append(time.process_time() - started)
    finally:
        gc.enable()
    return min(tries)


def test_a_command_costs_little() -> None:
    # A hundred times the cost of what a table look-up and a few objects take; measured: 7 us and 16 us.
    assert least("git status") < 0.002
    assert least("git status && ls -la | head -5") < 0.005


def test_large_texts_are_judged_within_bounds() -> None:
    heredoc = "cat > f <<'EOF'\n" + "a line with words, $signs and (brackets)\n" * 500 + "EOF\n"
    script = 'if [ -f x ]; then\n  cp -r build/$x out && mv a b\nfi\nfoo=$(ls | wc -l)\necho "$foo"\n' * 1400
    assert least(heredoc) < 0.02
    assert least(script) < 0.6
    # The budget is CPU time: a neighbour of the machine may eat up one try, as with `least`.
    judged = {analyze_command(heredoc, PLACES.workspace, PLACES).overall_verdict(sandboxed=False) for _ in range(5)}
    assert Verdict.ALLOW in judged


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


@settings(max_examples=12, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=6).map("".join))
def test_the_cost_of_any_text_grows_with_its_length(piece: str) -> None:
    short, long = (least(piece * max(1, size // len(piece))) for size in (4_000, 64_000))
    assert long < 0.05 or long < short * 40, (piece, short, long)


@pytest.mark.parametrize(
    "piece",
    [
        "x=1 ", "cd a;", "[[ ", "xargs ", "nohup ", "> a ", "{a,b} ", "{a,", "sh <<< ", "a>b;", "$x;", "<(a) ", "\0",
        "ｒｍ x;", "\u200brm x;", "a[1]=2;", "cat a|", "curl -o a b;sh a;", "eval <<< ", "x=a;a=b:a|a|if ",
    ],
)  # fmt: skip
def test_the_worst_texts_stay_within_their_budget(piece: str) -> None:
    # Measured: 36 to 47 ms for 64 KB; the budget is of this thread's CPU time.
    assert least((piece * 65_536)[:65_536]) < 0.1


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
            "~/\u6587\u6863" in listed.commands[0].argv and listed.overall_verdict(sandboxed=False) is not Verdict.ALLOW
        )
    heredoc = analyze_command("bash <<E\nrm -r ~/\u6587$x\nE", PLACES.workspace, PLACES)
    assert ("rm", "-r", "~/\u6587${x}") in [one.argv for one in heredoc.commands]
    assert analyze_command("echo \x1f41\x1f", PLACES.workspace, PLACES).commands[0].argv == ("echo", "\x1f41\x1f")
