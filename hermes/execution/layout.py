"""How commands see the folders of this machine: the one description that the sandbox is made of, and that the file
tools are judged by.
"""

import os.path
from enum import IntEnum

import msgspec
from msgspec import Struct


class PathAccess(IntEnum):
    """How a path appears in the sandbox."""

    HIDDEN = 0
    READ = 1
    WRITE = 2
    PRIVATE = 3


class SettingsCopy(Struct, frozen=True):
    """A cleaned copy of a settings file, shown in its place; where nothing can be, `variable` leads programs to it."""

    path: str
    copy: str
    variable: str = ""


class AccessLayout(Struct, frozen=True, kw_only=True):
    """Paths (absolute, resolved, existing) with the access to them and all below them; the deepest that fits counts.

    What none of them covers can be read. `pinned` are folders that cannot be moved away: something in them is fixed.
    """

    access_by_path: dict[str, PathAccess]
    pinned: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    """The code that runs outside of the sandbox, where that lies in what is writable."""
    links: tuple[tuple[str, str], ...] = ()
    """Names in hidden folders by which programs know what can be read, with where they lead."""
    copies: tuple[SettingsCopy, ...] = ()
    covered: tuple[str, ...] = ()
    """Hidden paths in private folders: not there where a private folder is made, to be hidden where none can be."""

    def access_of(self, path: str) -> PathAccess:
        """Return how a path (absolute, resolved) appears."""
        while path not in self.access_by_path and path not in ("/", "//", ""):  # each has no folder but itself
            path = os.path.dirname(path)
        return self.access_by_path.get(path, PathAccess.READ)

    def keep_files(self) -> "AccessLayout":
        """Return the layout in which nothing but private folders can be written."""
        kept = {PathAccess.WRITE: PathAccess.READ}
        access_by_path = {path: kept.get(access, access) for path, access in self.access_by_path.items()}
        return msgspec.structs.replace(self, access_by_path=access_by_path, pinned=())

    def hide_covered(self) -> "AccessLayout":
        """Return the layout for a sandbox that makes no private folders: what one would cover is hidden."""
        covered = dict.fromkeys(self.covered, PathAccess.HIDDEN)
        return msgspec.structs.replace(self, access_by_path={**covered, **self.access_by_path})

    def paths_with(self, access: PathAccess) -> list[str]:
        """Return the paths with that access, parents first."""
        return sorted(path for path, one in self.access_by_path.items() if one is access)
