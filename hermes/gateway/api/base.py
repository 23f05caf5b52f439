"""What every part of the API server stands on."""

from pathlib import Path

from msgspec import Struct

from hermes.app.wiring import App
from hermes.gateway.api.asking import Reader
from hermes.gateway.api.keys import Keyring, Seats
from hermes.gateway.api.options import ApiOptions
from hermes.gateway.api.rooms import Rooms
from hermes.gateway.api.turns import Turns
from hermes.gateway.front import Front


class Base(Struct, frozen=True, kw_only=True):
    """Made once, when the account is opened."""

    options: ApiOptions
    front: Front
    keys: Keyring
    seats: Seats
    reader: Reader
    rooms: Rooms
    turns: Turns
    media: Path
    """Where files are put that come in."""
    began_at: float

    @property
    def app(self) -> App:
        """The process's Hermes."""
        return self.front.app

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.app.premises.clock.now()
