"""The chat in which a restarted gateway says that it is back, kept in a file over the restart."""

import contextlib
from pathlib import Path

import msgspec

from hermes.config.home import HermesHome
from hermes.core.chats import Place
from hermes.core.encoding import to_json
from hermes.util.atomic_write import write_atomic


def write_return_place(home: HermesHome, place: Place) -> None:
    """Keep a place for the next start; where it cannot be kept, nobody is told."""
    with contextlib.suppress(OSError):
        write_atomic(_return_file(home), to_json(place), mode=0o600)


def take_return_place(home: HermesHome) -> Place | None:
    """Return the place that was kept, once; None where there is none."""
    file = _return_file(home)
    try:
        place = msgspec.json.decode(file.read_bytes(), type=Place)
        file.unlink()
    except (OSError, msgspec.MsgspecError):
        return None
    return place


def _return_file(home: HermesHome) -> Path:
    return home.locks / "gateway.restart"
