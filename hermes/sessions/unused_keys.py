"""Says once which sections of `config.yaml` nothing acts on, as after taking over a home from another agent."""

import contextlib
from collections.abc import Sequence

import msgspec

from hermes.config.home import HermesHome
from hermes.core.encoding import to_json
from hermes.i18n.messages import N_
from hermes.util.atomic_write import write_atomic

_FILE_NAME = "unused_keys.json"


def tell_unused_keys(home: HermesHome, keys: Sequence[str]) -> list[str]:
    """Return one line about those of these keys that were not told yet in this home; empty when all were.

    They are noted in the home's cache. Where that cannot be written, they are told again.
    """
    file = home.cache / _FILE_NAME
    try:
        told = msgspec.json.decode(file.read_bytes(), type=list[str])
    except (OSError, msgspec.MsgspecError):
        told = []
    fresh = [key for key in keys if key not in told]
    if not fresh:
        return []
    with contextlib.suppress(OSError):
        home.cache.mkdir(mode=0o700, exist_ok=True)
        write_atomic(file, to_json([*told, *fresh]), mode=0o600, sync=False)
    named = ", ".join(fresh)
    return [
        N_(
            "config.yaml: this version does not act on {named}. Said once; `hermes config check` says it again.",
            named=named,
        )
    ]
