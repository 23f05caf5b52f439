"""Coverage-guided fuzzing of what reads a stranger's text: the analyser of commands, and the redactor.

    python -m tests.torture.fuzz analyser --minutes 30
    python -m tests.torture.fuzz redactor --minutes 30

Needs atheris. A crash, a finding without words, or a held secret that gets through ends it at once with the input that
did it. Inputs that take long are kept, and timed again at the end without the instruments; texts are up to 64 KiB, and
each must be judged within 50 ms.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

CORPORA = Path(__file__).resolve().parent.parent / "safety" / "corpus"
LONGEST = 65_536
LIMIT = 0.050
SUSPECT = 0.040
"""Seconds with the instruments, which slow everything down, from which on an input is timed again."""
KEPT = 200
FILLED = 16
"""One input of so many is repeated until it is as long as they may be: what costs more than its length shows so."""


def analyser() -> Callable[[str], None]:
    from hermes.safety.paths import Places
    from hermes.safety.shell.commands import analyze_command

    places = Places(home="/home/dev", hermes="/home/dev/.hermes", workspace="/home/dev/project")

    def one(text: str) -> None:
        for finding in analyze_command(text, places.workspace, places).findings:
            if not finding.rule or not finding.reason:
                raise AssertionError(f"a finding without words: {finding}")

    return one


def redactor() -> Callable[[str], None]:
    from hermes.safety.secrets.redactor import RedactingStream, Redactor

    letters = base64.b64encode(bytes(range(7, 250, 3))).decode()
    values = {f"SECRET_{at}": letters[at : at + 20 + at] for at in range(4)}
    held = Redactor(values)

    def one(text: str) -> None:
        stream = RedactingStream(held)
        pieces = "".join(stream.feed(text[at : at + 997]) for at in range(0, len(text), 997)) + stream.close()
        for shown in (held.redact(text), pieces):
            if any(value in shown for value in values.values()):
                raise AssertionError("a held secret came through")

    return one


TARGETS = {"analyser": analyser, "redactor": redactor}


def timed(target: str, text: str) -> float:
    """Seconds of processor time for one text, without the stream: the best of three."""
    if target == "analyser":
        judge = analyser()
    else:
        from hermes.safety.secrets.redactor import Redactor

        judge = Redactor({"SECRET": base64.b64encode(bytes(range(7, 60))).decode()}).redact
    best = 9.0
    for _ in range(3):
        began = time.thread_time()
        judge(text)
        best = min(best, time.thread_time() - began)
    return best


def fuzz(target: str, folder: Path, seconds: int) -> None:
    """Fuzz in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["hermes.safety"]):
        judge = TARGETS[target]()
    slow = folder / "slow"
    slow.mkdir()
    kept: list[float] = []

    def once(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        if data and crc32(data) % FILLED == 0:
            text = (text * (LONGEST // len(data)))[:LONGEST]
        began = time.thread_time()
        judge(text)
        spent = time.thread_time() - began
        if spent > SUSPECT and (len(kept) < KEPT or spent > max(kept)):
            kept.append(spent)
            (slow / f"{len(kept):04}.json").write_text(json.dumps(text), "utf-8")

    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(folder / "seeds")], once)
    atheris.Fuzz()


def seeds(folder: Path) -> None:
    """Commands of the corpora, each by itself, and many together as long texts."""
    folder.mkdir()
    rows = [
        json.loads(line)["cmd"] for file in sorted(CORPORA.rglob("*.jsonl")) for line in file.read_text().splitlines()
    ]
    for at, text in enumerate(rows):
        (folder / f"{at:05}").write_text(text, "utf-8")
    for at in range(0, len(rows), 100):
        (folder / f"long{at}").write_text("\n".join(rows[at : at + 100]), "utf-8")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the analyser or the redactor.")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    seconds = int(asked.minutes * 60)
    if asked.folder:
        fuzz(asked.target, asked.folder, seconds)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds(folder / "seeds")
        again = [
            sys.executable,
            "-m",
            "tests.torture.fuzz",
            asked.target,
            "--minutes",
            str(asked.minutes),
            "--folder",
            name,
        ]
        ended = subprocess.run(again, capture_output=True, text=True, timeout=seconds + 300, check=False)
        lines = ended.stderr.splitlines()
        say("\n".join(line for line in lines[-3:] if line))
        if ended.returncode:
            found = [file.read_bytes() for file in folder.glob("*-*") if file.is_file()]
            say("\n".join([ended.stdout[-3000:], *lines[-30:], *map(repr, found)]))
            return 1
        texts = [json.loads(file.read_text("utf-8")) for file in (folder / "slow").iterdir()]
        worst = sorted(((timed(asked.target, text), text) for text in texts), key=lambda pair: -pair[0])
        over = [(spent, text) for spent, text in worst if spent > LIMIT]
        slowest = 1e3 * (worst[0][0] if worst else 0)
        say(f"{len(texts)} inputs timed again, the slowest {slowest:.1f} ms, {len(over)} over")
        for spent, text in over[:5]:
            say(f"{1e3 * spent:.1f} ms, {len(text)} characters: {text[:400]!r}")
        return bool(over)


if __name__ == "__main__":
    sys.exit(main())
