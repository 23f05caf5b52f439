"""The untrusted sources whose text a plug-in was ever given: what it says later may be made of it, in any session."""

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hermes.core.encoding import to_json
from hermes.util.atomic_write import write_atomic

_MAX_SOURCES = 64
_MAX_BYTES = 1 << 20
_MANY = "other:many sources"


class GivenSources:
    """The sources of one plug-in, in a file beside its data that it cannot reach."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._sources: dict[str, None] | None = None

    def list_all(self) -> tuple[str, ...]:
        """Return the sources, in the order in which they came."""
        return tuple(self._load())

    async def add(self, sources: Iterable[str]) -> None:
        """Keep these, too. A file that cannot be written is kept in memory alone."""
        known = self._load()
        new = [one for one in sources if one not in known]
        if not new:
            return
        known |= dict.fromkeys(new if len(known) + len(new) <= _MAX_SOURCES else [_MANY])
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(write_atomic, self._file, to_json(list(known)), mode=0o600)

    def _load(self) -> dict[str, None]:
        if self._sources is None:
            found: list[str] = []
            try:
                found = msgspec.json.decode(self._file.read_bytes()[:_MAX_BYTES], type=list[str])
            except FileNotFoundError:
                pass
            except (OSError, msgspec.MsgspecError):
                found = [_MANY]
            self._sources = dict.fromkeys(found)
        return self._sources
