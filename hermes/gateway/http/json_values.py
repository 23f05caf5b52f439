"""Values out of what platforms send, whatever it is."""

import json
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from hermes.core.chats import Arrival
from hermes.util.text import clean_surrogates

Kind = TypeVar("Kind")


def read(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """The value in a piece of JSON; broken characters in it become U+FFFD. Raises `msgspec.DecodeError` only."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(_mended(bytes(raw)), type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error


class Seen:
    """What is on disk of the last events: what comes twice, live and from a history, is given once."""

    def __init__(self, limit: int = 2_000) -> None:
        self._limit = limit
        self._ids: dict[str, None] = {}

    def has(self, event_id: str, beside: Sequence[Arrival]) -> bool:
        """Whether an event is on disk, or among those that go there together with it."""
        return event_id in self._ids or any(one.event_id == event_id for one in beside)

    def add(self, arrivals: Sequence[Arrival]) -> None:
        """These are on disk now."""
        for one in arrivals:
            self._ids[one.event_id] = None
        while len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]


def _mended(raw: bytes) -> bytes:
    """The same with whole characters: half of a pair is no JSON to msgspec."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error
    return clean_surrogates(json.dumps(value, ensure_ascii=False)).encode()


_DEEP = "it is nested too deeply"
