"""Resolves the patterns of a shell in the names of files, as far as that can be told before a command runs."""

import glob
import os
from collections.abc import Iterator
from itertools import islice

_MAX_MATCHES = 500
"""The most files that a pattern is resolved to; beyond it all of the folder counts."""


def list_matches(pattern: str) -> Iterator[str]:
    """Yield the files that a pattern stands for now; for too many, or in unknown folders, the folder that is known.

    A path that is none is yielded itself, and so is a file whose name looks like a pattern.
    """
    if not glob.has_magic(pattern) or os.path.lexists(pattern):
        yield pattern
    if not glob.has_magic(pattern):
        return
    found = list(islice(glob.iglob(pattern, include_hidden=True), _MAX_MATCHES + 1))
    if len(found) <= _MAX_MATCHES and "{" not in pattern:
        yield from found
        return
    while glob.has_magic(pattern) or "{" in pattern:
        pattern = os.path.dirname(pattern)
    yield pattern
