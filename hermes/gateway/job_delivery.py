"""Delivery of jobs' output to chats, through the outbox like every other message."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.core.chats import MediaKind, OutboxItem, Outgoing, Place
from hermes.core.errors import NotFoundError
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.answer_text import split_text
from hermes.gateway.outbox import Outbox
from hermes.gateway.send import find_places
from hermes.gateway.text.links import defuse_links
from hermes.i18n.messages import phrase
from hermes.sessions.app import App


class ChatJobDelivery:
    """The `Courier` of jobs in the gateway."""

    def __init__(self, accounts: Mapping[str, PlatformAccount], outbox: Outbox, app: App) -> None:
        self._accounts = accounts
        self._outbox = outbox
        self._store = app.services.store

    def reaches(self, target: str) -> bool:
        """Return whether the account of this target is configured."""
        return bool(self._find_places(target))

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str, session_id: str = "") -> None:
        """Put it into the outbox; the same key again adds nothing."""
        found = self._find_places(target)
        if not found:
            raise NotFoundError(phrase("Nobody can be reached by {target}.", target=target))
        if session_id and await self._store.strangers([session_id]):
            text = defuse_links(text)
        for place in found:
            can = self._accounts[place.platform].can
            own = f"{key}:{place.lane}"
            items = [
                OutboxItem(key=f"{own}:{number}", message=Outgoing(place=place, text=piece, key=f"{own}:{number}"))
                for number, piece in enumerate(split_text(text, can))
            ]
            for number, file in enumerate(files if can.media else ()):
                name = f"{own}:file:{number}"
                message = Outgoing(place=place, file=str(file), kind=MediaKind.DOCUMENT, key=name)
                items.append(OutboxItem(key=name, message=message))
            await self._outbox.enqueue(items)

    def _find_places(self, target: str) -> list[Place]:
        """Return the places of a target; empty for one that cannot be reached."""
        return find_places(target, {name: one.plan for name, one in self._accounts.items()})
