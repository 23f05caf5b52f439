"""Carries what jobs say to chats: it becomes owed, like every other message."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.core.chats import ChatKind, MediaKind, Outgoing, Owed, Place
from hermes.core.errors import NotFoundError
from hermes.gateway.accounts import Account
from hermes.gateway.outbox import Outbox
from hermes.gateway.wording import pieces
from hermes.util.say import phrase

_ALL = "all"


class GatewayCourier:
    """The `Courier` of jobs."""

    def __init__(self, accounts: Mapping[str, Account], outbox: Outbox) -> None:
        self._accounts = accounts
        self._outbox = outbox

    def reaches(self, target: str) -> bool:
        """Whether the account of this target is set up."""
        return bool(self._places(target))

    async def deliver(self, target: str, text: str, files: Sequence[Path], *, key: str) -> None:
        """Owe it; the same key again owes nothing more."""
        places = self._places(target)
        if not places:
            raise NotFoundError(phrase("Nobody can be reached by {target}.", target=target))
        for place in places:
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
        """Where a target is; empty for one that nobody reaches. `all`: the home chats of all accounts."""
        if target == _ALL:
            return [
                self._place(name, one.plan.settings.home)
                for name, one in self._accounts.items()
                if one.plan.settings.home
            ]
        name, _, chat = target.partition(":")
        return [self._place(name, chat)] if name in self._accounts and chat else []

    def _place(self, name: str, chat: str) -> Place:
        """A chat, or a thread in it where the platform has threads."""
        thread = ""
        if self._accounts[name].can.threads and ":" in chat:
            chat, _, thread = chat.rpartition(":")
        return Place(name, chat, thread, kind=ChatKind.GROUP)
