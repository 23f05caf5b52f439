"""Lookup of a request's session: by the name that it gives, or by a hash of the messages before it."""

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from hermes.admin.people.identity import PersonIdentity, PersonResolver
from hermes.config.gateway import AccountSettings, ChannelSettings
from hermes.core.ids import new_session_id
from hermes.core.messages import ImagePart, Message, Role, TextPart, ToolCallPart, ToolResultPart
from hermes.gateway.people import build_session_options, find_working_folder
from hermes.gateway.platform import GatewayFacade, SessionRequest
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.keys import ApiCaller
from hermes.runtime.actor import SessionActor
from hermes.sessions.caller_tools import CallerTool, has_same_tools

_NAME = re.compile(r"[\w.:@+=/ -]{1,128}", re.ASCII)
DEFAULT_MODEL_NAMES = ("hermes", "hermes-agent")
"""Names of the usual model, which every program may ask for."""


class ApiSession(Struct, frozen=True, kw_only=True):
    """A session as a request uses it: `name` is the name by which its key's programs know it."""

    caller: ApiCaller
    name: str
    request: SessionRequest
    found_by_history: bool = False
    """Whether its programs send the whole history each time: then it is found by that."""


class SessionExtras(Struct, frozen=True):
    """A request's wishes for its session: instructions beside Hermes' own, and the model."""

    system: str = ""
    model: str = ""
    tools: tuple[CallerTool, ...] = ()
    """The caller's own tools, which it runs itself."""


NO_EXTRAS = SessionExtras()


class ParsedConversation(Struct, frozen=True):
    """The conversation in a request: extra instructions, the earlier messages, and the new one."""

    system: str
    before: tuple[Message, ...]
    now: Message
    """The person's message; without parts where there are only results."""
    results: tuple[ToolResultPart, ...] = ()
    """What the caller has got from the calls that the last of the earlier messages holds."""
    notes: tuple[TextPart, ...] = ()
    """What Hermes adds to the person's message."""

    def history_mark(self) -> bytes:
        """Return the hash of the earlier messages; empty where there are none."""
        return hash_messages(self.system, self.before) if self.before else b""

    def mark_after_answer(self, answer: str, calls: Sequence[ToolCallPart] = ()) -> bytes:
        """Return the hash of the conversation with this answer: its text, and the calls that the caller is to run."""
        spoken = Message(role=Role.ASSISTANT, parts=(*((TextPart(text=answer),) if answer else ()), *calls))
        now = (self.now,) if self.now.parts else ()
        return hash_messages(self.system, (*self.before, *self._list_results(), *now, spoken))

    def _list_results(self) -> tuple[Message, ...]:
        return (Message(role=Role.TOOL, parts=self.results),) if self.results else ()


def hash_messages(system: str, messages: Sequence[Message]) -> bytes:
    """Return a hash of messages: their texts, roles and order."""
    digest = hashlib.sha256()

    def add_field(kind: bytes, text: str) -> None:
        data = text.strip().encode("utf-8", "surrogatepass")
        digest.update(b"%b%d:" % (kind, len(data)))
        digest.update(data)

    add_field(b"s", system)
    for message in messages:
        add_field(b"m", message.role.value)
        for part in message.parts:
            if isinstance(part, TextPart):
                add_field(b"t", part.text)
            elif isinstance(part, ImagePart):
                add_field(b"i", part.url or part.data)
            elif isinstance(part, ToolCallPart):
                add_field(b"c", part.call_id)
            elif isinstance(part, ToolResultPart):
                add_field(b"r", part.call_id)
    return digest.digest()


def check_session_name(name: str, param: str = "session_id") -> None:
    """Raise ApiRequestError for a name that no session may have."""
    if not _NAME.fullmatch(name):
        raise ApiRequestError(400, "A session's name is made of 1 to 128 letters, digits, and some signs.", param=param)


