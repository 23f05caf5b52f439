"""Run the official MCP conformance suite against Hermes' client and server: every scenario that each revision scores.

    python -m tests.mcp.conformance [--folder /tmp/hermes-mcp] [--revision 2026-07-28] [--side server]

The server's are answered by fixtures of the tests over the code that serves Hermes' own tools.

It needs npm's and PyPI's registries once. `make mcp-conformance` runs it.
"""

import argparse
import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mcp.node_tools import MissingToolError, install_node, install_npm

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
SIDES = ("client", "server")
REVISIONS = ("2025-11-25", "2026-07-28")
_ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/hermes-mcp"))
    parser.add_argument("--revision", choices=REVISIONS, action="append", default=[])
    parser.add_argument("--side", choices=SIDES, action="append", default=[])
    args = parser.parse_args()
    try:
        node = install_node(args.folder) / "node"
        suite = install_npm(args.folder, [f"{PACKAGE}@{VERSION}"]) / PACKAGE / "dist" / "index.js"
    except (MissingToolError, OSError, subprocess.TimeoutExpired) as error:
        sys.stdout.write(f"skipped: {error}\n")
        return 0
    results = []
    for side in args.side or SIDES:
        for revision in args.revision or REVISIONS:
            with prepare_side(side) as words:
                command = [str(node), str(suite), side, *words, "--requirements", revision]
                results.append(run_revision(command, f"{side}-{revision}", args.folder))
    return 0 if all(results) else 1


@contextlib.contextmanager
def prepare_side(side: str) -> Iterator[Sequence[str]]:
    """Yield the words by which the suite reaches what is under test: a client's command, or a server's address."""
    if side == "client":
        yield "--command", f"{sys.executable} {_ROOT / 'tests' / 'mcp' / 'conformance_client.py'}"
        return
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.mcp_server.conformance_server", port],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        server.stdout.readline()
        yield "--url", f"http://127.0.0.1:{port}/mcp"
    finally:
        server.stdin.close()  # it ends with its standard input
        server.wait(30)


def run_revision(command: Sequence[str], name: str, folder: Path) -> bool:
    """Run what a revision requires of a side, print the table, and return whether every scored scenario passes."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_200,
    )
    (folder / f"conformance-{name}.txt").write_text(done.stdout + done.stderr)
    said = done.stdout + done.stderr
    unscored = set(re.findall(r"^  [✓✗] (\S+) \(", said, re.MULTILINE))
    rows = _ROW.findall(said)
    scored = [row for row in rows if row[1] not in unscored]
    passed = [row for row in scored if row[0] == "✓"]
    sys.stdout.write(f"{name} ({PACKAGE} {VERSION})\n")
    for mark, name, right, wrong in rows:
        note = "  (not scored)" if name in unscored else ""
        sys.stdout.write(f"  {mark} {name}: {right} passed, {wrong} failed{note}\n")
    sys.stdout.write(f"  scored scenarios: {len(passed)} of {len(scored)} pass\n")
    return bool(scored) and len(passed) == len(scored) and done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
