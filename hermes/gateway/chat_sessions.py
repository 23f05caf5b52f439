"""The chat sessions of all chats: found by their keys, opened when a message comes in.

Inbound events as a session's message: text, pictures, files, and content that is not the person's own.
"""

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from hermes.admin.people.identity import PersonIdentity, group_identity, person_options
from hermes.config.display import BusyMode
from hermes.config.home import person_folder_name
from hermes.core.chats import Attachment, Binding, InboundEvent, MediaKind, Place, Posting, Reply, StoredInboundEvent
from hermes.core.errors import BusyError, HermesError
from hermes.core.ids import new_queued_message_id, new_session_id
from hermes.core.parts import ImagePart, TextPart
from hermes.gateway import addressing
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.addressing import ChatAddress
from hermes.gateway.chat_session import ChatSession, ChatSessionDeps
from hermes.gateway.platform import MEDIA_LIMIT, PlatformError
from hermes.gateway.session_pool import SessionPool
from hermes.ipc.remote_session import attach_session
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.options import SessionOptions
from hermes.sessions.pictures import read_picture
from hermes.sessions.port import SessionPort
from hermes.sessions.untrusted_text import program_note, untrusted_part
from hermes.util.text import strip_control_characters, to_one_line

_LOG = logging.getLogger(__name__)


FETCH_SECONDS = 300.0


LONGEST_TEXT = 1_000_000
"""Characters of one message; longer ones are cut, and the agent is told."""


_NAME = re.compile(r"[^\w.\- ]+")


_KINDS = {
    MediaKind.IMAGE: "picture",
    MediaKind.VOICE: "voice message",
    MediaKind.AUDIO: "audio file",
    MediaKind.VIDEO: "video",
    MediaKind.DOCUMENT: "file",
}


async def build_inbound(
    account: PlatformAccount, events: Sequence[InboundEvent], folder: Path, *, cwd: str, shared: bool
) -> InboundMessage:
    """Build one message from consecutive inbound events. The agent is told of attachments that cannot be fetched;
    nothing else is lost.
    """
    words: list[str] = []
    images: list[ImagePart] = []
    quoted: list[TextPart] = []
    for event in events:
        text, title = _truncate_text(event.text), account.plan.descriptor.title
        sender = event.sender.name or event.sender.id
        if event.reply is not None and event.reply.text:
            quoted.append(_quote_reply(event.reply, title))
        if event.forwarded:
            quoted.append(untrusted_part(text, f"{title}: {sender}, forwarded"))
        elif text.strip():
            words.append(f"[{to_one_line(strip_control_characters(sender), 60)}] {text}" if shared else text)
        for number, attachment in enumerate(event.attachments):
            picture, note = await _receive_attachment(
                account, attachment, folder / _safe_file_name(event.event_id), number
            )
            images += [picture] if picture is not None else []
            quoted.append(program_note(note))
    return InboundMessage(text="\n".join(words), images=tuple(images), cwd=cwd, quoted=tuple(quoted))


def _quote_reply(reply: Reply, title: str) -> TextPart:
    """Quote the message that is replied to: the agent's own, or somebody else's."""
    if reply.own:
        return program_note(f'[This answers your message: "{to_one_line(strip_control_characters(reply.text), 300)}"]')
    return untrusted_part(reply.text, f"{title}: {reply.author or 'somebody'}, quoted")


