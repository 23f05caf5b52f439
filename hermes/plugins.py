"""The loader of extensions: built-ins from a folder, plug-ins from entry points.

Built-ins are found by scanning a folder's file names, so listing them imports nothing; a name's module is imported when
it is used. Plug-ins register under the entry point group `hermes.<kind>`; those are read only when a name is not built
in, since reading the installed packages' metadata costs tens of milliseconds.
"""

import importlib
import os
import types
from collections.abc import Iterable

from hermes.i18n.messages import N_


def list_builtin_names(package: types.ModuleType) -> tuple[str, ...]:
    """Return the names of the modules and packages in a folder of built-ins, sorted; names that begin with `_` are left
    out.
    """
    found = set()
    for folder in package.__path__:
        for entry in os.scandir(folder):
            stem, suffix = os.path.splitext(entry.name)
            if not stem.startswith(("_", ".")) and (suffix == ".py" or (entry.is_dir() and not suffix)):
                found.add(stem)
    return tuple(sorted(found))


def load_builtin(package: types.ModuleType, name: str) -> types.ModuleType:
    """Import one built-in by its file name."""
    return importlib.import_module(f"{package.__name__}.{name}")


def load_entry_point(kind: str, name: str) -> object | None:
    """Return the object that an installed distribution offers as `name` under the entry point group
    `hermes.<kind>`, or None.
    """
    from importlib.metadata import entry_points

    for entry in entry_points(group=f"hermes.{kind}", name=name):
        loaded: object = entry.load()
        return loaded
    return None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a short `did you mean` sentence for a mistyped name; empty when no name is near. Of equally near
    names the first is taken.
    """
    from hermes.util.nearest_names import list_nearest

    near = list_nearest(name, known)
    return N_("Did you mean {names}?", names=repr(near[0])) if near else ""
