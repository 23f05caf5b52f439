"""What a person can do with a chat as a place: make it the home chat, hand its session over, get a file, restart the
gateway.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import structs

from hermes.admin.config import change_settings
from hermes.core.chats import Binding, ChatKind, OutboxItem, Outgoing
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.send import list_plan_homes
from hermes.gateway.session_pool import SessionPool
from hermes.i18n.formats import format_bytes
from hermes.i18n.messages import N_, tr
from hermes.sessions.target_book import format_chat, load_target_book
from hermes.util.text import escape_unseen_characters, to_one_line


class DoneHooks(Protocol):
    """A command that is being carried out."""

    when_done: list[Callable[[], None]]


class PlatformChatControls:
    """The controls of one chat."""

    def __init__(self, pool: SessionPool, chat_session: ChatSession, command: DoneHooks) -> None:
        self._pool = pool
        self._chat_session = chat_session
        self._command = command

    @property
    def target(self) -> str:
        """This chat, or thread, as a target."""
        return format_chat(self._chat_session.binding).text

    async def set_home(self) -> str:
        """Make this chat, or thread, the one to which jobs and notices of its account go, at once; return it as a
        target.
        """
        account, services = self._chat_session.account, self._chat_session.app.services
        home = self.target.partition(":")[2]
        changes: dict[tuple[str, ...], object] = {("platforms", account.name, "home"): home}
        await asyncio.to_thread(change_settings, services.home, changes)
        plan, platforms = account.plan, services.settings.platforms
        account.plan = structs.replace(plan, settings=structs.replace(plan.settings, home=home))
        changed = {**platforms, account.name: {**platforms.get(account.name, {}), "home": home}}
        services.settings = structs.replace(services.settings, platforms=changed)
        return self.target

    async def note_background_end(self, session_id: str) -> None:
        """Note that this chat was told of the end of a session in the background."""
        await self._chat_session.app.services.store.chats.end_background(session_id)

    async def send_file(self, file: Path, text: str) -> None:
        """Send a file of Hermes' own to this chat, with a text."""
        place, can = self._chat_session.place, self._chat_session.account.can
        if not can.media:
            raise UsageError(N_("{name} takes no files.", name=place.platform))
        size = (await asyncio.to_thread(file.stat)).st_size
        session_id = self._chat_session.actor.session_id
        if size > can.media_limit:
            raise UsageError(
                N_("{name} takes no files of {size}.", name=place.platform, size=format_bytes(size)),
                N_("In a terminal: hermes sessions share {id}", id=session_id),
            )
        key = f"file:{new_queued_message_id()}"
        message = Outgoing(place=place, text=text, file=str(file), key=key)
        await self._chat_session.enqueue([OutboxItem(key=key, message=message, session_id=session_id)])

    async def hand_off(self, target: str) -> str:
        """Bind another chat of the person to this session, and tell it; return what to say here."""
        other = await self._find_other_chat(target)
        services = self._chat_session.app.services
        row = await services.store.sessions.get(self._chat_session.actor.session_id)
        title = escape_unseen_characters(to_one_line(row.title if row is not None else "", 60))
        await self._pool.rebind(other, self._chat_session.binding.session_id)
        key = f"note:{new_queued_message_id()}"
        name = f"“{title}”" if title else tr("A conversation")
        said = tr(
            "{name} was handed over from {place}: your next message here goes on with it.", name=name, place=self.target
        )
        item = OutboxItem(key=key, message=Outgoing(place=other.place, text=said, key=key))
        await self._pool.deps.outbox.enqueue([item])
        return tr("Your next message in {place} goes on with this session.", place=format_chat(other).text)

    async def _find_other_chat(self, target: str) -> Binding:
        """Return the chat of the same person that a target means. Raises NotFoundError, UsageError."""
        mine, services = self._chat_session.binding, self._chat_session.app.services
        plans = {name: one.plan for name, one in self._pool.accounts.items()}
        named = target.strip()
        if named in plans and not plans[named].settings.home:
            chats = set[str]()  # the account's direct chat: an account alone names no group, where others would read
        else:
            book = await load_target_book(services.store, services.settings.platforms, list_plan_homes(plans))
            chats = {one.text for one in book.find_chats(named)}
        if self.target in chats:
            raise UsageError(N_("That is this chat."))
        for one in await services.store.chats.list_bindings():
            is_own = one.person == mine.person and one.key != mine.key
            is_direct = one.place.platform == named and one.place.kind is ChatKind.DM
            if is_own and (format_chat(one).text in chats if chats else is_direct):
                return one
        raise NotFoundError(N_("You have not written from {place} yet.", place=named[:80]), N_("Write there once."))

    def restart_gateway(self) -> None:
        """Restart the gateway once this command is done."""
        restart = self._pool.restart
        if restart is None:
            raise UsageError(N_("This gateway cannot restart itself."), N_("`hermes gateway restart` does it."))
        self._command.when_done.append(lambda: restart(self._chat_session.place))
