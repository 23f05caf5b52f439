"""XML of others as a stream of events. Whatever declares an entity, or a document type of its own, is refused."""

import io
from collections.abc import Callable, Container, Iterator
from typing import Protocol
from xml.parsers import expat

from hermes.media.reader.failures import DAMAGED, UnreadableError

START, END, TEXT = 1, 2, 3
Event = tuple[int, str, dict[str, str]]
"""What happened, the name without its namespace or the text, and the attributes without theirs."""
RELATION_ID = "r:id"
"""The one attribute that keeps its namespace: elements have an `id` of their own beside it."""
_CHUNK = 1 << 16
_MAX_DEPTH = 400
_NO_ATTRIBUTES: dict[str, str] = {}


class ByteSource(Protocol):
    """Something that bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; empty at the end."""
        ...


class _EventCollector:
    """Takes what the parser reports, without namespaces."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._depth = 0
        self._names: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnreadableError(DAMAGED, f"its XML is nested more than {_MAX_DEPTH} deep")
        found = {self._shorten_key(key): value for key, value in attributes.items()} if attributes else _NO_ATTRIBUTES
        self.events.append((START, self._shorten(name), found))

    def end(self, name: str) -> None:
        self._depth -= 1
        self.events.append((END, self._shorten(name), _NO_ATTRIBUTES))

    def text(self, data: str) -> None:
        self.events.append((TEXT, data, _NO_ATTRIBUTES))

    def _shorten_key(self, key: str) -> str:
        return RELATION_ID if key.endswith("/relationships}id") else self._shorten(key)

    def _shorten(self, name: str) -> str:
        short = self._names.get(name)
        if short is None:
            short = name.rpartition("}")[2]
            if len(self._names) < 10_000:
                self._names[name] = short
        return short


def _refuse_declaration(*_: object) -> None:
    raise UnreadableError(DAMAGED, "its XML declares a document type or entities, which no such document needs")


class EventStream:
    """The events of a document, read as they are asked for."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._depth = 0
        """How many elements are open behind the last event."""

    def __iter__(self) -> Iterator[Event]:
        """Return the stream itself."""
        return self

    def __next__(self) -> Event:
        """Return the next event."""
        event = next(self._events)
        if event[0] == START:
            self._depth += 1
        elif event[0] == END:
            self._depth -= 1
        return event

    def walk(self, skipped: Container[str] = ()) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield name and attributes of every element within the one whose start came last, at any depth, or of the
        whole document. Who gets one may read it to its end. What is within `skipped` is passed over.
        """
        return ((name, attributes) for kind, name, attributes in self.walk_events(skipped) if kind == START)

    def walk_events(self, skipped: Container[str] = ()) -> Iterator[Event]:
        """Yield starts and texts as `walk` does."""
        outside = self._depth
        for event in self:
            if event[0] == END:
                if self._depth < outside:
                    return
            elif event[0] == START and event[1] in skipped:
                self.skip()
            else:
                yield event

    def skip(self) -> None:
        """Go on behind the end of the element whose start came last."""
        outside = self._depth
        for kind, _, _ in self:
            if kind == END and self._depth < outside:
                return

    def read_text(self) -> str:
        """Return all text up to the end of the element whose start came last."""
        return "".join(value for kind, value, _ in self.walk_events() if kind == TEXT)


def read_events(source: ByteSource) -> EventStream:
    """Return the events of an XML document; text may come in pieces. What reads it raises UnreadableError."""
    return EventStream(_parse_chunks(source))


def read_whole(data: bytes) -> EventStream:
    """Return the events of a document that is in memory; none of an empty one."""
    return read_events(io.BytesIO(data)) if data.strip() else EventStream(iter(()))


def _parse_chunks(source: ByteSource) -> Iterator[Event]:
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    collector = _EventCollector()
    parser.StartElementHandler, parser.EndElementHandler = collector.start, collector.end
    parser.CharacterDataHandler = collector.text
    refusal: Callable[..., None] = _refuse_declaration
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = refusal
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    while True:
        chunk = source.read(_CHUNK)
        try:
            parser.Parse(chunk, not chunk)
        except (expat.ExpatError, ValueError, LookupError) as error:
            yield from collector.events
            raise UnreadableError(DAMAGED, f"its XML is broken: {error}") from None
        yield from collector.events
        collector.events.clear()
        if not chunk:
            return
