"""The callbacks that people know from such agents, as views of the event stream.

They are called in the agent's own thread, one after the other, and should return at once; one that raises is logged
and does not disturb the turn.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hermes.core.events import ApprovalAsked, Event, RequestEnded, RequestStarted, ToolEnded, ToolStarted, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.runtime.actor import SessionActor
from hermes.util.text import one_line

logger = logging.getLogger(__name__)
_SCOPES = {scope.value: scope for scope in AnswerScope}


@dataclass(kw_only=True)
class Callbacks:
    """What a program may want to be told. All are optional."""

    tool_progress_callback: Callable[[str, str, str], None] | None = None
    """`(event, tool name, preview)`; event is `tool.started` or `tool.completed`."""
    thinking_callback: Callable[[str], None] | None = None
    """A text when the model starts to think, an empty one when it has answered."""
    reasoning_callback: Callable[[str], None] | None = None
    """More of the model's reasoning."""
    clarify_callback: Callable[[str, list[str]], str] | None = None
    """`(question, choices)` returns the answer to the `clarify` tool."""
    step_callback: Callable[[Mapping[str, object]], None] | None = None
    """The turn's result, after each turn."""
    stream_delta_callback: Callable[[str], None] | None = None
    """More of the answer's text."""
    tool_gen_callback: Callable[[str], None] | None = None
    """The name of a tool whose call has begun to arrive."""
    status_callback: Callable[[str, str], None] | None = None
    """`(state, detail)`; state is `thinking`, `executing` or `idle`."""
    approval_callback: Callable[[str, str], bool | str] | None = None
    """`(command, reason)` returns True or `once`, `session`, `always`; anything else means no."""


class CallbackAdapter:
    """Turns events into calls of a program's callbacks."""

    def __init__(self, callbacks: Callbacks, actor: SessionActor, stream: Callable[[str], None] | None) -> None:
        self._callbacks = callbacks
        self._actor = actor
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Show one event. Never raises."""
        try:
            self._show(event)
        except Exception:  # a program's own code may raise anything, and its turn goes on all the same
            logger.exception("a callback failed on %s", type(event).__name__)

    def step(self, result: Mapping[str, object]) -> None:
        """The turn is over."""
        if self._callbacks.step_callback is not None:
            self._callbacks.step_callback(result)

    def _show(self, event: Event) -> None:
        told = self._callbacks
        match event:
            case TextDelta():
                for callback in (told.stream_delta_callback, self._stream):
                    _tell(callback, event.text)
            case ReasoningDelta():
                _tell(told.reasoning_callback, event.text)
            case CallStarted():
                _tell(told.tool_gen_callback, event.name)
            case RequestStarted():
                _tell(told.thinking_callback, "thinking")
                self._status("thinking", "")
            case RequestEnded():
                _tell(told.thinking_callback, "")
            case ToolStarted():
                self._progress("tool.started", event.name, event.summary)
                self._status("executing", event.name)
            case ToolEnded():
                self._progress("tool.completed", event.name, one_line(event.preview))
            case ApprovalAsked():
                self._approve(event)
            case TurnEnded():
                self._status("idle", event.reason.value)

    def _status(self, state: str, detail: str) -> None:
        if self._callbacks.status_callback is not None:
            self._callbacks.status_callback(state, detail)

    def _progress(self, what: str, name: str, preview: str) -> None:
        if self._callbacks.tool_progress_callback is not None:
            self._callbacks.tool_progress_callback(what, name, preview)

    def _approve(self, event: ApprovalAsked) -> None:
        """Ask in a thread: a person's answer may take long, and the turn's other calls go on meanwhile."""
        ask = self._callbacks.approval_callback
        if ask is None:
            return
        asked = asyncio.get_running_loop().run_in_executor(None, ask, event.subject, event.reason)

        def answered(future: "asyncio.Future[bool | str]") -> None:
            said = None if future.cancelled() or future.exception() is not None else future.result()
            self._actor.approvals.answer(event.approval_id, scope=_scope(said), by="callback")

        asked.add_done_callback(answered)


class CallbackAsker:
    """Puts the questions of the `clarify` tool to a program's callback, in a thread of its own."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """The callback's answer; None where there is no callback."""
        callback = self._callbacks.clarify_callback
        return await asyncio.to_thread(callback, question, list(choices)) if callback is not None else None


def _scope(said: bool | str | None) -> AnswerScope:
    """The answer that a callback's value stands for."""
    if said is True:
        return AnswerScope.ONCE
    return _SCOPES.get(said, AnswerScope.DENY) if isinstance(said, str) else AnswerScope.DENY


def _tell(callback: Callable[[str], None] | None, text: str) -> None:
    if callback is not None:
        callback(text)