def _truncate_text(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n[{len(text) - LONGEST_TEXT:,} more characters were cut off.]"


async def _receive_attachment(
    account: PlatformAccount, attachment: Attachment, folder: Path, number: int
) -> tuple[ImagePart | None, str]:
    """Fetch an attachment; return the picture for the model where it is one, and a line about it."""
    what, name = _KINDS[attachment.kind], _safe_file_name(attachment.name) or f"{attachment.kind}-{number}"
    if attachment.problem:
        problem = to_one_line(strip_control_characters(attachment.problem), 200)
        return None, f"[A {what} ({name}) came along and cannot be read: {problem}]"
    try:
        path = (
            Path(attachment.path)
            if attachment.path
            else await _fetch_attachment(account, attachment, folder, number, name)
        )
    except (HermesError, OSError, TimeoutError) as error:
        why = to_one_line(strip_control_characters(str(error) or type(error).__name__), 200)
        return None, f"[A {what} ({name}) came along and could not be fetched: {why}]"
    if attachment.kind is MediaKind.IMAGE:
        try:
            picture = await asyncio.to_thread(read_picture, path)
        except HermesError as error:
            return None, f"[A picture came along, saved as {path}; it cannot be shown: {error.args[0]}]"
        return picture, f"[The picture is saved as {path}.]"
    return None, f"[A {what} came along, saved as {path}.]"


async def _fetch_attachment(
    account: PlatformAccount, attachment: Attachment, folder: Path, number: int, name: str
) -> Path:
    if attachment.size is not None and attachment.size > MEDIA_LIMIT:
        raise PlatformError(f"it is larger than {MEDIA_LIMIT >> 20} MB")
    target = folder / f"{number}-{name}"
    if await asyncio.to_thread(target.exists):
        return target  # fetched before a restart: it is whole, since it is named last
    await asyncio.to_thread(os.makedirs, folder, mode=0o700, exist_ok=True)
    part = target.with_name(target.name + ".part")
    async with asyncio.timeout(FETCH_SECONDS):
        await account.platform.fetch(attachment, part)
    await asyncio.to_thread(part.rename, target)
    return target


def _safe_file_name(text: str) -> str:
    """Return a single plain file name, whatever the sender called the file."""
    plain = _NAME.sub("_", text.replace("/", "_").replace("\\", "_")).strip(". ")
    stem, dot, suffix = plain.rpartition(".")
    return f"{stem[:80]}{dot}{suffix[:12]}" if stem else plain[:80]


_REOPEN_PAUSES = (0.5, 2.0, 10.0)
"""Seconds to wait before each attempt to reopen a session that broke."""


class ChatSessions:
    """Every chat session, and the live ones among them."""

    def __init__(
        self, deps: ChatSessionDeps, pool: SessionPool, accounts: Mapping[str, PlatformAccount], media: Path
    ) -> None:
        self._deps = deps
        self._app = deps.app
        self._pool = pool
        self._accounts = accounts
        self._media = media
        self._live: dict[str, ChatSession] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """By chat session key: the lock for changing its session, and how many tasks hold or await it."""
        self._reopening: set[asyncio.Task[None]] = set()
        self.on_reopened: Callable[[str], Awaitable[None]] | None = None
        """Called with the id of a session that was reopened."""

    @contextlib.asynccontextmanager
    async def hold_session(self, address: ChatAddress) -> AsyncIterator[ChatSession]:
        """Keep the chat session of an address live while the context lasts. Raises what opening a session raises."""
        async with self._lock_key(address.key):
            chat_session = await self._find_or_open(address)
            entry = chat_session.pooled
            entry.holders += 1
        try:
            yield chat_session
        finally:
            self._pool.release(entry)

    async def _find_or_open(self, address: ChatAddress) -> ChatSession:
        account, place, person, key = address.account, address.place, address.person, address.key
        settings = account.plan.settings
        if addressing.is_shared(settings, place):
            person = group_identity(person, place.lane)
        live = self._live.get(key)
        if live is not None and (live.person.id, live.person.role) != (person.id, person.role):
            # Somebody is in another role now, or the account is somebody else's: nothing of before is left to them.
            await self._pool.drop_session(live.binding.session_id)
            live = None
        reset = settings.session_reset or self._app.services.settings.gateway.session_reset
        if live is not None and not addressing.is_expired(reset, live.binding.last_at, self._now):
            return live
        known = await self._app.services.store.chats.get_binding(key)
        if known is not None and (known.person != person.id or addressing.is_expired(reset, known.last_at, self._now)):
            known = None
            if live is not None:
                await self._pool.drop_session(live.binding.session_id)
        binding = known or Binding(
            key=key, session_id=new_session_id(self._now), place=place, person=person.id, last_at=self._now
        )
        return await self._open_session(account, structs.replace(binding, place=place), person)

    def find_live(self, address: ChatAddress) -> ChatSession | None:
        """Return the live chat session of an address, or None."""
        return self._live.get(address.key)

    @contextlib.asynccontextmanager
    async def _lock_key(self, key: str) -> AsyncIterator[None]:
        """Hold the lock for opening or changing the session behind a chat session key."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1

    def live_in_lane(self, lane: str) -> list[ChatSession]:
        """Return the live chat sessions of one chat or thread."""
        return [one for one in self._live.values() if one.place.lane == lane]

    async def open_binding(self, binding: Binding) -> ChatSession | None:
        """Open the chat session of a stored binding after a restart; None where its account is not configured any more,
        and where its person is unknown now: their unanswered messages are then closed.
        """
        account = self._accounts.get(binding.place.platform)
        if account is None:
            return None
        live = self._live.get(binding.key)
        if live is not None:
            return live
        person = await self._deps.people.find_person(binding.person, account.plan.settings)
        if person is None:
            await self._app.services.store.chats.abandon_session_events(binding.session_id, "unknown sender")
            return None
        return await self._open_session(account, binding, person)

    async def post_events(
        self, chat_session: ChatSession, events: Sequence[StoredInboundEvent], mode: BusyMode, *, observed: str = ""
    ) -> None:
        """Post inbound events to the session; they are in the session's inbox when this returns, and nowhere else.
        `observed` is what others said before without addressing the agent.
        """
        heard = [one.arrival for one in events]
        account = chat_session.account
        cwd = self._working_folder(account, chat_session.person)
        folder = self._media / account.name if chat_session.person.is_owner else Path(cwd) / "received"
        inbound = await build_inbound(
            account,
            heard,
            folder,
            cwd=cwd,
            shared=addressing.is_shared(account.plan.settings, chat_session.place),
        )
        if observed:
            before = untrusted_part(observed, f"{account.plan.descriptor.title}: said before in this group")
            inbound = structs.replace(inbound, quoted=(before, *inbound.quoted))
        await self.post_inbound(chat_session, inbound, mode, events=tuple(one.id for one in events))

    async def post_inbound(
        self, chat_session: ChatSession, inbound: InboundMessage, mode: BusyMode, *, events: tuple[int, ...] = ()
    ) -> None:
        """Post a message to the session in the person's name; durable when this returns."""
        cwd = self._working_folder(
            chat_session.account, chat_session.person
        )  # a command does not know whose folder it is
        inbound = structs.replace(inbound, text=self._app.redact_text(inbound.text), cwd=cwd)
        letter_id, first = new_queued_message_id(), mode is BusyMode.INTERRUPT and chat_session.actor.busy
        posting = Posting(arrivals=events, letter_id=letter_id, body=inbound.encode(), first=first)
        chat_session.binding = structs.replace(chat_session.binding, last_at=self._now)
        await chat_session.compress_if_large()
        await self._app.services.store.chats.post_to_inbox(chat_session.binding, posting)
        ended = chat_session.actor.forward(letter_id, inbound, joins=mode is BusyMode.STEER, first=first)
        chat_session.track_turn(ended)

    async def switch_session(self, chat_session: ChatSession, session_id: str | None) -> ChatSession:
        """Bind a chat to another session from now on: a fresh one, or the one of this id."""
        before = chat_session.binding
        fresh = session_id or new_session_id(self._now)
        binding = structs.replace(before, session_id=fresh, last_at=self._now)
        async with self._lock_key(before.key):
            await self._pool.drop_session(before.session_id)
            opened = await self._open_session(chat_session.account, binding, chat_session.person)
            await self._app.services.store.chats.bind(binding)
        return opened

    def handle_broken(self, chat_session: ChatSession) -> None:
        """Reopen a session that cannot continue from memory; it goes on from the disk."""
        if self._live.get(chat_session.binding.key) is not chat_session:
            return
        del self._live[chat_session.binding.key]
        task = asyncio.create_task(self._reopen(chat_session), name=f"reopen {chat_session.binding.key}")
        self._reopening.add(task)
        task.add_done_callback(self._reopening.discard)

    async def drop_account(self, account: str) -> list[str]:
        """Close every live session of an account that is about to change; return the ids of those with work left, which
        goes on where they are opened next.
        """
        unfinished = []
        for one in [each for each in self._live.values() if each.account.name == account]:
            session_id = one.binding.session_id
            if one.actor.busy or one.actor.unfinished:
                unfinished.append(session_id)
            if one.local is not None:
                one.local.stays_open = True
            await self._pool.drop_session(session_id)
        return unfinished

    async def close(self) -> None:
        """Stop reopening sessions; the session pool closes them."""
        tasks = list(self._reopening)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _reopen(self, chat_session: ChatSession) -> None:
        binding = chat_session.binding
        for pause in _REOPEN_PAUSES:
            await asyncio.sleep(pause)
            try:
                async with self._lock_key(binding.key):
                    await self._pool.drop_session(binding.session_id)
                    opened = await self._open_session(chat_session.account, binding, chat_session.person)
                opened.reply_to = chat_session.reply_to
                if self.on_reopened is not None:
                    await self.on_reopened(binding.session_id)
                opened.actor.resume()
                return
            except HermesError as error:
                self._deps.report(f"{binding.key}: {error}")

    async def _open_session(self, account: PlatformAccount, binding: Binding, person: PersonIdentity) -> ChatSession:
        chat_session: list[ChatSession] = []

        async def open_port() -> SessionPort:
            made = ChatSession(self._deps, account, binding, person)
            chat_session.append(made)
            options = self._session_options(account, binding.place, person)
            try:
                await asyncio.to_thread(os.makedirs, options.cwd, mode=0o700, exist_ok=True)
                actor = await self._open_port(made, options)
            except BaseException:
                await made.close()
                raise
            made.attach_session(actor)
            return actor

        entry = await self._pool.get_or_open(binding.session_id, open_port)
        if not chat_session:
            known = self._live.get(binding.key)
            if known is None or known.actor is not entry.actor:
                raise BusyError("This session is open for another conversation.", "Try again in a moment.")
            return known
        made = chat_session[0]
        made.pooled = entry
        self._live[binding.key] = made

        async def close_chat_session() -> None:
            if self._live.get(binding.key) is made:
                del self._live[binding.key]
            remote = made.remote  # closing leaves the conversation without its session
            await made.close()
            if remote is not None:
                await remote.close()

        entry.close_callbacks.append(close_chat_session)
        entry.busy_checks.append(lambda: made.unfinished)
        return made

    async def _open_port(self, chat_session: ChatSession, options: SessionOptions) -> SessionPort:
        """Open the session here, or join it where a terminal of this person holds it."""
        session_id = chat_session.binding.session_id
        try:
            return await self._app.open_session(session_id, create=True, asker=chat_session, options=options)
        except BusyError:
            asks = bool(self._deps.people.role_rights(chat_session.person.role).approve)
            remote = await attach_session(self._app.services.home, session_id, asks=asks)
            if remote is None:
                raise
            remote.on_lost.append(lambda: self.handle_broken(chat_session))
            return remote

    def _session_options(self, account: PlatformAccount, place: Place, person: PersonIdentity) -> SessionOptions:
        """Return the options of a session of this person in this place."""
        settings, channel = account.plan.settings, addressing.channel_settings(account.plan.settings, place)
        base = self._app.options
        prompts = [one for one in (base.ephemeral_system_prompt, settings.prompt, channel.prompt) if one]
        chosen = structs.replace(
            base,
            model=channel.model or settings.model or base.model,
            platform=settings.platform or account.name,
            enabled_toolsets=channel.toolsets or settings.toolsets or base.enabled_toolsets,
            origin=":".join(one for one in (place.platform, place.chat, place.thread) if one),
            ephemeral_system_prompt="\n\n".join(prompts),
            reviews=True,
            cwd=self._working_folder(account, person),
        )
        return person_options(chosen, person, self._deps.people.role_rights(person.role))

    def _working_folder(self, account: PlatformAccount, person: PersonIdentity) -> str:
        """Return the folder in which a person's sessions work: that of the account, else one of their own."""
        services = self._app.services
        named = account.plan.settings.cwd or (services.settings.gateway.cwd if person.is_owner else "")
        if named:
            return os.path.expanduser(named)
        return str(
            services.home.root / "workspace"
            if person.is_owner
            else services.home.people / person_folder_name(person.id)
        )

    @property
    def _now(self) -> float:
        return self._app.services.clock.now()
