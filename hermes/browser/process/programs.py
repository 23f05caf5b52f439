"""The browsers of a machine: where they lie, and which of them is used."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.i18n.messages import N_

_PLACES = (
    # Debian and Ubuntu, Arch, Fedora, Chrome, Edge. What lies in PATH there is often a script around these.
    ("/usr/lib/chromium/chromium-headless-shell", True),
    ("/usr/lib/chromium/chromium", False),
    ("/usr/lib/chromium/headless_shell", True),
    ("/usr/lib64/chromium-browser/headless_shell", True),
    ("/usr/lib64/chromium-browser/chromium-browser", False),
    ("/usr/lib/chromium-browser/chromium-browser", False),
    ("/opt/google/chrome/chrome", False),
    ("/opt/google/chrome-beta/chrome", False),
    ("/opt/microsoft/msedge/msedge", False),
)
_NAMES = (
    ("chromium-headless-shell", True),
    ("chrome-headless-shell", True),
    ("chromium", False),
    ("chromium-browser", False),
    ("google-chrome", False),
    ("google-chrome-stable", False),
    ("microsoft-edge", False),
)
_SNAP = "/snap/"
INSTALL_HINT = N_("On Debian and Ubuntu: `apt install chromium-headless-shell`, or chromium.")
"""How a browser comes to a machine."""
PROGRAM_HINT = N_("Correct `browser.program`, or leave it empty: then a browser of this machine is looked for.")
BOX_HINT = N_("Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`).")


class BrowserProgram(Struct, frozen=True):
    """A browser of this machine. `is_shell`: it has no window of its own, and starts in a third of the time."""

    path: str
    is_shell: bool = False

    @property
    def folder(self) -> str:
        """The folder with its own files, of which it needs all."""
        return os.path.dirname(os.path.realpath(self.path))


def list_programs(environ: Mapping[str, str], places: Sequence[tuple[str, bool]] = _PLACES) -> list[BrowserProgram]:
    """Return the browsers of this machine, those without a window first. Those of snap are left out: a snap lies in a
    sandbox of its own, and cannot be started in ours.
    """
    found: dict[str, BrowserProgram] = {}
    for path, is_shell in places:
        if os.access(path, os.X_OK):
            found.setdefault(os.path.realpath(path), BrowserProgram(path, is_shell))
    for name, is_shell in _NAMES if not found else ():
        path = shutil.which(name, path=environ.get("PATH", "")) or ""
        if path and not os.path.realpath(path).startswith(_SNAP):
            found.setdefault(os.path.realpath(path), BrowserProgram(path, is_shell))
    return sorted(found.values(), key=lambda one: not one.is_shell)


def choose_program(program: str, environ: Mapping[str, str], *, needs_window: bool = False) -> BrowserProgram | None:
    """Return the browser to start: `program` where the person names one, else the first of this machine; None where
    there is none. With `needs_window` it is one that has windows.
    """
    if program:
        path = os.path.expanduser(program)
        is_shell = "headless" in Path(path).name
        return BrowserProgram(path, is_shell) if os.access(path, os.X_OK) and not (is_shell and needs_window) else None
    return next((one for one in list_programs(environ) if not (needs_window and one.is_shell)), None)
