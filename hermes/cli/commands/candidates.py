"""`hermes __complete KIND [BEGUN]`: names for a shell, one a line, what is to be said about each behind a tab."""

import sys

from hermes.admin.completion_names import list_candidates
from hermes.config.environment import process_environment
from hermes.util.text import escaped, one_line


def run(arguments: list[str]) -> int:
    """Print the names; whatever is wrong, there are just none."""
    kind, begun = (*arguments, "", "")[:2]
    lines = [
        f"{name}\t{escaped(one_line(about, 60))}" for name, about in list_candidates(process_environment(), kind, begun)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
