"""Group the commits of a range for release notes: python3 sort_commits.py v1.0.0..HEAD"""

import re
import subprocess
import sys

PREFIX = re.compile(r"^(?P<kind>[a-z]+)(\((?P<scope>[^)]*)\))?(?P<breaking>!)?: *(?P<text>.*)")
KINDS = {"feat": "New", "fix": "Mended", "perf": "Faster", "docs": "Documentation", "revert": "Taken back"}
WORDS = {"add": "New", "fix": "Mended", "mend": "Mended", "remove": "Gone", "drop": "Gone", "deprecate": "Gone"}


def main():
    asked = ["git", "log", "--no-merges", "--reverse", "-z", "--format=%h%x1f%s%x1f%b", sys.argv[1]]
    raw = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    groups = {}
    for entry in filter(None, raw.split("\0")):
        commit, subject, body = entry.split("\x1f")
        found = PREFIX.match(subject)
        kind = found["kind"] if found else subject.split(" ", 1)[0].lower()
        text = found["text"] if found else subject
        group = (KINDS if found else WORDS).get(kind, "Inside, or not sorted")
        if (found and found["breaking"]) or "BREAKING CHANGE" in body:
            group = "You must do something"
        scope = f"[{found['scope']}] " if found and found["scope"] else ""
        numbers = sorted(set(re.findall(r"#\d+", subject + " " + body)))
        groups.setdefault(group, []).append(f"- {scope}{text}  ({', '.join([commit, *numbers])})")
    order = ["You must do something", "New", "Mended", "Faster", "Gone", "Taken back", "Documentation"]
    for group in [*order, "Inside, or not sorted"]:
        if group in groups:
            print(f"### {group}", *groups[group], "", sep="\n")


main()
