"""The sessions that an editor has open in this process, and the methods of the protocol that are about sessions."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from msgspec import Raw, structs

from hermes.acp import protocol
from hermes.acp.calls import Update
from hermes.acp.editor_files import OfferedFiles
from hermes.acp.handed_servers import convert_servers
from hermes.acp.options import AcpOptions
from hermes.acp.protocol import ClientCapabilities, decode_params
from hermes.acp.questions import EditorForms
from hermes.acp.session import EditorSession
from hermes.acp.session_projection import format_moment
from hermes.admin.sessions import SessionAdmin
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.ids import new_session_id
from hermes.core.messages import Message, Role
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_
from hermes.ipc.rpc_peer import RpcPeer
from hermes.ipc.session_server import serve_sessions
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions

if TYPE_CHECKING:
    from hermes.core.sub_agents import BackgroundEnd

_PAGE = 50
_HISTORY_BATCH = 50
"""Messages of a session that are loaded at once."""
_MAX_LIVE = 100
"""Sessions that one editor may have open at once."""
_PLATFORM = "acp"


class SessionTable:
    """The App of the process and its live sessions; `open` before use, `close` ends everything."""

    asks_questions = True
    """Whether a background session may ask the person something while they do something else."""

    def __init__(
        self, environ: Mapping[str, str], options: AcpOptions, peer: RpcPeer, capabilities: ClientCapabilities
    ) -> None:
        self._app = App(environ, _build_options(options))
        self._asks = options.asks
        self._peer = peer
        self._capabilities = capabilities
        self._sessions: dict[str, EditorSession] = {}
        self._stack = AsyncExitStack()
        self._changing = asyncio.Lock()
        """Held while a session is opened, closed or deleted: none is opened twice."""

    async def open(self) -> None:
        """Open what sessions stand on. Raises ConfigError where there is no model, or settings cannot be used."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._app)
            await stack.enter_async_context(serve_sessions(self._app))
            self._stack = stack.pop_all()
        self._app.person_reports = self

    async def close(self) -> None:
        """Stop every turn, store what there is, and end whatever runs."""
        for session in [*self._sessions.values()]:
            await session.close()
        await self._stack.aclose()

    async def show_report(self, end: "BackgroundEnd") -> bool:
        """Show how a background session has ended, where its parent is shown."""
        session = self._sessions.get(end.parent_id)
        if session is None:
            return False
        await session.show_report(end)
        return True

    def cancel_prompts(self, session_id: str) -> None:
        """Stop what runs in a session, if it is open."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.cancel()

    async def create_session(self, params: Raw) -> Update:
        """Create a session in a folder."""
        given = decode_params(params, protocol.NewSessionParams)
        async with self._changing:
            session = await self._open(None, given.cwd, given.mcp_servers)
        session.announce()
        return {"sessionId": session.actor.session_id, **session.describe_state()}

    async def load_session(self, params: Raw) -> Update:
        """Open a session, and send all that was said in it before the answer."""
        session = await self._open_known(params)
        await self._send_history(session)
        state = session.describe_state()  # raises where it was closed meanwhile
        session.announce()
        return state

    async def resume_session(self, params: Raw) -> Update:
        """Open a session without sending what was said in it."""
        session = await self._open_known(params)
        session.announce()
        return session.describe_state()

    async def fork_session(self, params: Raw) -> Update:
        """Create a session that begins with all that was said in another one, which stays as it is. Raises BusyError
        while a turn runs in that.
        """
        given = decode_params(params, protocol.OpenSessionParams)
        services = self._app.services
        async with self._changing:
            self._check_room(given.cwd)
            row = await services.store.sessions.get(given.session_id)
            if row is None or row.user_id:
                raise NotFoundError(N_("There is no session {id}.", id=given.session_id[:80]))
            source = await services.store.sessions.find_tip(row.id)
            if source in self._sessions and self._sessions[source].actor.busy:
                raise BusyError(N_("The session is at work."), N_("Wait for its end, or stop it."))
            made = await services.store.branches.create(source, new_session_id(services.clock.now()))
            session = await self._open(made.id, given.cwd, given.mcp_servers)
        session.announce()
        return {"sessionId": session.actor.session_id, **session.describe_state()}

    async def list_sessions(self, params: Raw) -> Update:
        """List the person's sessions, the one used last first, those of a folder or all, a page at a time."""
        given = decode_params(params, protocol.ListSessionsParams)
        admin = SessionAdmin(self._app.services.store, self._app.services.home)
        rows = await admin.list_page(_PAGE + 1, folder=given.cwd or None, before=given.cursor or None)
        sessions = [
            {
                "sessionId": row.id,
                "cwd": row.cwd or "/",
                "title": row.title or None,
                "updatedAt": format_moment(row.updated_at),
            }
            for row in rows[:_PAGE]
        ]
        return {"sessions": sessions, "nextCursor": rows[_PAGE - 1].id if len(rows) > _PAGE else None}

    async def close_session(self, params: Raw) -> Update:
        """Close a session: what runs is stopped, and it can be opened again."""
        session_id = decode_params(params, protocol.SessionParams).session_id
        self._find(session_id)
        async with self._changing:
            await self._close(session_id)
        return {}

    async def delete_session(self, params: Raw) -> Update:
        """Delete a session with all that belongs to it; one that is gone already is no error."""
        session_id = decode_params(params, protocol.SessionParams).session_id
        async with self._changing:
            await self._close(session_id)
            services = self._app.services
            row = await services.store.sessions.get(session_id)
            if row is not None and row.user_id:
                raise NotFoundError(N_("Session {id} is somebody else's.", id=session_id))
            if row is not None:
                await SessionAdmin(services.store, services.home).delete_session(session_id)
        return {}

    async def answer_prompt(self, params: Raw) -> Update:
        """Answer a prompt."""
        given = decode_params(params, protocol.PromptParams)
        return await self._find(given.session_id).answer_prompt(given.prompt)

    async def set_mode(self, params: Raw) -> Update:
        """Set the mode of a session."""
        given = decode_params(params, protocol.SetModeParams)
        await self._find(given.session_id).set_mode(given.mode_id)
        return {}

    async def set_option(self, params: Raw) -> Update:
        """Set an option of a session."""
        given = decode_params(params, protocol.SetOptionParams)
        session = self._find(given.session_id)
        before = session.options.mode
        await session.options.set_option(given)
        if session.options.mode != before:
            session.send_update({"sessionUpdate": "current_mode_update", "currentModeId": session.options.mode})
        return {"configOptions": session.options.describe_all()}

    async def _send_history(self, session: EditorSession) -> None:
        """Send all messages of a session, a batch after the other: neither the session nor what the editor has not
        taken yet is in memory as a whole.
        """
        admin = SessionAdmin(self._app.services.store, self._app.services.home)
        held: list[Message] = []
        last = 0
        while batch := await admin.list_messages_after(session.actor.session_id, last, _HISTORY_BATCH):
            last = batch[-1].id
            held += [row.message for row in batch]
            # The results of calls stand behind them, and are shown with them.
            cut = next((n for n in range(len(held) - 1, 0, -1) if held[n].role is not Role.TOOL), 0)
            self._show_together(session, held[:cut])
            held = held[cut:]
            await self._peer.wait_until_taken()
        self._show_together(session, held)

    def _show_together(self, session: EditorSession, messages: Sequence[Message]) -> None:
        with self._peer.join_messages():
            session.show_history(messages)

    def _find(self, session_id: str) -> EditorSession:
        if session_id not in self._sessions:
            raise NotFoundError(
                N_("The session {id} is not open here.", id=session_id[:80]), N_("Load or resume it first.")
            )
        return self._sessions[session_id]

    async def _open_known(self, params: Raw) -> EditorSession:
        """Open an earlier session by its whole id, or return it where it is open. Raises NotFoundError, BusyError."""
        given = decode_params(params, protocol.OpenSessionParams)
        async with self._changing:
            row = await self._app.services.store.sessions.get(given.session_id)
            if row is None:
                raise NotFoundError(N_("There is no session {id}.", id=given.session_id[:80]))
            tip = await self._app.services.store.sessions.find_tip(row.id)
            return self._sessions.get(tip) or await self._open(tip, given.cwd, given.mcp_servers)

    async def _open(self, name: str | None, cwd: str, servers: tuple[protocol.McpServerParams, ...]) -> EditorSession:
        self._check_room(cwd)
        forms = EditorForms(self._peer, self._capabilities)
        files = OfferedFiles(self._peer, self._capabilities)
        options = structs.replace(
            self._app.options,
            cwd=cwd,
            editor_files=files if files.can_read else None,
            handed_servers=convert_servers(servers),
        )
        actor = await self._app.open_session(name, asker=forms if forms.can_ask else None, options=options)
        forms.session_id = files.session_id = actor.session_id
        session = EditorSession(self._app, actor, self._peer, self._capabilities, forms, asks=self._asks)
        self._sessions[actor.session_id] = session
        return session

    def _check_room(self, cwd: str) -> None:
        """Raise BusyError where no further session may be open, UsageError for a folder that cannot be used."""
        if len(self._sessions) >= _MAX_LIVE:
            raise BusyError(N_("{n} sessions are open already.", n=_MAX_LIVE), N_("Close some."))
        if not _is_usable_folder(cwd):
            raise UsageError(N_("The folder {cwd} cannot be used: it must be absolute, and exist.", cwd=cwd[:200]))

    async def _close(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()
            await self._app.close_session(session.actor)


def _is_usable_folder(path: str) -> bool:
    return os.path.isabs(path) and os.path.isdir(path)


def _build_options(given: AcpOptions) -> SessionOptions:
    names = given.toolsets
    toolsets = None if names is None else tuple(one.strip() for one in names.split(",") if one.strip()) or ("",)
    return SessionOptions(
        platform=_PLATFORM,
        model=given.model,
        provider=given.provider,
        enabled_toolsets=toolsets,
        allow=given.allow,
        mode=WorkMode(given.mode),
        remembers=given.remembers,
        reviews=given.remembers,
        goes_on=True,
        keeps_unused=True,
    )


Method = Callable[[SessionTable, Raw], Awaitable[Update]]
METHODS: Mapping[str, Method] = {
    "session/new": SessionTable.create_session,
    "session/load": SessionTable.load_session,
    "session/resume": SessionTable.resume_session,
    "session/fork": SessionTable.fork_session,
    "session/list": SessionTable.list_sessions,
    "session/close": SessionTable.close_session,
    "session/delete": SessionTable.delete_session,
    "session/prompt": SessionTable.answer_prompt,
    "session/set_mode": SessionTable.set_mode,
    "session/set_config_option": SessionTable.set_option,
}
