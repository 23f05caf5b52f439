"""The folders that rules speak of."""

import os.path

from msgspec import Struct


class Places(Struct, frozen=True, kw_only=True):
    """The folders that rules speak of, all absolute and resolved.

    `hermes` is the Hermes home; `own` are folders inside protected ones that tools may use (results spilled to files).
    """

    home: str
    hermes: str
    workspace: str
    own: tuple[str, ...] = ()

    def expand(self, path: str, cwd: str) -> str:
        """An absolute path: `~` is the person's home, relative means below `cwd`. `..` is left standing."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return os.path.join(cwd, path)
