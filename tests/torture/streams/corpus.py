"""All streams of the campaign."""

from collections.abc import Iterator

from tests.torture.streams.chat_oddities import list_oddities
from tests.torture.streams.chat_stream import list_scenes
from tests.torture.streams.chat_vendors import VENDORS
from tests.torture.streams.messages_streams import list_messages_streams
from tests.torture.streams.responses_streams import list_responses_streams
from tests.torture.streams.stream_case import StreamCase
from tests.torture.streams.think_streams import list_think_streams


def list_streams() -> Iterator[StreamCase]:
    """Yield every stream, each under a name of its own."""
    for vendor in VENDORS:
        yield from list_scenes(vendor)
    yield from list_oddities()
    yield from list_think_streams()
    yield from list_messages_streams()
    yield from list_responses_streams()
