"""What may go out with an answer that other people's programs show: files, and addresses that are fetched unasked."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.config.home import Home
from hermes.i18n.messages import phrase
from hermes.safety.paths import guarded_files, read_refused
from hermes.sessions.backend_factory import places_of
from hermes.tools.permissions.evaluate import known_host
from hermes.tools.toolsets import EVERYTHING, TOOLSETS, resolve

if TYPE_CHECKING:
    from hermes.sessions.services import Premises
    from hermes.sessions.session_builder import Live


_READING = frozenset({"read_file", "terminal", "execute_code"})


class Leaving(Struct, frozen=True):
    """What one session may let out by its answers."""

    roots: tuple[str, ...]
    """Folders in which files lie that may be sent: the workspace, and what was received and made here."""
    refused: Callable[[str], str]
    """Why a file may not be sent, in English; empty when it may."""
    home: str
    tainted: bool
    """Whether strangers' words stand in the conversation: then an address or a file may carry out what was read."""
    allowed: Callable[[str], bool]
    """Whether a host may be reached all the same."""


def leaving(premises: "Premises", live: "Live") -> Leaving:
    """What this session may let out now."""
    context = live.tools.context
    places, hosts = context.places, premises.settings.security.allowed_hosts

    # What was received lies in one folder for the owner, and in each other person's own.
    received = () if places.foreign else (str(premises.home.root / "media"),)
    roots = (*((places.workspace,) if _reads(premises, live) else ()), *received, *places.own)
    return Leaving(
        roots=roots,
        refused=refusing(premises.environ, premises.home, places.workspace, roots),
        home=places.home,
        tainted=bool(context.state.taint.sources()),
        allowed=lambda host: known_host(host, context, hosts),
    )


def _reads(premises: "Premises", live: "Live") -> bool:
    """Whether a session's person may have the files of its folder: it is theirs, or they have tools that read it."""
    limit = live.options.toolset_limit
    if limit is None or live.tools.context.places.workspace.startswith(f"{premises.home.people}/"):
        return True
    return any(_READING.intersection(resolve(one)) for one in limit if one in TOOLSETS or one in EVERYTHING)


def leaving_unseen(premises: "Premises", cwd: str) -> Leaving:
    """What a session may let out that lives in another process: as if strangers' words stood in it."""
    root, settings = premises.home.root, premises.settings
    roots = (cwd, str(root / "media"))
    return Leaving(
        roots=roots,
        refused=refusing(premises.environ, premises.home, cwd, roots),
        home=premises.environ.get("HOME", ""),
        tainted=True,
        allowed=lambda host: host in settings.security.allowed_hosts,
    )


def refusing(environ: Mapping[str, str], home: Home, folder: str, own: tuple[str, ...] = ()) -> Callable[[str], str]:
    """Tells why a file (an absolute, resolved path) may not be sent to a chat, in English; empty when it may.

    Refused are keys, Hermes' own settings and state, devices, what belongs to the system, and other names (hard links)
    of files that hold keys. `folder` is where the session works; `own` are folders of the home whose files may be sent.
    """
    places = structs.replace(places_of(environ, home, folder), own=tuple(map(os.path.realpath, own)))

    def refused(path: str) -> str:
        if reason := read_refused(path, places):
            return reason
        if path.startswith(("/etc/", "/proc/", "/sys/", "/dev/", "/boot/", "/root/.")):
            return phrase("it belongs to the system")
        try:
            found = os.stat(path)
        except OSError:
            return ""
        return phrase("it is another name of a file that holds keys") if found.st_nlink > 1 and guarded(found) else ""

    def guarded(found: os.stat_result) -> bool:
        for one in guarded_files(places):
            try:
                other = os.stat(one)
            except OSError:
                continue
            if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino):
                return True
        return False

    return refused
