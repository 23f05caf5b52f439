"""From Enter to the drawn prompt, and to the first word of an answer, beside other programs: `python -m bench.drawn`.

Peers as in `python -m bench`: `--peer NAME=PATH` or BENCH_PEERS; NAME is pi, opencode or codex. All of them run in turn
(A B C A B C) on pseudo-terminals of one size that answer the usual questions about themselves, offline, against the
scripted server, in homes of their own that were warmed up once. CPU is of the whole process tree.
"""

import argparse
import contextlib
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bench.programs import OWN, Program, own_program, peer
from bench.terminal import Terminal, served
from hermes.testing.home import TempHome

ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[?u": b"\x1b[?0u",
    b"\x1b]10;?": b"\x1b]10;rgb:dddd/dddd/dddd\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:1111/1111/1111\x1b\\",
}
"""What programs ask a terminal, and what it says."""
DRAWN = {OWN: "›", "pi": "mock-model", "codex": "Ask Codex", "opencode": "Ask anything"}
"""What stands on the screen once something can be typed."""
ARGUMENTS = {"pi": ("--provider", "mock", "--model", "mock-model")}
ENVIRON = {"pi": {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}}
TOKEN = "tokenword"
PAUSE = 0.4
"""Seconds between the last letter and Enter: some take keys in quick succession for a paste."""
_SEQUENCE = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


class Answering(Terminal):
    """A terminal that says what it is when it is asked."""

    def read(self, seconds: float) -> bytes:
        data = super().read(seconds)
        for question, answer in ANSWERS.items():
            for _ in range(data.count(question)):
                os.write(self.master, answer)
        return data

    def until_shown(self, text: str, seconds: float = 30.0) -> float:
        """Seconds since it was started until this can be read."""
        end = time.perf_counter() + seconds
        while text.encode() not in _SEQUENCE.sub(b"", self.text):
            if time.perf_counter() > end:
                raise TimeoutError(f"{text!r} is not shown: {self.text[-1500:]!r}")
            self.read(0.05)
        return time.perf_counter() - self.began

    @property
    def tree(self) -> list[int]:
        """The process and all that came of it."""
        parents = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        found = [self.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def cpu_of_all(self) -> float:
        """Seconds of CPU of the tree, of those that have ended too."""
        ticks = 0
        for pid in self.tree:
            with contextlib.suppress(OSError):
                ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Kill the tree."""
        tree = self.tree
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)


def once(program: Program, home: TempHome, more: Mapping[str, str]) -> tuple[float, float, float, float]:
    """Wall and CPU to the prompt; wall from Enter to the first word, and CPU from the prompt to there."""
    terminal = Answering(home, *ARGUMENTS.get(program.name, ()), command=program.command, more=more)
    try:
        prompt = terminal.until_shown(DRAWN[program.name])
        drawn = terminal.cpu_of_all()
        terminal.type("hi")
        pause = time.perf_counter() + PAUSE
        while time.perf_counter() < pause:
            terminal.read(pause - time.perf_counter())
        sent = time.perf_counter() - terminal.began
        terminal.type("\r")
        return prompt, drawn, terminal.until_shown(TOKEN) - sent, terminal.cpu_of_all() - drawn
    finally:
        terminal.end()


def prepared(program: Program, home: TempHome, url: str) -> dict[str, str]:
    """Its configuration written; what its environment has beside a home's."""
    more = {**program.configure(home, url), **ENVIRON.get(program.name, {})}
    if program.name == "codex":
        file = home.home / ".codex/config.toml"
        file.write_text(f'{file.read_text()}\n[projects."{home.cwd}"]\ntrust_level = "trusted"\n')
    return more if program.name == OWN else {**more, "PYTHONPATH": ""}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.drawn", description=__doc__)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    programs = [own_program(""), *map(peer, [*os.environ.get("BENCH_PEERS", "").split(), *given.peer])]
    rows: dict[str, list[tuple[float, float, float, float]]] = {program.name: [] for program in programs}
    with served([{"reply": "say", "text": TOKEN}] * 200) as url, ExitStack() as stack:
        ready = []
        for program in programs:
            home = stack.enter_context(TempHome())
            ready.append((program, home, prepared(program, home, url)))
        for number in range(given.runs + 1):
            for program, home, more in ready:
                row = once(program, home, more)
                rows[program.name] += [row] if number else []
    print("| program | to the prompt, ms | CPU ms | Enter to the first word, ms | CPU ms, prompt to word |")
    print("|---|---|---|---|---|")
    for name, found in rows.items():
        columns = [[value * 1e3 for value in column] for column in zip(*found, strict=True)]
        cells = [f"{statistics.median(one):.0f} ({min(one):.0f}-{max(one):.0f})" for one in columns]
        print(f"| {name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
