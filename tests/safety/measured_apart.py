"""Costs of judging shell texts, measured in a process of its own: `measure_texts`.

What was given up while texts were judged changes how the same process judges later ones
(`hermes/safety/shell/syntax.py`), so a test that judges costly texts measures them where nothing was judged before.
The child reads texts from its standard input and prints what they cost, both as JSON.
"""

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.findings import CommandJudgement
from hermes.safety.shell.syntax import AnalysisBudget
from tests.cpu_cost import count_cpu_units, measure_growth
from tests.safety.corpus_score import PLACES

SMALL, LARGE = 4_000, 64_000
_TRIES = 3
_ROOT = Path(__file__).parents[2]


class ScaledText(NamedTuple):
    """A text of any length: a piece, again and again, at the place of `{}` in what stands around it."""

    piece: str
    around: str = "{}"

    def write(self, size: int) -> str:
        """Return the text with so many characters of pieces, but one piece at least."""
        return self.around.replace("{}", self.piece * max(1, size // len(self.piece)))


class TextCost(NamedTuple):
    """What a text cost; sizes are those of `SMALL` and `LARGE`."""

    growth: float
    """How many times the cost of the small text is that of the large one, which is 16 times as long."""
    units: float
    """The cost of the large text, in units of `count_cpu_units`."""
    budget_units: float
    """The CPU time that a text of this length may take, in the same units."""
    verdicts: tuple[str, ...]
    """The verdicts on the large text, one for each try."""


def measure_texts(texts: Sequence[ScaledText]) -> list[TextCost]:
    """Measure the texts, each by itself, in one process that has judged nothing before."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.safety.measured_apart"],
        input=json.dumps(texts),
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [
        TextCost(growth, units, budget, tuple(verdicts)) for growth, units, budget, verdicts in json.loads(done.stdout)
    ]


def _measure_text(text: ScaledText) -> TextCost:
    large = text.write(LARGE)
    judged: list[CommandJudgement] = []
    growth = measure_growth(lambda size: functools.partial(_judge_text, text.write(size)), SMALL, LARGE, _TRIES)
    units = count_cpu_units(lambda: judged.append(_judge_text(large)), _TRIES)
    budget = count_cpu_units(_spend_budget(len(large)), _TRIES)
    verdicts = tuple(one.overall_verdict(sandboxed=False).value for one in judged)
    return TextCost(growth, units, budget, verdicts)


def _judge_text(text: str) -> CommandJudgement:
    return analyze_command(text, PLACES.workspace, PLACES)


def _spend_budget(length: int) -> Callable[[], None]:
    def spin() -> None:
        ends = AnalysisBudget(length).ends
        while time.thread_time() < ends:
            pass

    return spin


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump([_measure_text(ScaledText(piece, around)) for piece, around in given], sys.stdout)
