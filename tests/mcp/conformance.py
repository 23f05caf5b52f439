"""Run the official MCP conformance suite against Hermes' client: every client scenario that each revision scores.

    python -m tests.mcp.conformance [--folder /tmp/hermes-mcp] [--revision 2026-07-28]

It needs npm's and PyPI's registries once. `make mcp-conformance` runs it.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.mcp.node_tools import MissingToolError, install_node, install_npm

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
_ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/hermes-mcp"))
    parser.add_argument("--revision", choices=REVISIONS, action="append", default=[])
    args = parser.parse_args()
    try:
        node = install_node(args.folder) / "node"
        suite = install_npm(args.folder, [f"{PACKAGE}@{VERSION}"]) / PACKAGE / "dist" / "index.js"
    except (MissingToolError, OSError, subprocess.TimeoutExpired) as error:
        sys.stdout.write(f"skipped: {error}\n")
        return 0
    results = [run_revision(node, suite, revision, args.folder) for revision in args.revision or REVISIONS]
    return 0 if all(results) else 1


def run_revision(node: Path, suite: Path, revision: str, folder: Path) -> bool:
    """Run what a revision requires, print the table, and return whether every scored scenario passes."""
    client = f"{sys.executable} {_ROOT / 'tests' / 'mcp' / 'conformance_client.py'}"
    done = subprocess.run(
        [str(node), str(suite), "client", "--command", client, "--requirements", revision],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_200,
    )
    (folder / f"conformance-{revision}.txt").write_text(done.stdout + done.stderr)
    said = done.stdout + done.stderr
    unscored = set(re.findall(r"^  [✓✗] (\S+) \(", said, re.MULTILINE))
    rows = _ROW.findall(said)
    scored = [row for row in rows if row[1] not in unscored]
    passed = [row for row in scored if row[0] == "✓"]
    sys.stdout.write(f"{revision} ({PACKAGE} {VERSION})\n")
    for mark, name, right, wrong in rows:
        note = "  (not scored)" if name in unscored else ""
        sys.stdout.write(f"  {mark} {name}: {right} passed, {wrong} failed{note}\n")
    sys.stdout.write(f"  scored scenarios: {len(passed)} of {len(scored)} pass\n")
    return bool(scored) and len(passed) == len(scored) and done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
