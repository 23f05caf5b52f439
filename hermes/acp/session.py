"""One session of an editor: its prompts, their answers, and how they are cancelled."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hermes.acp.calls import CallProjection, Update
from hermes.acp.commands import EditorCommandContext, list_available_commands, run_typed_command
from hermes.acp.config_options import ConfigOptions
from hermes.acp.prompt_content import build_inbound
from hermes.acp.protocol import ClientCapabilities, ContentBlock, TextBlock
from hermes.acp.questions import EditorForms, EditorQuestions
from hermes.acp.session_projection import SessionProjection, format_moment
from hermes.core.errors import HermesError
from hermes.core.events import Event, Level, ToolEnded, TurnEnded
from hermes.core.json_rpc import INTERNAL_ERROR, RpcError
from hermes.core.messages import Message
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_, join_sentences, localize
from hermes.ipc.rpc_peer import RpcPeer
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage, OwnWords
from hermes.sessions.app import App, withdraw_newest
from hermes.sessions.editors.edit_previews import EditPreview, preview_edits
from hermes.sessions.editors.embedded_texts import EmbeddedTexts
from hermes.sessions.egress_filter import EgressTextFilter
from hermes.util.cancellation import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hermes.core.sub_agents import BackgroundEnd

_STOP_REASONS = {
    ExitReason.TEXT_RESPONSE: "end_turn",
    ExitReason.PRIOR_CONTENT: "end_turn",
    ExitReason.INTERRUPTED: "cancelled",
    ExitReason.TRUNCATED: "max_tokens",
    ExitReason.THINKING_EXHAUSTED: "max_tokens",
    ExitReason.BUDGET_EXHAUSTED: "max_turn_requests",
    ExitReason.GUARDRAIL_HALT: "max_turn_requests",
}
_LOG = logging.getLogger(__name__)
_PATIENCE = 0.05
"""Seconds after which a stopped turn's tools get no more time."""
_WINDOW_SECONDS = 1.0
"""Seconds in which the size of the model's window must be known to be shown."""
_CANCELLED: Update = {"stopReason": "cancelled"}


class _StoredStep(Struct):
    content: str
    status: str = "pending"


