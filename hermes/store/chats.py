"""What belongs to chats, of the same database."""

from hermes.store.api import ApiAccess
from hermes.store.arrivals import ArrivalAccess
from hermes.store.deliveries import DeliveryAccess
from hermes.store.people import PeopleAccess


class ChatStore(ArrivalAccess, DeliveryAccess, PeopleAccess, ApiAccess):
    """A store's verbs about chats; closed with the store."""
