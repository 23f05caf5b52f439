"""The part of the store that serves chats, in the same database."""

from hermes.store.api_sessions import ApiAccess
from hermes.store.arrivals import InboundEventAccess
from hermes.store.deliveries import OutboxAccess
from hermes.store.people import PeopleAccess


class ChatStore(InboundEventAccess, OutboxAccess, PeopleAccess, ApiAccess):
    """Store operations for chats: inbound events, outbox, people, API. It is closed with the store."""
