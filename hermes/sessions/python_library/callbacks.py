"""The callbacks of a program that uses `AIAgent`: views of a session's events.

They are called in the agent's own thread, one after the other, and should return at once. An exception in one is
logged and disturbs no turn.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hermes.core.events import (
    ApprovalAsked,
    Event,
    Level,
    MessageAppended,
    Notice,
    RequestEnded,
    RequestStarted,
    SubAgentChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes.core.messages import Message, Role
from hermes.core.outcomes import AnswerScope
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.core.sub_agents import SubAgentState
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)
_SCOPES = {scope.value: scope for scope in AnswerScope}
_LEVELS = {Level.INFO: logging.INFO, Level.WARNING: logging.WARNING, Level.ERROR: logging.ERROR}


@dataclass(kw_only=True)
class Callbacks:
    """The callbacks that a program may set. All are optional."""

    tool_progress_callback: Callable[[str, str, str], None] | None = None
    """`(event, name, preview)`; event is `tool.started` or `tool.completed`, with the tool's name, or
    `sub_agent.started`, `sub_agent.progress` or `sub_agent.completed`, with the sub-agent's.
    """
    tool_start_callback: Callable[[str, str, Mapping[str, object]], None] | None = None
    """`(call id, tool name, arguments)`, when a call has passed the gate and runs."""
    tool_complete_callback: Callable[[str, str, Mapping[str, object], str], None] | None = None
    """`(call id, tool name, arguments, first lines of the result)`, when a call has ended."""
    thinking_callback: Callable[[str], None] | None = None
    """Called with a text when the model starts to think, with an empty one when it has answered."""
    reasoning_callback: Callable[[str], None] | None = None
    """Called with each piece of the model's reasoning."""
    clarify_callback: Callable[[str, list[str]], str] | None = None
    """`(question, choices)` returns the answer to the `clarify` tool."""
    step_callback: Callable[[Mapping[str, object]], None] | None = None
    """Called with the turn's result after each turn."""
    stream_delta_callback: Callable[[str], None] | None = None
    """Called with each piece of the answer's text."""
    interim_assistant_callback: Callable[[str], None] | None = None
    """Called with what the model says beside its tool calls, before they run."""
    tool_gen_callback: Callable[[str], None] | None = None
    """Called with the name of a tool whose call has begun to arrive."""
    status_callback: Callable[[str, str], None] | None = None
    """`(state, detail)`; state is `thinking`, `executing` (a tool, or a sub-agent and what it does) or `idle`."""
    notice_callback: Callable[[str, str], None] | None = None
    """`(level, text)` of what a person should know; level is `info`, `warning` or `error`. Without it notices are
    logged.
    """
    approval_callback: Callable[[str, str], bool | str] | None = None
    """`(command, reason)` returns True or `once`, `session`, `always`; anything else denies. Where a sub-agent asks,
    the reason begins with its name.
    """

    def tell_notice(self, level: Level, text: str) -> None:
        """Tell the program what a person should know: by its callback, else by the log."""
        if self.notice_callback is None:
            _LOG.log(_LEVELS[level], "%s", text)
        else:
            self.notice_callback(level.value, text)


