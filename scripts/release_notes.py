#!/usr/bin/env python3
"""Print what CHANGELOG.md says of one version, for a release page. Standard library only.

    python scripts/release_notes.py 0.1.0 [--base https://example.org/blob/v0.1.0]
    python scripts/release_notes.py Unreleased

With `--base`, links to files of the repository become addresses below it, so that they work on another page.
"""

import argparse
import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"
_HEADING = re.compile(r"^## +\[?v?(?P<name>[^\s\],]+)(?P<rest>.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\((?![a-z][a-z0-9+.-]*:|#)(?P<place>[^)]+)\)")


def find_section(changelog: str, version: str) -> str:
    """Return the text below a version's heading; where it was built in steps, all of them with their headings.

    Raises LookupError, which names the versions that there are.
    """
    headings = list(_HEADING.finditer(changelog))
    ends = [one.start() for one in headings[1:]] + [len(changelog)]
    wanted = version.lower().removeprefix("v")
    found = [(one, end) for one, end in zip(headings, ends, strict=True) if one["name"].lower() == wanted]
    if not found:
        known = ", ".join(dict.fromkeys(one["name"] for one in headings))
        raise LookupError(f"CHANGELOG.md has no section {version!r}. It has: {known}")
    if len(found) == 1:
        return changelog[found[0][0].end() : found[0][1]].strip()
    return "\n\n".join(changelog[one.start() : end].strip() for one, end in found)


def main() -> int:
    """Print the section; exit code 1 where there is none, or nothing in it."""
    parser = argparse.ArgumentParser(description="Print what CHANGELOG.md says of one version.")
    parser.add_argument("version", help="such as 0.1.0, or Unreleased")
    parser.add_argument("--base", default="", help="what relative links are put below")
    args = parser.parse_args()
    try:
        text = find_section(CHANGELOG.read_text("utf-8"), args.version)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    if not text:
        print(f"The section {args.version!r} is empty.", file=sys.stderr)
        return 1
    if args.base:
        text = _LINK.sub(lambda link: f"]({args.base.rstrip('/')}/{link['place']})", text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
