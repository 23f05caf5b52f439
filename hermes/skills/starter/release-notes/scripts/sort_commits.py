"""Group the commits of a range for release notes: python3 sort_commits.py v1.0.0..HEAD."""

import re
import subprocess
import sys

PREFIX = re.compile(r"^(?P<kind>[a-z]+)(\((?P<scope>[^)]*)\))?(?P<breaking>!)?: *(?P<text>.*)")
KINDS = {"feat": "New", "fix": "Fixed", "perf": "Faster", "docs": "Documentation", "revert": "Taken back"}
WORDS = {"add": "New", "fix": "Fixed", "repair": "Fixed", "remove": "Gone", "drop": "Gone", "deprecate": "Gone"}
BREAKING, REST = "You must do something", "Inside, or not sorted"
ORDER = (BREAKING, "New", "Fixed", "Faster", "Gone", "Taken back", "Documentation", REST)


def entry(commit: str, subject: str, body: str) -> tuple[str, str]:
    """The group that a commit belongs to, and its line."""
    found = PREFIX.match(subject)
    numbers = sorted(set(re.findall(r"#\d+", f"{subject} {body}")))
    source = f"({', '.join([commit, *numbers])})"
    if found is None:
        return WORDS.get(subject.split(" ", 1)[0].lower(), REST), f"- {subject}  {source}"
    breaking = found["breaking"] or "BREAKING CHANGE" in body
    scope = f"[{found['scope']}] " if found["scope"] else ""
    return BREAKING if breaking else KINDS.get(found["kind"], REST), f"- {scope}{found['text']}  {source}"


def main(commits: str) -> None:
    """Write the draft."""
    asked = ["git", "log", "--no-merges", "--reverse", "-z", "--format=%h%x1f%s%x1f%b", "--end-of-options", commits]
    raw = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    groups: dict[str, list[str]] = {}
    for one in filter(None, raw.split("\0")):
        commit, subject, body = one.split("\x1f")
        group, line = entry(commit, subject, body)
        groups.setdefault(group, []).append(line)
    for group in ORDER:
        if group in groups:
            sys.stdout.write("\n".join([f"### {group}", *groups[group], "", ""]))


if __name__ == "__main__":
    main(sys.argv[1])
