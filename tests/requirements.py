"""The programs that tests need beside Python, and the one place where a test is skipped because one is missing.

A test names what it needs by `@pytest.mark.needs("git", "curl")`; a fixture that finds out later calls `require`. A
test whose program is missing is skipped with the program's name, and `conftest.py` counts these skips at the end.
`.ci/run` installs the programs and sets HERMES_TESTS_COMPLETE: then a missing one is a failure, unless it is optional.
"""

import ctypes
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pytest

COMPLETE = "HERMES_TESTS_COMPLETE"
"""The variable that turns the skip for a missing program into a failure."""
_SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
_REASON = re.compile(r"(?:Skipped: )?(?P<names>[\w, -]+) (?:is|are) not installed")


@dataclass(frozen=True)
class Requirement:
    """Something that is installed with a package of the system: programs, or a library."""

    package: str
    """The name of Debian's package, under which `.ci/run` installs it."""
    programs: tuple[str, ...] = ()
    shared_object: str = ""
    is_optional: bool = False
    """Whether CI may go on without it; its tests are skipped there, and counted."""
    is_linux_only: bool = False

    def is_installed(self) -> bool:
        """Return whether all of its programs are found, and its library can be loaded."""
        return all(map(find_program, self.programs)) and (not self.shared_object or _is_loadable(self.shared_object))

    def is_expected(self) -> bool:
        """Return whether the run is one of CI, which installs this."""
        on_this_system = sys.platform == "linux" or not self.is_linux_only
        return bool(os.environ.get(COMPLETE)) and not self.is_optional and on_this_system


REQUIREMENTS = {
    "bubblewrap": Requirement("bubblewrap", ("bwrap",), is_linux_only=True),
    "chromium-headless-shell": Requirement(
        "chromium-headless-shell", ("chromium-headless-shell",), is_optional=True, is_linux_only=True
    ),
    "curl": Requirement("curl", ("curl",)),
    "espeak-ng": Requirement("espeak-ng", ("espeak-ng",), is_optional=True),
    "ffmpeg": Requirement("ffmpeg", ("ffmpeg", "ffprobe"), is_optional=True),
    "fish": Requirement("fish", ("fish",), is_optional=True),
    "git": Requirement("git", ("git",)),
    "gnome-keyring": Requirement(
        "gnome-keyring", ("gnome-keyring-daemon", "dbus-daemon"), is_optional=True, is_linux_only=True
    ),
    "jq": Requirement("jq", ("jq",), is_optional=True),
    "libgomp": Requirement("libgomp1", shared_object="libgomp.so.1", is_linux_only=True),
    "node": Requirement("nodejs", ("node",), is_optional=True),
    "openssh": Requirement("openssh-server", ("ssh", "ssh-keygen", "sshd"), is_linux_only=True),
    "openssl": Requirement("openssl", ("openssl",)),
    "poppler": Requirement("poppler-utils", ("pdftotext", "pdfinfo"), is_optional=True),
    "procps": Requirement("procps", ("ps",), is_linux_only=True),
    "make": Requirement("make", ("make",)),
    "ripgrep": Requirement("ripgrep", ("rg",)),
    "rsync": Requirement("rsync", ("rsync",), is_optional=True),
    "setpriv": Requirement("util-linux", ("setpriv",), is_linux_only=True),
    "sqlite3": Requirement("sqlite3", ("sqlite3",), is_optional=True),
    "systemd": Requirement("systemd", ("systemctl", "journalctl", "systemd-analyze"), is_optional=True),
    "tmux": Requirement("tmux", ("tmux",), is_optional=True),
    "unshare": Requirement("util-linux", ("unshare", "mount"), is_linux_only=True),
    "zsh": Requirement("zsh", ("zsh",), is_optional=True),
}
"""By the name that `needs` takes and that the reason of a skip says."""


def find_program(name: str) -> str | None:
    """Return the path of a program, also of one that only the administrator's search path has."""
    return shutil.which(name, path=_SEARCH_PATH)


@cache
def _is_loadable(name: str) -> bool:
    if sys.platform != "linux":
        return True
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@cache
def _is_installed(name: str) -> bool:
    return REQUIREMENTS[name].is_installed()


def require(*names: str) -> None:
    """Skip the running test when one of these is missing; fail it where CI has to have it."""
    missing = [name for name in names if not _is_installed(name)]
    if not missing:
        return
    reason = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
    if any(REQUIREMENTS[name].is_expected() for name in missing):
        pytest.fail(f"{reason}, and {COMPLETE} says that nothing is missing", pytrace=False)
    pytest.skip(reason)


def require_program(program: str) -> None:
    """Skip the running test when what this program is part of is missing."""
    require(*(name for name, one in REQUIREMENTS.items() if program in one.programs))


def require_sandbox(mechanism: str, is_usable: bool, reason: str) -> None:
    """Skip the running test when this mechanism of the sandbox is missing or does not work here."""
    if mechanism == "bubblewrap":
        require("bubblewrap")
    if not is_usable:
        pytest.skip(f"{mechanism} does not work here: {reason}")


def require_marked(item: pytest.Item) -> None:
    """Skip a test when something that its marks name is missing."""
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    unknown = sorted(set(names) - REQUIREMENTS.keys())
    if unknown:
        pytest.fail(f"tests/requirements.py does not know {', '.join(unknown)}", pytrace=False)
    require(*sorted(set(names)))


def describe_missing(reasons: Iterable[str]) -> str:
    """Return the line that counts skipped tests by what they need; nothing when none was skipped for that."""
    counts: Counter[str] = Counter()
    for reason in reasons:
        if found := _REASON.fullmatch(reason):
            counts.update(found["names"].split(", "))
    said = [f"{count} {'test needs' if count == 1 else 'tests need'} {name}" for name, count in counts.most_common()]
    return f"not run here: {', '.join(said)}" if said else ""
