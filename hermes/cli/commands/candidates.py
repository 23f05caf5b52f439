"""`hermes __complete KIND [PREFIX]`: print names for shell completion, one a line, with a description behind a tab."""

import sys

from hermes.admin.completion_names import list_candidates
from hermes.config.environment import copy_environment
from hermes.util.text import escape_unseen_characters, to_one_line


def run(arguments: list[str]) -> int:
    """Print the names. Whatever goes wrong, the list is just empty."""
    kind, prefix = (*arguments, "", "")[:2]
    lines = [
        f"{name}\t{escape_unseen_characters(to_one_line(about, 60))}"
        for name, about in list_candidates(copy_environment(), kind, prefix)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
