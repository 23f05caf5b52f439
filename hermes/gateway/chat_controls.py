"""What a person can do with a chat as a place: make it the home chat, hand its session over, get a file, restart the
gateway.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import structs

from hermes.admin.config import change_settings
from hermes.config.speech import VoiceMode
from hermes.core.chats import OutboxItem, Outgoing
from hermes.core.errors import UsageError
from hermes.core.ids import new_queued_message_id
from hermes.gateway.chat_session import ChatSession
from hermes.gateway.handoff import hand_off_session
from hermes.gateway.session_pool import SessionPool
from hermes.i18n.formats import format_bytes
from hermes.i18n.messages import N_
from hermes.sessions.target_book import format_chat


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

    async def store_binding(self) -> None:
        """Store that this chat goes on with its session, so that what comes of the session later is shown here."""
        await self._chat_session.app.services.store.chats.bind(self._chat_session.binding)

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

    async def get_voice_mode(self) -> VoiceMode:
        """Return when this chat's answers are spoken."""
        return await self._chat_session.voice.get_mode()

    async def set_voice_mode(self, mode: VoiceMode) -> None:
        """Choose when they are."""
        if mode is not VoiceMode.NEVER and not self._chat_session.account.can.media:
            raise UsageError(N_("{name} takes no files.", name=self._chat_session.place.platform))
        await self._chat_session.voice.set_mode(mode)

    async def hand_off(self, target: str) -> str:
        """Bind another chat of the person to this session, and tell it; return what to say here."""
        mine = self._chat_session.binding
        return await hand_off_session(self._pool, mine.session_id, target, person=mine.person, origin=self.target)

    def restart_gateway(self) -> None:
        """Restart the gateway once this command is done."""
        restart = self._pool.restart
        if restart is None:
            raise UsageError(N_("This gateway cannot restart itself."), N_("`hermes gateway restart` does it."))
        self._command.when_done.append(lambda: restart(self._chat_session.place))