class CallbackAdapter:
    """Calls a program's callbacks for events."""

    def __init__(self, callbacks: Callbacks, actor: SessionActor, stream: Callable[[str], None] | None = None) -> None:
        self._callbacks = callbacks
        self._actor = actor
        self._stream = stream
        self._arguments: dict[str, Mapping[str, object]] = {}
        self._begun: set[str] = set()
        """The sub-agents whose beginning was told."""

    def __call__(self, event: Event) -> None:
        """Handle one event. Never raises."""
        try:
            self._dispatch_event(event)
        except Exception:  # noqa: BLE001 - a program's own code may raise anything, and its turn goes on all the same
            _LOG.exception("a callback failed on %s", type(event).__name__)

    def finish_turn(self, result: Mapping[str, object]) -> None:
        """Call the step callback after a turn. Never raises: the program gets the result in any case."""
        if self._callbacks.step_callback is None:
            return
        try:
            self._callbacks.step_callback(result)
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("the step callback failed")

    def _dispatch_event(self, event: Event) -> None:
        callbacks = self._callbacks
        match event:
            case TextDelta():
                for callback in (callbacks.stream_delta_callback, self._stream):
                    _call_if_set(callback, event.text)
            case ReasoningDelta():
                _call_if_set(callbacks.reasoning_callback, event.text)
            case CallStarted():
                _call_if_set(callbacks.tool_gen_callback, event.name)
            case RequestStarted():
                _call_if_set(callbacks.thinking_callback, "thinking")
                self._report_status("thinking", "")
            case RequestEnded():
                _call_if_set(callbacks.thinking_callback, "")
            case ToolStarted() | ToolEnded():
                self._report_tool(event)
            case TurnEnded():
                self._report_status("idle", event.reason.value)
            case _:
                self._dispatch_other_event(event)

    def _dispatch_other_event(self, event: Event) -> None:
        match event:
            case MessageAppended():
                self._report_interim(event.message)
            case Notice():
                self._callbacks.tell_notice(event.level, event.text)
            case ApprovalAsked():
                self._request_approval(event)
            case SubAgentChanged():
                self._report_sub_agent(event)
            case _:
                pass

    def _report_status(self, state: str, detail: str) -> None:
        if self._callbacks.status_callback is not None:
            self._callbacks.status_callback(state, detail)

    def _report_tool(self, event: ToolStarted | ToolEnded) -> None:
        callbacks = self._callbacks
        if isinstance(event, ToolStarted):
            if callbacks.tool_start_callback is not None or callbacks.tool_complete_callback is not None:
                self._arguments[event.call_id] = _decode_arguments(event.arguments)
            if callbacks.tool_start_callback is not None:
                callbacks.tool_start_callback(event.call_id, event.name, self._arguments[event.call_id])
            self._report_progress("tool.started", event.name, event.summary)
            self._report_status("executing", event.name)
            return
        given = self._arguments.pop(event.call_id, {})
        if callbacks.tool_complete_callback is not None:
            callbacks.tool_complete_callback(event.call_id, event.name, given, event.preview)
        self._report_progress("tool.completed", event.name, to_one_line(event.preview))

    def _report_sub_agent(self, event: SubAgentChanged) -> None:
        if event.state is SubAgentState.QUEUED:
            return
        if event.state.has_ended:
            self._begun.discard(event.session_id)
            said = f"{event.state.value}: {event.doing}" if event.doing else event.state.value
            self._report_progress("sub_agent.completed", event.name, said)
            return
        if event.session_id not in self._begun:
            self._begun.add(event.session_id)
            self._report_progress("sub_agent.started", event.name, "")
        if event.doing:
            self._report_progress("sub_agent.progress", event.name, event.doing)
            self._report_status("executing", f"{event.name}: {event.doing}")

    def _report_progress(self, what: str, name: str, preview: str) -> None:
        if self._callbacks.tool_progress_callback is not None:
            self._callbacks.tool_progress_callback(what, name, preview)

    def _report_interim(self, message: Message) -> None:
        callback = self._callbacks.interim_assistant_callback
        if callback is not None and message.role is Role.ASSISTANT and message.text and any(message.tool_calls()):
            callback(message.text)

    def _request_approval(self, event: ApprovalAsked) -> None:
        """Ask in a thread: a person may take long to answer, and the turn's other calls go on meanwhile."""
        ask = self._callbacks.approval_callback
        if ask is None:
            return
        reason = event.reason
        if event.asker:
            reason = N_("Sub-agent {name}: {said}", name=to_one_line(event.asker), said=reason)
        asked = asyncio.get_running_loop().run_in_executor(None, ask, event.subject, reason)

        def deliver_answer(future: "asyncio.Future[bool | str]") -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None:
                _LOG.error("the approval callback failed, which counts as a no", exc_info=error)
            said = None if future.cancelled() or error is not None else future.result()
            self._actor.approvals.answer(event.approval_id, scope=_parse_scope(said), by="callback")

        asked.add_done_callback(deliver_answer)


class CallbackAsker:
    """Passes the questions of the `clarify` tool to a program's callback, in a thread of its own."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Return the callback's answer, or None where there is no callback, or it failed."""
        callback = self._callbacks.clarify_callback
        if callback is None:
            return None
        try:
            return await asyncio.to_thread(callback, question, list(choices))
        except Exception:  # noqa: BLE001 - a program's own code may raise anything; the model is told that nobody answered
            _LOG.exception("the clarify callback failed")
            return None


def _decode_arguments(text: str) -> Mapping[str, object]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, object])
    except msgspec.MsgspecError:
        return {}


def _parse_scope(value: bool | str | None) -> AnswerScope:
    """Return the approval scope that a callback's value means."""
    if value is True:
        return AnswerScope.ONCE
    return _SCOPES.get(value, AnswerScope.DENY) if isinstance(value, str) else AnswerScope.DENY


def _call_if_set(callback: Callable[[str], None] | None, text: str) -> None:
    if callback is not None:
        callback(text)
