"""Values decoded from what platforms send, even where it is malformed."""

import json
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from hermes.core.chats import InboundEvent
from hermes.util.text import clean_surrogates

Kind = TypeVar("Kind")


def decode_json(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """Decode JSON into a value of this type; broken characters become U+FFFD. Raises only `msgspec.DecodeError`."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(_repair_surrogates(bytes(raw)), type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error


class SeenEvents:
    """The ids of the newest stored events: one that comes twice, live and from a history, is given once."""

    def __init__(self, limit: int = 2_000) -> None:
        self._limit = limit
        self._ids: dict[str, None] = {}

    def has_event(self, event_id: str, pending: Sequence[InboundEvent]) -> bool:
        """Return whether an event is on disk, or among those that are stored together with it."""
        return event_id in self._ids or any(one.event_id == event_id for one in pending)

    def add_events(self, events: Sequence[InboundEvent]) -> None:
        """Note that these events are on disk now."""
        for one in events:
            self._ids[one.event_id] = None
        while len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]


def _repair_surrogates(raw: bytes) -> bytes:
    """Replace half surrogate pairs, which msgspec rejects as JSON."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error
    return clean_surrogates(json.dumps(value, ensure_ascii=False)).encode()


_DEEP = "it is nested too deeply"
