"""Which session a request belongs to: the one that it names, or the one in which just that was said before."""

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from hermes.admin.people.identity import options_for
from hermes.config.gateway import AccountSettings
from hermes.config.home import folder_of
from hermes.core.ids import new_session_id
from hermes.core.messages import Message, Role
from hermes.core.parts import ImagePart, TextPart
from hermes.gateway.people.identity import People, Person
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.keys import Caller
from hermes.gateway.request_sessions import Front, Wish
from hermes.runtime.actor import SessionActor
from hermes.sessions.options import Options

_NAME = re.compile(r"[\w.:@+=/ -]{1,128}", re.ASCII)
OURS = ("hermes", "hermes-agent")
"""Names for the usual model, which every program may ask for."""


class Room(Struct, frozen=True, kw_only=True):
    """A session as a request wants it: `name` is what its key's programs call it."""

    caller: Caller
    name: str
    wish: Wish
    told: bool = False
    """Whether its programs send all that was said each time: by that it is found."""


class Extra(Struct, frozen=True):
    """What a request says about how its session is: instructions beside Hermes' own, and the model."""

    system: str = ""
    model: str = ""


NOTHING = Extra()


class Said(Struct, frozen=True):
    """What a request holds of a conversation: extra instructions, what was said before, and what is said now."""

    system: str
    before: tuple[Message, ...]
    now: Message

    def mark(self) -> bytes:
        """The state of a session in which just this was said before; empty where nothing was."""
        return mark_of(self.system, self.before) if self.before else b""

    def mark_after(self, answer: str) -> bytes:
        """The state of the session once that was answered."""
        spoken = Message(role=Role.ASSISTANT, parts=(TextPart(text=answer),))
        return mark_of(self.system, (*self.before, self.now, spoken))


def mark_of(system: str, messages: Sequence[Message]) -> bytes:
    """A hash of what was said, by whom, in which order."""
    digest = hashlib.sha256()

    def add(kind: bytes, text: str) -> None:
        data = text.strip().encode("utf-8", "surrogatepass")
        digest.update(b"%b%d:" % (kind, len(data)))
        digest.update(data)

    add(b"s", system)
    for message in messages:
        add(b"m", message.role.value)
        for part in message.parts:
            if isinstance(part, TextPart):
                add(b"t", part.text)
            elif isinstance(part, ImagePart):
                add(b"i", part.url or part.data)
    return digest.digest()


class Rooms:
    """The sessions of all keys."""

    def __init__(self, front: Front, account: str, models: Sequence[str]) -> None:
        self._front = front
        self._app = front.app
        self._chats = front.app.premises.store.chats
        self._people = People(front.app)
        self._settings = _account(front.app.premises.settings.platforms.get(account, {}))
        self._platform = self._settings.platform or account
        self._models = tuple(models)
        self._made: set[str] = set()
        """Folders that are there."""
        self._naming: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def models(self) -> list[str]:
        """The names of models that programs may ask for."""
        return list(dict.fromkeys([OURS[0], self._app.endpoint.model, *self._models]))

    def model(self, asked: str) -> str:
        """The model for a name that was asked for; empty: the usual one. Raises ApiError where it is not offered."""
        if asked in self._models:
            return asked
        if not asked or asked in OURS or asked == self._app.endpoint.model:
            return self._settings.model
        raise ApiError(
            404,
            f"The model {asked[:80]!r} does not exist here; /v1/models lists those that do.",
            code="model_not_found",
            param="model",
        )

    def fresh_id(self) -> str:
        """An id for a session, which no other one has: a burst begins a thousand in one second."""
        return new_session_id(self._app.premises.clock.now()) + os.urandom(4).hex()

    async def of_said(self, caller: Caller, said: Said, extra: Extra) -> Room:
        """The session in which just this was said before, else a fresh one that begins with it."""
        mark = said.mark()
        known = await self._chats.take_api_session(caller.owner, mark=mark) if mark else None
        if known is not None:
            return structs.replace(self.room(caller, *known, extra), told=True)
        fresh = self.fresh_id()
        room = self.room(caller, fresh, fresh, extra, history=said.before, create=True)
        return structs.replace(room, told=True)

    async def named(
        self, caller: Caller, name: str, extra: Extra = NOTHING, *, history: Sequence[Message] = ()
    ) -> Room:
        """The session that the caller calls so, made where there is none; `history` is what it begins with then."""
        if not _NAME.fullmatch(name):
            raise ApiError(
                400, "A session's name is made of 1 to 128 letters, digits, and some signs.", param="session_id"
            )
        lock = self._naming.setdefault((caller.name, name), asyncio.Lock())
        async with lock:
            known = await self._chats.api_session(caller.owner, name)
            if known is not None:
                return self.room(caller, name, known, extra)
            fresh = self.fresh_id()
            room = self.room(caller, name, fresh, extra, history=history, create=True)
            async with self._front.session(room.wish) as actor:
                await self.bind(room, actor)
            return room

    async def bind(self, room: Room, actor: SessionActor) -> None:
        """Have a fresh session found by its name, now that it is there."""
        if room.wish.create:
            await self._chats.bind_api_session(room.caller.owner, room.name, actor.session_id)

    async def known(self, caller: Caller, name: str) -> str:
        """The id of a session of the caller's. Raises ApiError for one that is not theirs, as for one that is not."""
        found = await self._chats.api_session(caller.owner, name)
        if found is None:
            raise ApiError(404, f"There is no session {name[:128]!r}.", code="session_not_found")
        return found

    def approves(self, caller: Caller) -> bool:
        """Whether who holds the key may answer questions."""
        return bool(self._people.rights(caller.person.role).approve)

    def room(
        self,
        caller: Caller,
        name: str,
        session_id: str,
        extra: Extra = NOTHING,
        *,
        history: Sequence[Message] = (),
        create: bool = False,
    ) -> Room:
        """A session with the rights of who asks."""
        options = self._options(caller, extra)
        wish = Wish(session_id=session_id, options=options, create=create, history=tuple(history))
        return Room(caller=caller, name=name, wish=wish)

    def _options(self, caller: Caller, extra: Extra) -> Options:
        base, settings = self._app.options, self._settings
        prompts = [one for one in (base.ephemeral_system_prompt, settings.prompt, extra.system) if one]
        chosen = structs.replace(
            base,
            model=extra.model or settings.model or base.model,
            platform=self._platform,
            enabled_toolsets=settings.toolsets or base.enabled_toolsets,
            ephemeral_system_prompt="\n\n".join(prompts),
            reviews=False,
            cwd=self.cwd(caller.person),
        )
        return options_for(chosen, caller.person, self._people.rights(caller.person.role))

    def cwd(self, person: Person) -> str:
        """The folder in which a person's sessions work: that of the account, else each has their own."""
        on = self._app.premises
        named = self._settings.cwd or (on.settings.gateway.cwd if person.owner else "")
        usual = on.home.root / "workspace" if person.owner else on.home.people / folder_of(person.id)
        found = os.path.expanduser(named) if named else str(usual)
        if found not in self._made:
            os.makedirs(found, mode=0o700, exist_ok=True)
            self._made.add(found)
        return found

    def received(self, person: Person, media: Path) -> Path:
        """Where files are put that a person sends: their tools must be able to read them."""
        return media if person.owner else Path(self.cwd(person)) / "received"


def _account(given: Mapping[str, object]) -> AccountSettings:
    """What every account has; it was checked when the account was set up."""
    common = {key: value for key, value in given.items() if key in AccountSettings.__struct_fields__}
    return msgspec.convert(common, AccountSettings, strict=False)
