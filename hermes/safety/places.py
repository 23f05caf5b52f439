"""The folders on which the safety rules depend."""

import os.path

from msgspec import Struct


class Places(Struct, frozen=True, kw_only=True):
    """The folders on which the safety rules depend, all absolute and resolved.

    `hermes` is the Hermes home; `own` are folders inside protected ones that tools may use (results spilled to files).
    `foreign`: the session belongs to a person who is not the owner, so the owner's memories are closed. `confined`:
    nothing of this machine outside of the workspace may be seen.
    """

    home: str
    hermes: str
    workspace: str
    own: tuple[str, ...] = ()
    foreign: bool = False
    confined: bool = False

    def expand_path(self, path: str, cwd: str) -> str:
        """Return an absolute path: `~` is the person's home, relative means below `cwd`. `..` is left standing."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.join(cwd, path)
