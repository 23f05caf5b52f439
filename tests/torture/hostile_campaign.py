"""400 hostile files through the readers of documents and pictures: none ends the program, each outcome has a name, no
reader holds more than 150 MB.
"""

import argparse
import os
import sys
import time
from collections import Counter

from hermes.core.errors import ToolError
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.media.recognition import HEAD_BYTES, recognize_file
from hermes.media.worker_process import MEMORY_LIMIT, WorkerRun
from tests.media.hostile_files import HostileFile, list_broken_files, list_hostile_files

NAMES = {
    "it is encrypted": "encrypted",
    "it unpacks to more than": "unpacks to too much",
    "it needs more than": "memory",
    "reading it took more than": "time",
    "it is damaged": "damaged",
    "it is an old": "old form",
    "it is of a kind": "nothing reads it",
    "its text is larger": "too much text",
}


def read_hostile(one: HostileFile) -> tuple[str, int]:
    """Read a file as `read_file` does; return how that ended, and the most memory in bytes that its reader held."""
    file = create_memory_file("hostile", one.data)
    kind = recognize_file(one.data[:HEAD_BYTES], one.name)
    if not kind:
        os.close(file)
        return "plain text or binary", 0
    request: dict[str, object] = {"want": "text", "kind": kind, "lines": 500, "characters": 90_000}
    if kind == "picture":
        request = {"want": "clean picture", "pixels": 2_000, "bytes": 5 << 20}
    run = WorkerRun(file, request)
    try:
        run.read()
    except ToolError as error:
        return error.message, run.most_memory
    finally:
        os.close(file)
    return "read", run.most_memory


def main() -> int:
    """Read all files, print how that ended; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    written = list_hostile_files()
    files = [*written, *list_broken_files(max(args.count - len(written), 0), args.seed)]
    ends: Counter[str] = Counter()
    unnamed: list[str] = []
    wrong: list[str] = []
    most, slowest = (0, ""), (0.0, "")
    for one in files:
        began = time.monotonic()
        said, memory = read_hostile(one)
        took = time.monotonic() - began
        most, slowest = max(most, (memory, one.name)), max(slowest, (took, one.name))
        name = next((name for start, name in NAMES.items() if said.startswith(start)), said)
        is_named = name in ("read", "plain text or binary", *NAMES.values()) and "its reader ended" not in said
        ends[name] += 1
        if args.verbose:
            print(f"{one.name:24} {took:6.2f} s {memory >> 20:4} MB  {said[:120]}")
        if not is_named:
            unnamed.append(f"{one.name}: {said}")
        if said == "read" and not one.is_read:
            wrong.append(one.name)
    print(f"{len(files)} files, {len(written)} of them written by hand")
    print(*(f"  {count:4} {name}" for name, count in ends.most_common()), sep="\n")
    print(f"most memory of a reader: {most[0] / 2**20:.0f} MB ({most[1]}); longest: {slowest[0]:.1f} s ({slowest[1]})")
    print(*(f"without a name: {one}" for one in unnamed), sep="\n")
    print(*(f"read although it should be refused: {one}" for one in wrong), sep="\n")
    return 1 if unnamed or wrong or most[0] > MEMORY_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
