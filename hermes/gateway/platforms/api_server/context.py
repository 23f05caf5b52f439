"""What every part of the API server stands on."""

from pathlib import Path

from msgspec import Struct

from hermes.core.chats import Deed
from hermes.gateway.people.quotas import Quotas
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.keys import Caller, Keyring, Seats
from hermes.gateway.platforms.api_server.options import ApiOptions
from hermes.gateway.platforms.api_server.request_body import Reader
from hermes.gateway.platforms.api_server.session_lookup import Rooms
from hermes.gateway.platforms.api_server.turns import Turns
from hermes.gateway.request_sessions import Front
from hermes.sessions.app import App


class Base(Struct, frozen=True, kw_only=True):
    """Made once, when the account is opened."""

    options: ApiOptions
    front: Front
    keys: Keyring
    seats: Seats
    reader: Reader
    rooms: Rooms
    turns: Turns
    quotas: Quotas
    media: Path
    """Where files are put that come in."""
    began_at: float

    @property
    def app(self) -> App:
        """The process's Hermes."""
        return self.front.app

    async def admit(self, caller: Caller) -> None:
        """Raise ApiError where who asks has no turn now: too many under way, too many this hour, no money left."""
        self.seats.check(caller)
        why = await self.quotas.refusal(caller.person, caller.person, 0.0)
        if why is not None:
            said = why or "There is no turn now: what this key may use of an hour, or spend in a day, is used up."
            raise ApiError(429, said, code="insufficient_quota", headers={"Retry-After": "600"})

    async def note(self, caller: Caller, session_id: str) -> None:
        """Write down that somebody said something."""
        deed = Deed(
            platform="api_server", account=caller.name, person=caller.person.id, what="message", detail=session_id
        )
        await self.app.premises.store.chats.note(deed)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.app.premises.clock.now()
