"""Which files may leave this machine by a chat."""

import os
from collections.abc import Callable, Mapping

from msgspec import structs

from hermes.app.health import places_of
from hermes.config.home import Home
from hermes.safety.paths import guarded_files, read_refused
from hermes.util.say import phrase


def leaving(environ: Mapping[str, str], home: Home, folder: str, own: tuple[str, ...] = ()) -> Callable[[str], str]:
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
