"""Prompts of Hermes' own that a person sends by a command: for AGENTS.md, and for a review."""

_INIT = """Write AGENTS.md for this repository: what an agent must know to work here.
Look first: the build files, the tests and how they are run, the folders, the style, CI. Write only what you have seen \
and checked, in at most 80 lines: what the project is, how to build, test and lint (the exact commands), where what \
lies, conventions. If AGENTS.md exists, read it, keep what is true, and improve it by edits; do not replace it."""
_REVIEW = """Review {what}.
Read what surrounds each change before you judge it. Report real faults only: bugs, security, lost data, broken \
callers, missing tests. For each: file and line, what goes wrong and when, how to fix it; the worst first. Say so if \
there are none. Change no file."""
REVIEWED = {
    "uncommitted": "the uncommitted changes (git diff HEAD, and new files from git status)",
    "branch": "what this branch changes since it left {base} (git diff {base}...HEAD)",
    "commit": "the commit {base} (git show {base})",
}
"""What can be reviewed, as the model is told of it."""


def build_init_prompt(wish: str) -> str:
    """Return the prompt for AGENTS.md, with what the person adds."""
    return f"{_INIT}\n\n{wish}".rstrip()


def build_review_prompt(kind: str, base: str) -> str:
    """Return the prompt for a review of one kind of changes; `base` is a branch or commit, empty for the usual one."""
    base = base or ("main" if kind == "branch" else "HEAD")
    return _REVIEW.format(what=REVIEWED[kind].format(base=base))
