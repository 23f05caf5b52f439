"""The conversations of all chats: found by their keys, opened when something is said in them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from hermes.admin.people.identity import options_for, together
from hermes.config.display import BusyMode
from hermes.config.home import folder_of
from hermes.core.chats import Binding, Place, Posting, StoredArrival
from hermes.core.errors import BusyError, HermesError
from hermes.core.ids import new_letter_id, new_session_id
from hermes.gateway import addressing
from hermes.gateway.accounts import Account
from hermes.gateway.chat_session import Conversation, Ground
from hermes.gateway.inbound import inbound_of
from hermes.gateway.people.identity import Person
from hermes.gateway.session_pool import Sessions
from hermes.ipc.remote_session import attached
from hermes.runtime.mailbox import Inbound
from hermes.sessions.options import Options
from hermes.sessions.port import SessionPort
from hermes.sessions.untrusted_text import others_words

_REOPEN = (0.5, 2.0, 10.0)
"""Seconds before a session that broke is opened again, time after time."""


class Conversations:
    """Every conversation, and the live ones among them."""

    def __init__(self, ground: Ground, sessions: Sessions, accounts: Mapping[str, Account], media: Path) -> None:
        self._ground = ground
        self._app = ground.app
        self._sessions = sessions
        self._accounts = accounts
        self._media = media
        self._live: dict[str, Conversation] = {}
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """By conversation, who changes its session, and how many want to."""
        self._mending: set[asyncio.Task[None]] = set()
        self.on_mended: Callable[[str], Awaitable[None]] | None = None
        """Told of a session that lives again."""

    @contextlib.asynccontextmanager
    async def held(self, account: Account, place: Place, person: Person) -> AsyncIterator[Conversation]:
        """The conversation of a person in a place, live for as long as the context lasts. Raises what opening a session
        raises."""
        async with self._alone(self._key(account, place, person)):
            conversation = await self._get(account, place, person)
            entry = conversation.entry
            entry.holders += 1
        try:
            yield conversation
        finally:
            self._sessions.release(entry)

    async def _get(self, account: Account, place: Place, person: Person) -> Conversation:
        settings, key = account.plan.settings, self._key(account, place, person)
        if addressing.is_shared(settings, place):
            person = together(person, place.lane)
        live = self._live.get(key)
        if live is not None and (live.person.id, live.person.role) != (person.id, person.role):
            # Somebody is in another role now, or the account is somebody else's: nothing of before is left to them.
            await self._sessions.drop(live.binding.session_id)
            live = None
        reset = settings.session_reset or self._app.premises.settings.gateway.session_reset
        if live is not None and not addressing.is_over(reset, live.binding.last_at, self._now):
            return live
        known = await self._app.premises.store.chats.binding(key)
        if known is not None and (known.person != person.id or addressing.is_over(reset, known.last_at, self._now)):
            known = None
            if live is not None:
                await self._sessions.drop(live.binding.session_id)
        binding = known or Binding(
            key=key, session_id=new_session_id(self._now), place=place, person=person.id, last_at=self._now
        )
        return await self._open(account, structs.replace(binding, place=place), person)

    def live(self, account: Account, place: Place, person: Person) -> Conversation | None:
        """The conversation of a person in a place, if it is live."""
        return self._live.get(self._key(account, place, person))

    def _key(self, account: Account, place: Place, person: Person) -> str:
        settings = account.plan.settings
        who = f"~{person.role}" if addressing.is_shared(settings, place) else person.id
        return addressing.conversation_key(settings, place, who)

    @contextlib.asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """Be the only one who opens or changes the session of a conversation."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = lock, users - 1

    def in_lane(self, lane: str) -> list[Conversation]:
        """The live conversations of one chat or thread."""
        return [one for one in self._live.values() if one.place.lane == lane]

    async def of_binding(self, binding: Binding) -> Conversation | None:
        """The conversation of a row, live again after a restart; None where its account is not set up any more, and
        where nobody knows its person any more: what they said then is done with."""
        account = self._accounts.get(binding.place.platform)
        if account is None:
            return None
        live = self._live.get(binding.key)
        if live is not None:
            return live
        person = await self._ground.people.by_id(binding.person, account.plan.settings)
        if person is None:
            await self._app.premises.store.chats.forsake(binding.session_id, "unknown sender")
            return None
        return await self._open(account, binding, person)

    async def post(
        self, conversation: Conversation, arrivals: Sequence[StoredArrival], mode: BusyMode, *, observed: str = ""
    ) -> None:
        """Say to the session what came in; it is in the session's inbox when this returns, and nowhere else. `observed`
        is what others said before it without addressing the agent."""
        heard = [one.arrival for one in arrivals]
        account = conversation.account
        cwd = self._cwd(account, conversation.person)
        folder = self._media / account.name if conversation.person.owner else Path(cwd) / "received"
        inbound = await inbound_of(
            account,
            heard,
            folder,
            cwd=cwd,
            shared=addressing.is_shared(account.plan.settings, conversation.place),
        )
        if observed:
            before = others_words(observed, f"{account.plan.descriptor.title}: said before in this group")
            inbound = structs.replace(inbound, quoted=(before, *inbound.quoted))
        await self.say(conversation, inbound, mode, arrivals=tuple(one.id for one in arrivals))

    async def say(
        self, conversation: Conversation, inbound: Inbound, mode: BusyMode, *, arrivals: tuple[int, ...] = ()
    ) -> None:
        """Say something to the session in the person's name; durable when this returns."""
        cwd = self._cwd(conversation.account, conversation.person)  # a command does not know whose folder it is
        inbound = structs.replace(inbound, text=self._app.redact(inbound.text), cwd=cwd)
        letter_id, first = new_letter_id(), mode is BusyMode.INTERRUPT and conversation.actor.busy
        posting = Posting(arrivals=arrivals, letter_id=letter_id, body=inbound.encode(), first=first)
        conversation.binding = structs.replace(conversation.binding, last_at=self._now)
        await conversation.tidy()
        await self._app.premises.store.chats.post_letter(conversation.binding, posting)
        ended = conversation.actor.forward(letter_id, inbound, joins=mode is BusyMode.STEER, first=first)
        conversation.watch(ended)

    async def begin_anew(self, conversation: Conversation, session_id: str | None) -> Conversation:
        """Let a conversation be another session from now on: a fresh one, or the one of this id."""
        before = conversation.binding
        fresh = session_id or new_session_id(self._now)
        binding = structs.replace(before, session_id=fresh, last_at=self._now)
        async with self._alone(before.key):
            await self._sessions.drop(before.session_id)
            opened = await self._open(conversation.account, binding, conversation.person)
            await self._app.premises.store.chats.bind(binding)
        return opened

    def broken(self, conversation: Conversation) -> None:
        """A session cannot go on as it is in memory: it is opened again, and goes on from the disk."""
        if self._live.get(conversation.binding.key) is not conversation:
            return
        del self._live[conversation.binding.key]
        task = asyncio.create_task(self._mend(conversation), name=f"mend {conversation.binding.key}")
        self._mending.add(task)
        task.add_done_callback(self._mending.discard)

    async def leave(self, account: str) -> list[str]:
        """Let every live session of an account go, which is about to be another one; the ids of those that have work
        left. What they do goes on where they are opened next."""
        unfinished = []
        for one in [each for each in self._live.values() if each.account.name == account]:
            session_id = one.binding.session_id
            if one.actor.busy or one.actor.unfinished:
                unfinished.append(session_id)
            if one.local is not None:
                one.local.stays_open = True
            await self._sessions.drop(session_id)
        return unfinished

    async def close(self) -> None:
        """Stop mending; sessions are closed by who keeps them."""
        tasks = list(self._mending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _mend(self, conversation: Conversation) -> None:
        binding = conversation.binding
        for pause in _REOPEN:
            await asyncio.sleep(pause)
            try:
                async with self._alone(binding.key):
                    await self._sessions.drop(binding.session_id)
                    opened = await self._open(conversation.account, binding, conversation.person)
                opened.reply_to = conversation.reply_to
                if self.on_mended is not None:
                    await self.on_mended(binding.session_id)
                opened.actor.resume()
                return
            except HermesError as error:
                self._ground.report(f"{binding.key}: {error}")

    async def _open(self, account: Account, binding: Binding, person: Person) -> Conversation:
        conversation: list[Conversation] = []

        async def opening() -> SessionPort:
            made = Conversation(self._ground, account, binding, person)
            conversation.append(made)
            options = self._options(account, binding.place, person)
            try:
                await asyncio.to_thread(os.makedirs, options.cwd, mode=0o700, exist_ok=True)
                actor = await self._session(made, options)
            except BaseException:
                await made.close()
                raise
            made.attach(actor)
            return actor

        entry = await self._sessions.get(binding.session_id, opening)
        if not conversation:
            known = self._live.get(binding.key)
            if known is None or known.actor is not entry.actor:
                raise BusyError("This session is open for another conversation.", "Try again in a moment.")
            return known
        made = conversation[0]
        made.entry = entry
        self._live[binding.key] = made

        async def closing() -> None:
            if self._live.get(binding.key) is made:
                del self._live[binding.key]
            remote = made.remote  # closing leaves the conversation without its session
            await made.close()
            if remote is not None:
                await remote.close()

        entry.closing.append(closing)
        entry.working.append(lambda: made.unfinished)
        return made

    async def _session(self, made: Conversation, options: Options) -> SessionPort:
        """The conversation's session, or a part in it where a terminal of this person holds it."""
        session_id = made.binding.session_id
        try:
            return await self._app.open_session(session_id, create=True, asker=made, options=options)
        except BusyError:
            asks = bool(self._ground.people.rights(made.person.role).approve)
            remote = await attached(self._app.premises.home, session_id, asks=asks)
            if remote is None:
                raise
            remote.on_lost.append(lambda: self.broken(made))
            return remote

    def _options(self, account: Account, place: Place, person: Person) -> Options:
        """How a session of this person in this place is."""
        settings, channel = account.plan.settings, addressing.channel_of(account.plan.settings, place)
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
            cwd=self._cwd(account, person),
        )
        return options_for(chosen, person, self._ground.people.rights(person.role))

    def _cwd(self, account: Account, person: Person) -> str:
        """The folder in which a person's sessions work: that of the account, else each has their own."""
        on = self._app.premises
        named = account.plan.settings.cwd or (on.settings.gateway.cwd if person.owner else "")
        if named:
            return os.path.expanduser(named)
        return str(on.home.root / "workspace" if person.owner else on.home.people / folder_of(person.id))

    @property
    def _now(self) -> float:
        return self._app.premises.clock.now()
