"""The folders that rules speak of."""

import os.path

from msgspec import Struct


class Places(Struct, frozen=True, kw_only=True):
    """The folders that rules speak of, all absolute and resolved.

    `hermes` is the Hermes home; `own` are folders inside protected ones that tools may use (results spilled to files).
    `foreign`: the session is somebody's who is not the owner, so the owner's memories are shut. `confined`: nothing of
    this machine outside of the workspace is theirs to see.
    """

    home: str
    hermes: str
    workspace: str
    own: tuple[str, ...] = ()
    foreign: bool = False
    confined: bool = False

    def expand(self, path: str, cwd: str) -> str:
        """An absolute path: `~` is the person's home, relative means below `cwd`. `..` is left standing."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.join(cwd, path)
