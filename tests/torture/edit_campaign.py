"""Edits with small faults, through the tool: each unchanged line stays byte for byte, and no wrong place is changed.

python -m tests.torture.edit_campaign --count 5000 --seed 0
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hermes.core.messages import ToolStatus
from hermes.tools.registry import ToolRegistry
from tests.tools.tool_session import Session, make_context
from tests.torture.edit_cases import EditCase, make_case


@dataclass
class EditScore:
    """What became of the edits: how many were applied or refused, and the seeds of those that went wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


async def run_case(session: Session, case: EditCase) -> str:
    """Make an edit; return `applied`, `refused` or `wrong`, each with what else is known."""
    path = session.cwd / case.name
    path.write_bytes(case.before)
    session.state.seen_files.clear()
    result = await session.call("patch", **case.call)
    found = path.read_bytes()
    if result.status is ToolStatus.ERROR:
        if found != case.before:
            return "wrong"
        return "refused though unique" if case.is_unique else "refused"
    return "applied" if found == case.after else "wrong"


async def run_campaign(folder: Path, seeds: range) -> EditScore:
    """Make the edits of some seeds in a folder."""
    session = Session(make_context(folder.resolve()), ToolRegistry().select_tools())
    score = EditScore()
    try:
        for seed in seeds:
            case = make_case(seed)
            outcome = await run_case(session, case)
            score.counts[f"{'patch' if 'patch' in case.call else 'replace'}: {outcome}"] += 1
            score.wrong += [seed] if outcome == "wrong" else []
            score.refused += [seed] if outcome == "refused though unique" else []
    finally:
        await session.close()
    return score


def main() -> int:
    """Run the campaign; return how the process ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        score = asyncio.run(run_campaign(Path(folder), range(options.seed, options.seed + options.count)))
    for outcome, count in sorted(score.counts.items()):
        sys.stdout.write(f"{outcome:32} {count:6}\n")
    sys.stdout.write(f"wrong: {score.wrong[:20]}; refused though unique: {score.refused[:20]}\n")
    return 1 if score.wrong or score.refused else 0


if __name__ == "__main__":
    sys.exit(main())
