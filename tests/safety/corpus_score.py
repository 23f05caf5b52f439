"""Scores the analyser on a corpus: `python -m tests.safety.corpus_score CORPUS.jsonl [--misses]`.

A row is `{"cmd", "label": "dangerous" | "benign" | "caution", "class", "tier"?}`. A dangerous command counts as caught
when it asks or is refused in `local`; a benign one that does either is a false alarm; caution may be either.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hermes.safety.paths import Places
from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.findings import Verdict
from tests.safety.verdicts import overall_verdict

PLACES = Places(home="/home/dev", hermes="/home/dev/.hermes", workspace="/home/dev/project")


class Row(NamedTuple):
    """One command of a corpus, judged."""

    command: str
    label: str
    kind: str
    hardline: bool
    verdict: Verdict
    rules: tuple[str, ...]
    seconds: float


class Score(NamedTuple):
    """Shares between 0 and 1, and seconds a command."""

    recall: float
    hardline: float
    alarms: float
    mentions: float
    p50: float
    p95: float


def judged(path: Path) -> list[Row]:
    """Every row of a corpus, judged."""
    rows = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        command = row["cmd"]
        analyze_command(command, PLACES.workspace, PLACES)
        started = time.perf_counter()
        judgement = analyze_command(command, PLACES.workspace, PLACES)
        seconds = time.perf_counter() - started
        rules = tuple(f"{one.verdict.value}:{one.rule}" for one in judgement.findings)
        verdict = overall_verdict(judgement, sandboxed=False)
        kind = row.get("class", "")
        rows.append(Row(command, row["label"], kind, row.get("tier") == "hardline", verdict, rules, seconds))
    return rows


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _share(rows: Sequence[Row]) -> float:
    return sum(row.verdict is not Verdict.ALLOW for row in rows) / len(rows) if rows else float("nan")


def score(rows: Sequence[Row]) -> Score:
    """The numbers of a judged corpus."""
    dangerous = [row for row in rows if row.label == "dangerous"]
    benign = [row for row in rows if row.label == "benign"]
    times = sorted(row.seconds for row in rows)
    return Score(
        _share(dangerous),
        _share([row for row in dangerous if row.hardline]),
        _share(benign),
        _share([row for row in benign if row.kind == "text_mention"]),
        times[len(times) // 2],
        times[int(len(times) * 0.95)],
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--misses", action="store_true")
    given = parser.parse_args()
    rows = judged(given.corpus)
    kinds: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.label, row.kind].append(row)
    for (label, kind), some in sorted(kinds.items()):
        denied = sum(row.verdict is Verdict.DENY for row in some)
        _say(f"{label:10} {kind:20} {len(some):5}  asked or denied {_share(some):6.1%}  denied {denied}")
    found = score(rows)
    hard = [row for row in rows if row.hardline]
    denied = sum(row.verdict is Verdict.DENY for row in hard) / len(hard) if hard else float("nan")
    _say(
        f"recall {found.recall:.1%} hardline {found.hardline:.1%} (denied {denied:.1%}) false alarms {found.alarms:.1%}"
        f" on mentions {found.mentions:.1%} p50 {found.p50 * 1e6:.0f} us  p95 {found.p95 * 1e6:.0f} us"
    )
    if given.misses:
        for row in rows:
            if row.label != "caution" and (row.verdict is Verdict.ALLOW) == (row.label == "dangerous"):
                _say(f"{row.label} {row.kind}: {row.command!r}")


if __name__ == "__main__":
    main()
