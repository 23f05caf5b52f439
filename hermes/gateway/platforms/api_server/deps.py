"""Dependencies that all parts of the API server share."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from hermes.core.chats import AuditEntry
from hermes.core.events import TurnEnded
from hermes.gateway.people import Quotas
from hermes.gateway.platform import GatewayFacade
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.keys import ApiCaller, ApiKeyring, ApiOptions, TurnSlots
from hermes.gateway.platforms.api_server.messages import UploadedFile, build_inbound
from hermes.gateway.platforms.api_server.requests import RequestReader
from hermes.gateway.platforms.api_server.session_lookup import ApiSession, ApiSessions, ParsedConversation
from hermes.gateway.platforms.api_server.turns import ApiTurn, ApiTurns
from hermes.gateway.text.recordings import RecordingListener
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.caller_tools import mark_untrusted


class ApiDeps(Struct, frozen=True, kw_only=True):
    """The shared dependencies; made once, when the account is opened."""

    options: ApiOptions
    gateway: GatewayFacade
    keyring: ApiKeyring
    slots: TurnSlots
    reader: RequestReader
    sessions: ApiSessions
    turns: ApiTurns
    quotas: Quotas
    media: Path
    """The folder of files that come in."""
    began_at: float

    @property
    def app(self) -> App:
        """The process's App."""
        return self.gateway.app

    async def admit_turn(self, caller: ApiCaller) -> None:
        """Raise ApiRequestError where the caller has no turn now: too many under way, too many this hour, no money
        left.
        """
        self.slots.check_limit(caller)
        why = await self.quotas.claim_turn(caller.person, caller.person, 0.0)
        if why is not None:
            said = why or "There is no turn now: what this key may use of an hour, or spend in a day, is used up."
            raise ApiRequestError(429, said, code="insufficient_quota", headers={"Retry-After": "600"})

    async def build_message(
        self, caller: ApiCaller, parsed: ParsedConversation, files: Sequence[UploadedFile]
    ) -> InboundMessage:
        """Build the session's message from a request, with its files saved where the caller's tools can read them."""
        cwd = self.sessions.working_folder(caller.person)
        folder = self.media if caller.person.is_owner else Path(cwd) / "received"
        if not self.options.trust_tool_results:
            parsed = structs.replace(parsed, results=tuple(map(mark_untrusted, parsed.results)))
        listener = RecordingListener(
            self.app.services.speech, self.app.redact_text, self.media, shows_paths=caller.person.is_owner
        )
        return await build_inbound(parsed, files, folder, cwd, listener)

    async def post_message(self, session: ApiSession, message: InboundMessage) -> ApiTurn:
        """Post a message to a session; nobody is there to answer questions. Raises HermesError."""
        await self.sessions.offer_tools(session)

        async def post(actor: SessionActor) -> "asyncio.Future[TurnEnded]":
            await self.sessions.bind_name(session, actor)
            await self.write_audit(session.caller, "message", actor.session_id)
            return actor.post(message)

        return await self.turns.begin_turn(session.request, post)

    async def write_audit(self, caller: ApiCaller, what: str, detail: str) -> None:
        """Write an audit entry about what this caller did."""
        entry = AuditEntry(
            platform="api_server", account=caller.name, person=caller.person.id, what=what, detail=detail
        )
        await self.app.services.store.people.add_audit_entry(entry)

    def current_time(self) -> float:
        """Return the time in seconds since the epoch."""
        return self.app.services.clock.now()