class ApiSessions:
    """The sessions of all keys."""

    def __init__(self, gateway: GatewayFacade, account: str, models: Sequence[str]) -> None:
        self._gateway = gateway
        self._app = gateway.app
        self._store = gateway.app.services.store
        self._people = PersonResolver(gateway.app)
        self._settings = _account_settings(gateway.app.services.settings.platforms.get(account, {}))
        self._platform = self._settings.platform or account
        self._models = tuple(models)
        self._known_folders: set[str] = set()
        """Folders that exist."""
        self._name_locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @property
    def models(self) -> list[str]:
        """The names of models that programs may ask for."""
        return list(dict.fromkeys([DEFAULT_MODEL_NAMES[0], self._app.endpoint.model, *self._models]))

    def resolve_model(self, asked: str) -> str:
        """Return the model for a requested name; empty: the usual one.

        Raises ApiRequestError where it is not offered.
        """
        if asked in self._models:
            return asked
        if not asked or asked in DEFAULT_MODEL_NAMES or asked == self._app.endpoint.model:
            return self._settings.model
        raise ApiRequestError(
            404,
            f"The model {asked[:80]!r} does not exist here; /v1/models lists those that do.",
            code="model_not_found",
            param="model",
        )

    def fresh_session_id(self) -> str:
        """Return an id that no other session has, even when a thousand begin in one second."""
        return new_session_id(self._app.services.clock.now()) + os.urandom(4).hex()

    async def find_by_history(self, caller: ApiCaller, parsed: ParsedConversation, extras: SessionExtras) -> ApiSession:
        """Return the session with exactly these earlier messages, else a fresh one that begins with them."""
        mark = parsed.history_mark()
        known = await self._store.api.take_session(caller.owner, mark=mark) if mark else None
        if known is not None:
            return structs.replace(self.make_session(caller, *known, extras), found_by_history=True)
        fresh = self.fresh_session_id()
        room = self.make_session(caller, fresh, fresh, extras, history=parsed.before, create=True)
        return structs.replace(room, found_by_history=True)

    async def find_or_create(
        self, caller: ApiCaller, name: str, extras: SessionExtras = NO_EXTRAS, *, history: Sequence[Message] = ()
    ) -> ApiSession:
        """Return the caller's session of this name, created where there is none; `history` is its beginning then."""
        check_session_name(name)
        lock = self._name_locks.setdefault((caller.name, name), asyncio.Lock())
        async with lock:
            known = await self._store.api.find_session(caller.owner, name)
            if known is not None:
                return self.make_session(caller, name, known, extras)
            fresh = self.fresh_session_id()
            room = self.make_session(caller, name, fresh, extras, history=history, create=True)
            async with self._gateway.hold_session(room.request) as actor:
                await self.bind_name(room, actor)
            return room

    async def offer_tools(self, session: ApiSession) -> None:
        """Let a session that is in memory with other tools of its caller be opened again, with those of this request.

        Raises ApiRequestError while it runs a turn.
        """
        live = self._app.find_live_session(session.request.session_id)
        if live is None or has_same_tools(live.options.extra_tools, session.request.options.extra_tools):
            return
        if live.actor.busy:
            raise ApiRequestError(409, "The session runs a turn with other tools.", code="conflict")
        await self._gateway.drop_session(session.request.session_id)

    async def bind_name(self, session: ApiSession, actor: SessionActor) -> None:
        """Store the name of a fresh session, now that it exists."""
        if session.request.create:
            await self._store.api.bind_session(session.caller.owner, session.name, actor.session_id)

    async def find_session_id(self, caller: ApiCaller, name: str) -> str:
        """Return the id of a caller's session. Raises ApiRequestError for another's session as for one that does not
        exist.
        """
        found = await self._store.api.find_session(caller.owner, name)
        if found is None:
            raise ApiRequestError(404, f"There is no session {name[:128]!r}.", code="session_not_found")
        return found

    def can_approve(self, caller: ApiCaller) -> bool:
        """Return whether the caller may answer approval questions."""
        return bool(self._people.role_rights(caller.person.role).approve)

    def make_session(
        self,
        caller: ApiCaller,
        name: str,
        session_id: str,
        extras: SessionExtras = NO_EXTRAS,
        *,
        history: Sequence[Message] = (),
        create: bool = False,
    ) -> ApiSession:
        """Return a session with the caller's rights."""
        self.working_folder(caller.person)  # where the session works must exist
        options = build_session_options(
            self._app,
            self._settings,
            caller.person,
            self._people.role_rights(caller.person.role),
            wishes=ChannelSettings(model=extras.model, prompt=extras.system),
            platform=self._platform,
        )
        if extras.tools:
            options = structs.replace(options, extra_tools=(*options.extra_tools, *extras.tools))
        wish = SessionRequest(session_id=session_id, options=options, create=create, history=tuple(history))
        return ApiSession(caller=caller, name=name, request=wish)

    def working_folder(self, person: PersonIdentity) -> str:
        """Return the folder in which a person's sessions work; it exists."""
        found = find_working_folder(self._app, self._settings, person)
        if found not in self._known_folders:
            os.makedirs(found, mode=0o700, exist_ok=True)
            self._known_folders.add(found)
        return found


def _account_settings(given: Mapping[str, object]) -> AccountSettings:
    """Return the settings that every account has; they were checked when the account was opened."""
    common = {key: value for key, value in given.items() if key in AccountSettings.__struct_fields__}
    return msgspec.convert(common, AccountSettings, strict=False)
