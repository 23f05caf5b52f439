"""Costs of judging shell texts, each measured in a process of its own: the fixture `measure_text` of `conftest.py`.

What was given up while texts were judged changes how the same process judges later ones
(`hermes/safety/shell/syntax.py`), so a costly text is measured where nothing was judged before: in a fork of a process
that reads texts from its standard input and prints what each costs, both a line of JSON.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.findings import CommandJudgement
from hermes.safety.shell.syntax import AnalysisBudget
from tests.cpu_cost import measure_scaling
from tests.safety.corpus_score import PLACES
from tests.safety.verdicts import overall_verdict

SMALL, LARGE = 4_000, 64_000
_TRIES = 3
_MAX_SECONDS = 300
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


@contextmanager
def start_cost_meter() -> Iterator[Callable[[ScaledText], TextCost]]:
    """Start the process, and give the function that has it measure a text."""
    command = [sys.executable, "-m", "tests.safety.measured_apart"]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        given, told = process.stdin, process.stdout
        assert given is not None and told is not None

        def measure_text(text: ScaledText) -> TextCost:
            given.write(json.dumps(text) + "\n")
            given.flush()
            growth, units, budget, verdicts = json.loads(told.readline())
            return TextCost(growth, units, budget, tuple(verdicts))

        yield measure_text


def _measure_text(text: ScaledText) -> TextCost:
    judged: dict[int, list[CommandJudgement]] = {SMALL: [], LARGE: []}

    def make_work(size: int) -> Callable[[], None]:
        written = text.write(size)
        return lambda: judged[size].append(analyze_command(written, PLACES.workspace, PLACES))

    cost = measure_scaling(make_work, SMALL, LARGE, _TRIES)
    budget = AnalysisBudget(len(text.write(LARGE))).ends - time.thread_time()
    verdicts = tuple(overall_verdict(one, sandboxed=False).value for one in judged[LARGE])
    return TextCost(cost.growth, cost.units, budget / cost.unit_seconds, verdicts)


def _measure_given_texts() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            signal.alarm(_MAX_SECONDS)
            sys.stdout.write(json.dumps(_measure_text(ScaledText(*json.loads(line)))) + "\n")
            sys.stdout.flush()
            os._exit(0)
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit(f"a measurement ended with {code}")


if __name__ == "__main__":
    _measure_given_texts()
