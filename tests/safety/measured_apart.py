"""Costs of judging shell texts, measured in a process of its own: `measure_texts`.

What was given up while texts were judged changes how the same process judges later ones
(`hermes/safety/shell/syntax.py`), so a test that judges costly texts measures them where nothing was judged before.
The child reads texts from its standard input and prints what they cost, both as JSON.
"""

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
from tests.cpu_cost import measure_scaling
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
    judged: dict[int, list[CommandJudgement]] = {SMALL: [], LARGE: []}

    def make_work(size: int) -> Callable[[], None]:
        written = text.write(size)
        return lambda: judged[size].append(analyze_command(written, PLACES.workspace, PLACES))

    cost = measure_scaling(make_work, SMALL, LARGE, _TRIES)
    budget = AnalysisBudget(len(text.write(LARGE))).ends - time.thread_time()
    verdicts = tuple(one.overall_verdict(sandboxed=False).value for one in judged[LARGE])
    return TextCost(cost.growth, cost.units, budget / cost.unit_seconds, verdicts)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump([_measure_text(ScaledText(piece, around)) for piece, around in given], sys.stdout)
