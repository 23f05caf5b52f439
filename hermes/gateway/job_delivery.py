"""Carries what jobs say to chats: it becomes owed, like every other message."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.core.chats import MediaKind, Outgoing, Owed, Place
from hermes.core.errors import NotFoundError
from hermes.gateway.accounts import Account
from hermes.gateway.answer_text import pieces
from hermes.gateway.outbox import Outbox
from hermes.gateway.send import places
from hermes.gateway.text.links import harmless
from hermes.i18n.messages import phrase
from hermes.sessions.app import App


class GatewayCourier:
    """The `Courier` of jobs."""

    def __init__(self, accounts: Mapping[str, Account], outbox: Outbox, app: App) -> None:
        self._accounts = accounts
        self._outbox = outbox
        self._store = app.premises.store

    def reaches(self, target: str) -> bool:
        """Whether the account of this target is set up."""
        return bool(self._places(target))

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Owe it; the same key again owes nothing more."""
        found = self._places(target)
        if not found:
            raise NotFoundError(phrase("Nobody can be reached by {target}.", target=target))
        if session_id and await self._store.strangers([session_id]):
            text = harmless(text)
        for place in found:
            can = self._accounts[place.platform].can
            own = f"{key}:{place.lane}"
            owed = [
                Owed(key=f"{own}:{number}", message=Outgoing(place=place, text=piece, key=f"{own}:{number}"))
                for number, piece in enumerate(pieces(text, can))
            ]
            for number, file in enumerate(files if can.media else ()):
                name = f"{own}:file:{number}"
                message = Outgoing(place=place, file=str(file), kind=MediaKind.DOCUMENT, key=name)
                owed.append(Owed(key=name, message=message))
            await self._outbox.owe(owed)

    def _places(self, target: str) -> list[Place]:
        """Where a target is; empty for one that nobody reaches."""
        return places(target, {name: one.plan for name, one in self._accounts.items()})