class _Prompt:
    """A prompt that waits for its answer."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.preparation: asyncio.Task[list[InboundMessage]] | None = None
        self.ended: asyncio.Future[TurnEnded] | None = None


class EditorSession:
    """A live session that an editor shows. `close` ends its tasks, not the session."""

    def __init__(
        self,
        app: App,
        actor: SessionActor,
        peer: RpcPeer,
        capabilities: ClientCapabilities,
        forms: EditorForms,
        *,
        asks: bool,
    ) -> None:
        self.actor = actor
        self.options = ConfigOptions(app, actor)
        self._app = app
        self._peer = peer
        self._forms = forms
        self._own_words = OwnWords()
        self._prompts: list[_Prompt] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_title: object = None
        self._view = SessionProjection(
            self.send_update,
            CallProjection(_SessionPlaces(app, actor), shows_terminals=capabilities.shows_terminals),
            lambda: EgressTextFilter(app, actor),
            self._own_words.take,
            shows_notices=capabilities.shows_notices,
        )
        self._questions = EditorQuestions(peer, actor, self._view)
        actor.approvals.can_ask = asks
        actor.subscribe(self._handle_event)

    def send_update(self, update: Update) -> None:
        """Tell the editor what has changed."""
        self._peer.notify("session/update", {"sessionId": self.actor.session_id, "update": update})

    def describe_state(self) -> Update:
        """Return what the editor is told when the session is opened."""
        return {"modes": self.options.describe_modes(), "configOptions": self.options.describe_all()}

    def show_history(self, messages: Sequence[Message]) -> None:
        """Send all messages of the session."""
        self._view.show_history(messages)

    def announce(self) -> None:
        """Send what the editor may know once it knows the session: its commands, what Hermes noticed."""
        self._start_task(self._announce())

    async def answer_prompt(self, blocks: Sequence[ContentBlock]) -> Update:
        """Answer a prompt: run its command, or have the session answer it, and return why it ended. Cancelling stops
        its turn. Raises RpcError where the turn failed, UsageError, BusyError.
        """
        prompt = _Prompt()
        self._prompts.append(prompt)
        try:
            prompt.preparation = asyncio.create_task(self._prepare(blocks))
            await asyncio.wait({prompt.preparation})
            if prompt.preparation.cancelled() or prompt.is_cancelled:
                return _CANCELLED
            last: Update = {"stopReason": "end_turn"}
            for inbound in prompt.preparation.result():
                last = await self._post(prompt, inbound)
            return last
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._prompts.remove(prompt)

    def cancel(self) -> None:
        """Stop what runs, and take back what waits: every prompt ends as cancelled."""
        for prompt in self._prompts:
            prompt.is_cancelled = True
            if prompt.preparation is not None:
                prompt.preparation.cancel()
        self._questions.refuse_all()
        if self.actor.stop():
            asyncio.get_running_loop().call_later(_PATIENCE, self._stop_at_once, self.actor.current_turn_end)
        self._start_task(self._withdraw_waiting())

    async def set_mode(self, name: str) -> None:
        """Set the mode, and tell the editor. Raises UsageError."""
        self.options.set_mode(name)
        self.send_update({"sessionUpdate": "config_option_update", "configOptions": self.options.describe_all()})

    async def show_report(self, end: "BackgroundEnd") -> None:
        """Show how a background session has ended, and its answer."""
        from hermes.commands.texts.sub_agent_texts import tell_background_end

        tell_background_end(self._make_context(), end)

    async def close(self) -> None:
        """Stop what runs, and end all tasks."""
        self.cancel()
        await self._questions.close()
        await cancel_tasks([*self._tasks])

    async def _prepare(self, blocks: Sequence[ContentBlock]) -> list[InboundMessage]:
        """Return what is posted for a prompt: nothing for a command that is done."""
        first = blocks[0].text if blocks and isinstance(blocks[0], TextBlock) else ""
        if first.startswith("/"):
            before = self.options.describe_all(), self.options.mode
            context = self._make_context()
            text = "".join(one.text for one in blocks if isinstance(one, TextBlock))
            try:
                is_done = await run_typed_command(context, text)
            except HermesError as error:
                context.tell(join_sentences(localize(error.message), localize(error.hint)), Level.WARNING)
                is_done = True
            if is_done:
                self._tell_changes(*before)
                return context.posted
        live = self._app.live_session(self.actor)
        return [build_inbound(blocks, live.options.cwd or os.getcwd(), EmbeddedTexts(live.tools.context))]

    async def _post(self, prompt: _Prompt, inbound: InboundMessage) -> Update:
        if inbound.text:
            self._own_words.add(inbound.text)
        prompt.ended = self.actor.post(inbound)
        await asyncio.wait({prompt.ended})
        if prompt.ended.cancelled():
            return _CANCELLED
        ended = prompt.ended.result()
        await self._tell_totals(ended)
        if ended.reason is ExitReason.INTERRUPTED or prompt.is_cancelled:
            return _CANCELLED
        reason = _STOP_REASONS.get(ended.reason)
        if reason is None:
            raise RpcError(INTERNAL_ERROR, localize(ended.error) or ended.reason.value, {"reason": ended.reason.value})
        if ended.error:
            self._view.show_notice(Level.WARNING, ended.error)
        return {"stopReason": reason}

    def _stop_at_once(self, turn: object) -> None:
        """Give the tools of a turn that was stopped no more time."""
        if turn is not None and self.actor.current_turn_end is turn:
            self.actor.stop()

    async def _withdraw_waiting(self) -> None:
        mine = {id(one.ended) for one in self._prompts if one.ended is not None}
        while waiting := [*self.actor.mailbox]:
            if id(waiting[-1].ended) not in mine or await withdraw_newest(self._app, self.actor) is None:
                return

    def _handle_event(self, event: Event) -> None:
        self._view.show_event(event)
        self._questions.handle_event(event)
        if isinstance(event, ToolEnded) and event.name == "todo":
            self._start_task(self._show_plan())

    async def _show_plan(self) -> None:
        stored = await self._app.services.store.todo_lists.get(self.actor.session_id)
        if stored is not None:
            steps = msgspec.json.decode(stored, type=list[_StoredStep])
            self._view.show_plan([(one.content, one.status) for one in steps])

    async def _tell_totals(self, ended: TurnEnded) -> None:
        """Send the title, what fills the model's window, and the money; after what is still on its way."""
        if self._tasks:
            await asyncio.wait([*self._tasks])
        row = await self._app.session_row(self.actor)
        if row.get("title") and row["title"] != self._last_title:
            self._last_title = row["title"]
            update = {"sessionUpdate": "session_info_update", "title": row["title"]}
            self.send_update({**update, "updatedAt": format_moment(float(str(row["updated_at"])))})
        size = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WINDOW_SECONDS):
                size = await self._app.context_length(self.actor)
        if size:
            used = ended.last_prompt_tokens + ended.usage.output
            usage: Update = {"sessionUpdate": "usage_update", "used": used, "size": size}
            cost = row.get("cost_usd")
            self.send_update(usage if cost is None else {**usage, "cost": {"amount": cost, "currency": "USD"}})

    def _tell_changes(self, options: list[Update], mode: str) -> None:
        """Tell the editor what a command has changed of the options."""
        now = self.options.describe_all()
        if now != options:
            self.send_update({"sessionUpdate": "config_option_update", "configOptions": now})
        if self.options.mode != mode:
            self.send_update({"sessionUpdate": "current_mode_update", "currentModeId": self.options.mode})

    async def _announce(self) -> None:
        context = self._make_context()
        commands = await list_available_commands(self._app, context.prompt_scope)
        self.send_update({"sessionUpdate": "available_commands_update", "availableCommands": commands})
        if self.actor.unfinished:
            said = N_("A turn was cut off here. It goes on with your next message.")
            self._view.show_notice(Level.WARNING, said)

    def _make_context(self) -> EditorCommandContext:
        return EditorCommandContext(self._app, self.actor, self._forms, self._view.show_own_text)

    def _start_task(self, work: "Coroutine[object, object, None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.warning("the editor was not told everything", exc_info=error)


class _SessionPlaces:
    """What is known of the files of a session's calls."""

    def __init__(self, app: App, actor: SessionActor) -> None:
        self._app = app
        self._actor = actor

    @property
    def cwd(self) -> str:
        """The folder in which commands run now."""
        return str(self._app.live_session(self._actor).tools.state.cwd)

    def resolve_path(self, path: str) -> str:
        """Return the absolute path that a call means."""
        return self._app.live_session(self._actor).tools.context.resolve_path(path)

    def preview_edits(self, name: str, arguments: str) -> list[EditPreview]:
        """Return what a call is about to do to files."""
        return preview_edits(self._app.live_session(self._actor).tools.context, name, arguments)
