"""What hooks have cost and how often they failed, kept from one session to the next for `hermes plugins doctor`."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.hooks.dispatcher import HookStatistics

_MAX_BYTES = 256 * 1024
_MAX_ROWS = 200


class HookRecord(Struct, frozen=True, kw_only=True):
    """The calls of a hook in one session, or in all that are kept: `slow_ms` is the slowest 95th percentile."""

    name: str
    calls: int = 0
    failures: int = 0
    slow_ms: float = 0.0
    last_failure: str = ""


def add_records(file: Path, statistics: Mapping[str, HookStatistics]) -> None:
    """Append a line for each hook that was called. A file that cannot be written loses these numbers, nothing else."""
    rows = [
        HookRecord(
            name=name,
            calls=one.calls,
            failures=one.failures,
            slow_ms=round(one.slow_seconds * 1000, 2),
            last_failure=one.last_failure[:200],
        )
        for name, one in statistics.items()
        if one.calls
    ]
    lines = b"".join(to_json(row) + b"\n" for row in rows)
    if not lines:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(file, flags, 0o600)
        try:
            if os.fstat(handle).st_size > _MAX_BYTES:
                os.ftruncate(handle, 0)
            os.write(handle, lines)  # one write, so that lines of two processes never mix
        finally:
            os.close(handle)


def read_records(file: Path) -> list[HookRecord]:
    """Return the hooks that were called lately, by name, with the sums of the newest lines."""
    try:
        lines = file.read_bytes()[-_MAX_BYTES:].splitlines()
    except OSError:
        return []
    found: dict[str, HookRecord] = {}
    for line in lines[-_MAX_ROWS:]:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError):
            row = msgspec.json.decode(line, type=HookRecord)
            known = found.get(row.name, HookRecord(name=row.name))
            found[row.name] = HookRecord(
                name=row.name,
                calls=known.calls + row.calls,
                failures=known.failures + row.failures,
                slow_ms=max(known.slow_ms, row.slow_ms),
                last_failure=row.last_failure or known.last_failure,
            )
    return [found[name] for name in sorted(found)]
