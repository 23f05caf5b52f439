"""`python -m bench`: tables of costs, with ratios.

Programs run in turn (A B C A B C), medians are shown. Peers are named with `--peer NAME=PATH` or in `BENCH_PEERS`
(`NAME=PATH` separated by spaces); NAME is one of hermes-agent, nanobot, pi, opencode, codex.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

from bench.measure import ROOT, Run, received, run, server
from bench.programs import OWN, Program, own_program, peer
from hermes.testing.home import TempHome

Key = TypeVar("Key", bound=Hashable)
Homes = dict[str, TempHome]


def environment(program: Program, home: TempHome) -> dict[str, str]:
    """Peers must not find our source tree on their path."""
    return {name: value for name, value in home.environ.items() if program.name == OWN or name != "PYTHONPATH"}


def prompt_run(program: Program, home: TempHome, timeout: float, rounds: int = 0) -> Run:
    """One prompt; the model asks for `rounds` tool calls before it answers."""
    notes = home.cwd / "notes.txt"
    if not notes.exists():
        notes.write_text("".join(f"line {number}\n" for number in range(1, 3001)))
    arguments = program.arguments.replace("PATH", str(notes))
    with server("--rounds", str(rounds), "--tool", program.tool, "--arguments", arguments) as url:
        environ = environment(program, home) | program.configure(home, url)
        result = run(program.prompt(home), environ, home, timeout)
        sizes = received(url)
    if result.code or len(sizes) < rounds + 1:
        why = f"exit {result.code} after {result.wall:.1f} s, {len(sizes)} of {rounds + 1} requests"
        sys.stderr.write(f"{program.name}: {why}\n{result.output}\n")
        return replace(result, code=result.code or 1)
    return replace(result, sizes=sizes)


def in_turn(jobs: Mapping[Key, Callable[[], Run]], runs: int, *, warm_up: bool) -> dict[Key, list[Run]]:
    """All jobs in turn, `runs` times, after one that does not count. A job that fails is left out."""
    results: dict[Key, list[Run]] = {key: [] for key in jobs}
    for number in range(runs + warm_up):
        for key in list(results):
            result = jobs[key]()
            if result.code:
                del results[key]
            elif number >= warm_up:
                results[key].append(result)
    return results


def median(results: Iterable[Run], what: str) -> float:
    return statistics.median(getattr(result, what) for result in results)


def ratios(values: dict[str, float]) -> dict[str, str]:
    """Each value as a multiple of ours, or of the least when ours is not there."""
    base = values.get(OWN) or min(values.values(), default=0.0)
    return {name: f"{value / base:.2f}" if base > 0 else "-" for name, value in values.items()}


def table(title: str, head: str, rows: Iterable[Iterable[object]]) -> None:
    columns = head.split("|")
    print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |")
    sys.stdout.flush()


def bench_prompt(programs: list[Program], homes: Homes, options: argparse.Namespace) -> None:
    jobs = {program.name: partial(prompt_run, program, homes[program.name], options.timeout) for program in programs}
    results = in_turn(jobs, options.runs, warm_up=True)
    ratio = ratios({name: median(found, "cpu") for name, found in results.items()})
    rows = []
    for name, found in results.items():
        cpus, sizes = [one.cpu for one in found], found[-1].sizes
        cpu, spread = f"{median(found, 'cpu'):.3f}", f"{min(cpus):.3f}-{max(cpus):.3f}"
        wall, peak = f"{median(found, 'wall'):.2f}", f"{median(found, 'peak'):.0f}"
        rows.append((name, cpu, spread, ratio[name], wall, peak, len(sizes), sizes[0], max(sizes)))
    head = "program|CPU s|min-max|ratio|wall s|peak MB|requests|first request, bytes|largest"
    table(f"One prompt without tools (median of {options.runs})", head, rows)


def bench_rounds(programs: list[Program], homes: Homes, options: argparse.Namespace) -> None:
    """Cost of a round: the difference of whole runs, so that start and end cancel out."""
    found: dict[tuple[int, int], dict[str, tuple[float, float]]] = {}
    for program in programs:
        prompt_run(program, homes[program.name], options.timeout)
    for low, high in options.rounds:
        jobs = {
            (program.name, count): partial(prompt_run, program, homes[program.name], options.timeout, count)
            for program in programs
            for count in (low, high)
        }
        results = in_turn(jobs, options.round_runs, warm_up=False)
        costs = found[low, high] = {}
        for program in programs:
            few, many = results.get((program.name, low)), results.get((program.name, high))
            if few and many:
                cpu = (median(many, "cpu") - median(few, "cpu")) / (high - low) * 1000
                costs[program.name] = cpu, statistics.mean(many[-1].sizes[low:high]) / 1e6
        ratio = ratios({name: cpu for name, (cpu, _) in costs.items()})
        rows = [(name, f"{cpu:.2f}", ratio[name], f"{body:.3f}") for name, (cpu, body) in costs.items()]
        title = f"One more tool round, between {low} and {high} (medians of {options.round_runs})"
        table(title, "program|CPU ms|ratio|mean body, MB", rows)
    if len(found) > 1:
        first, last = found[options.rounds[0]], found[options.rounds[-1]]
        slopes = {
            name: (last[name][0] - first[name][0]) / (last[name][1] - first[name][1]) for name in first if name in last
        }
        table("Growth of a round", "program|CPU ms a MB of body", [(name, f"{s:.2f}") for name, s in slopes.items()])


def bench_help(programs: list[Program], homes: Homes, options: argparse.Namespace) -> None:
    jobs = {}
    for program in programs:
        home = homes[program.name]
        jobs[program.name] = partial(
            run, [*program.command, "--help"], environment(program, home), home, options.timeout
        )
    results = in_turn(jobs, options.runs, warm_up=True)
    ratio = ratios({name: median(found, "cpu") for name, found in results.items()})
    rows = []
    for name, found in results.items():
        rows.append((name, f"{median(found, 'cpu') * 1000:.0f}", ratio[name], f"{median(found, 'peak'):.0f}"))
    table(f"`--help` (median of {options.runs})", "program|CPU ms|ratio|peak MB", rows)


BENCHES = {"prompt": bench_prompt, "rounds": bench_rounds, "help": bench_help}


def interval(text: str) -> tuple[int, int]:
    low, high = map(int, text.split("-"))
    return low, high


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--hermes", default="", metavar="PATH", help="our command (default: this source tree)")
    parser.add_argument("--only", choices=BENCHES, action="append", help="default: all")
    parser.add_argument("--runs", type=int, default=5, help="runs of a prompt and of --help (default 5)")
    parser.add_argument("--round-runs", type=int, default=3, help="runs of each number of rounds (default 3)")
    parser.add_argument("--rounds", type=interval, action="append", metavar="LOW-HIGH", help="default 50-200, 500-1000")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run (default 600)")
    options = parser.parse_args()
    options.rounds = options.rounds or [(50, 200), (500, 1000)]
    programs = [peer(entry) for entry in [*os.environ.get("BENCH_PEERS", "").split(), *options.peer]]
    if options.hermes or (ROOT / "hermes/__main__.py").exists():
        programs.insert(0, own_program(options.hermes))
    if not programs:
        raise SystemExit("nothing to measure: hermes is not there and no --peer NAME=PATH was given")
    with ExitStack() as stack:
        homes = {program.name: stack.enter_context(TempHome()) for program in programs}
        for name in options.only or BENCHES:
            BENCHES[name](programs, homes, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
