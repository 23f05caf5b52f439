"""A package `keyring` for tests: its entries are in a file, and it has the moods of real ones.

Moods: `locked` raises, `full` takes nothing, `forgetful` keeps nothing, `open` is a back end that is not recommended.
"""

import os
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = """
import fcntl, json, os, time
class _Backend:
    @property
    def priority(self):
        return 0.5 if _read_mood() == "open" else 5
def get_keyring():
    return _Backend()
def _read_mood():
    with open(os.environ["FAKE_KEYRING"] + ".mood") as file:
        return file.read()
def _change(change):
    mood = _read_mood()
    if mood == "locked":
        raise RuntimeError("the collection is locked")
    with open(os.environ["FAKE_KEYRING"], "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        entries = json.loads(file.read() or "{}")
        found = change(entries)
        file.seek(0)
        file.truncate()
        file.write(json.dumps(entries))
    return found
def get_password(service, user):
    return _change(lambda entries: entries.get(f"{service}|{user}"))
def set_password(service, user, password):
    if _read_mood() == "full":
        raise OSError("no room is left")
    if _read_mood() != "forgetful":
        _change(lambda entries: entries.update({f"{service}|{user}": password}))
def delete_password(service, user):
    _change(lambda entries: entries.pop(f"{service}|{user}"))
"""


def install_fake_keyring(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Put the package into a folder; return the variables that let programs find it before all others."""
    site = folder / "site" / "keyring"
    site.mkdir(parents=True)
    (site / "__init__.py").write_text(_PACKAGE)
    set_keyring_mood(folder, "")
    path = os.pathsep.join(filter(None, [str(site.parent), environ.get("PYTHONPATH", "")]))
    return {"FAKE_KEYRING": str(folder / "keyring.json"), "PYTHONPATH": path}


def set_keyring_mood(folder: Path, mood: str) -> None:
    """Change the mood of the package in this folder; empty: it works."""
    (folder / "keyring.json.mood").write_text(mood)
