"""The synchronous API: `AIAgent`, the agent as a plain object for scripts and notebooks.

It owns a loop in a thread of its own, so it works inside a running event loop, and `interrupt` may be called from any
thread. It uses the same runtime as every other front-end. The callbacks are views of its events: they are called in
that thread, one after the other, and should return at once; an exception in one is logged and disturbs no turn.
"""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TypeVar

import msgspec

from hermes.config.environment import copy_environment
from hermes.config.settings import ModelReference
from hermes.core.encoding import Plain
from hermes.core.errors import TurnError, UsageError
from hermes.core.events import ApprovalAsked, Event, RequestEnded, RequestStarted, ToolEnded, ToolStarted, TurnEnded
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.formats.openai_format import history_for_prompt
from hermes.sessions.options import SessionOptions
from hermes.sessions.python_library.credential_pool import PoolEntry, parse_credential_pool
from hermes.util.text import to_one_line

logger = logging.getLogger(__name__)
_SCOPES = {scope.value: scope for scope in AnswerScope}


@dataclass(kw_only=True)
class Callbacks:
    """The callbacks that a program may set. All are optional."""

    tool_progress_callback: Callable[[str, str, str], None] | None = None
    """`(event, tool name, preview)`; event is `tool.started` or `tool.completed`."""
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
    tool_gen_callback: Callable[[str], None] | None = None
    """Called with the name of a tool whose call has begun to arrive."""
    status_callback: Callable[[str, str], None] | None = None
    """`(state, detail)`; state is `thinking`, `executing` or `idle`."""
    approval_callback: Callable[[str, str], bool | str] | None = None
    """`(command, reason)` returns True or `once`, `session`, `always`; anything else denies."""


class CallbackAdapter:
    """Calls a program's callbacks for events."""

    def __init__(self, callbacks: Callbacks, actor: SessionActor, stream: Callable[[str], None] | None) -> None:
        self._callbacks = callbacks
        self._actor = actor
        self._stream = stream

    def __call__(self, event: Event) -> None:
        """Handle one event. Never raises."""
        try:
            self._dispatch_event(event)
        except Exception:  # a program's own code may raise anything, and its turn goes on all the same
            logger.exception("a callback failed on %s", type(event).__name__)

    def finish_turn(self, result: Mapping[str, object]) -> None:
        """Call the step callback after a turn."""
        if self._callbacks.step_callback is not None:
            self._callbacks.step_callback(result)

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
            case ToolStarted():
                self._report_progress("tool.started", event.name, event.summary)
                self._report_status("executing", event.name)
            case ToolEnded():
                self._report_progress("tool.completed", event.name, to_one_line(event.preview))
            case ApprovalAsked():
                self._request_approval(event)
            case TurnEnded():
                self._report_status("idle", event.reason.value)

    def _report_status(self, state: str, detail: str) -> None:
        if self._callbacks.status_callback is not None:
            self._callbacks.status_callback(state, detail)

    def _report_progress(self, what: str, name: str, preview: str) -> None:
        if self._callbacks.tool_progress_callback is not None:
            self._callbacks.tool_progress_callback(what, name, preview)

    def _request_approval(self, event: ApprovalAsked) -> None:
        """Ask in a thread: a person may take long to answer, and the turn's other calls go on meanwhile."""
        ask = self._callbacks.approval_callback
        if ask is None:
            return
        asked = asyncio.get_running_loop().run_in_executor(None, ask, event.subject, event.reason)

        def deliver_answer(future: "asyncio.Future[bool | str]") -> None:
            said = None if future.cancelled() or future.exception() is not None else future.result()
            self._actor.approvals.answer(event.approval_id, scope=_parse_scope(said), by="callback")

        asked.add_done_callback(deliver_answer)


class CallbackAsker:
    """Passes the questions of the `clarify` tool to a program's callback, in a thread of its own."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Return the callback's answer, or None where there is no callback."""
        callback = self._callbacks.clarify_callback
        return await asyncio.to_thread(callback, question, list(choices)) if callback is not None else None


def _parse_scope(value: bool | str | None) -> AnswerScope:
    """Return the approval scope that a callback's value means."""
    if value is True:
        return AnswerScope.ONCE
    return _SCOPES.get(value, AnswerScope.DENY) if isinstance(value, str) else AnswerScope.DENY


def _call_if_set(callback: Callable[[str], None] | None, text: str) -> None:
    if callback is not None:
        callback(text)


T = TypeVar("T")
MAX_ITERATIONS = 90
TOOL_DELAY = 1.0
"""The defaults that callers of such agents know; the signature shows them."""


@dataclass(kw_only=True)
class AIAgent(Callbacks):
    """A conversation with a model that has tools.

    Every option is optional; what is not given comes from `config.yaml` and the environment. Nothing is opened and no
    network is used before the first message. Use it as a context manager, or call `close`.
    """

    model: str = ""
    """The model's name, as its provider writes it."""
    provider: str = ""
    """A provider of the catalogue, or `custom` with `base_url`."""
    base_url: str = ""
    """The address of the provider's API."""
    api_key: str = field(default="", repr=False)
    """The API key of the provider."""
    api_mode: str = ""
    """The API format: `chat_completions`, `responses` (`codex_responses`) or `anthropic_messages`."""
    context_length: int | None = None
    """The size of the model's context window in tokens."""
    max_iterations: int = MAX_ITERATIONS
    """Model calls that one turn may make; the default means: as configured (`agent.max_turns`, 90)."""
    tool_delay: float = TOOL_DELAY
    """Seconds between tool calls that run one after the other; the default means: as configured
    (`agent.tool_delay`, 0).
    """
    enabled_toolsets: Sequence[str] | None = None
    """The tool sets that are on; None means the default ones."""
    disabled_toolsets: Sequence[str] | None = None
    """Tool sets that stay off."""
    reasoning_config: Mapping[str, object] | None = None
    """`{"effort": "low" | "medium" | "high"}`."""
    max_tokens: int | None = None
    """The most tokens that one answer may have."""
    temperature: float | None = None
    """The sampling temperature."""
    credential_pool: Sequence[PoolEntry] | None = field(default=None, repr=False)
    """Several keys for the provider, beside `api_key` when that is given. A key that is at its limit rests and
    another is used (`credential_pool_strategies` says which). An entry may also be a mapping of `api_key` and
    `organisation`: keys of one organisation are at its limits together.
    """
    fallback_model: Mapping[str, object] | str | Sequence[Mapping[str, object] | str] | None = None
    """The fallback models for when the first model fails: a name, or provider, model, base_url, api_key; or
    several of them.
    """
    platform: str = "api"
    """The kind of front-end; the prompt says which form of answer suits it."""
    session_id: str = ""
    """The session to continue, or the id of a new one; empty starts a fresh session."""
    allow: Sequence[str] = ()
    """Patterns of commands that run without approval."""
    ephemeral_system_prompt: str = ""
    """An addition to the system prompt that is sent with every request and never stored."""
    prefill_messages: Sequence[Mapping[str, object]] | None = None
    """Messages (`role`, `content`) that come first in every request and are never stored."""
    save_trajectories: bool = False
    """Whether every turn is also written as JSON to `trajectories/` in the home."""
    cwd: str = ""
    """The working folder; empty means that of the process."""

    def __post_init__(self) -> None:
        parse_credential_pool(self.credential_pool)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._app: App | None = None
        self._actor: SessionActor | None = None
        self._interrupted = threading.Event()
        self._task_id = ""
        self._interrupt_message: str | None = None
        self._unjoined: list[str] = []
        self._steering_task: asyncio.Task[bool] | None = None
        self._opening = asyncio.Lock()

    def chat(self, message: str) -> str:
        """Send a message and return the text of the final answer (empty when the turn was interrupted).

        Raises `TurnError`, which says what went wrong and what to do, when the turn gave no text at all.
        """
        result = self.run_conversation(message)
        final = str(result["final_response"])
        if result["failed"] and not final:
            raise TurnError(str(result["error"] or f"The turn ended as {result['turn_exit_reason']}."))
        return final

    def run_conversation(
        self,
        user_message: str,
        system_message: str | None = None,
        conversation_history: Sequence[Mapping[str, object]] | None = None,
        task_id: str | None = None,
        *,
        stream_callback: Callable[[str], None] | None = None,
    ) -> Plain:
        """Run one turn and return its result.

        `system_message` replaces the built prompt. `conversation_history` (dicts with role and content) goes
        before the message in a fresh session; without it the session's own history is used. `task_id` names an
        isolated set of resources (working folder, environment, processes): another id than before starts with
        fresh ones. The result holds `final_response`, `messages`, `completed`, `turn_exit_reason`, `api_calls`,
        token counts and more.
        """
        if not isinstance(user_message, str):
            raise UsageError("user_message must be text.")
        return self._run_in_loop(
            self._run_turn(user_message, system_message, conversation_history, task_id, stream_callback)
        )

    def interrupt(self, message: str | None = None) -> None:
        """Stop the running turn; may be called from any thread.

        `message` comes back as the result's `interrupt_message`, to be sent next.
        """
        self._interrupt_message = message
        self._interrupted.set()
        if self._loop is not None and self._actor is not None:
            self._loop.call_soon_threadsafe(self._actor.stop)

    def steer(self, text: str) -> bool:
        """Add a message to the running turn, from any thread; it joins when the next tools are done.

        Returns False when no turn runs. What could not join is in the result's `pending_steer`.
        """
        loop, actor = self._loop, self._actor
        if loop is None or actor is None or not text.strip():
            return False

        async def post_steering() -> bool:
            if not actor.busy:
                return False
            joined = actor.steer(InboundMessage(text=text), joins_only=True)
            joined.add_done_callback(lambda ended: self._unjoined.append(text) if ended.cancelled() else None)
            return True

        if threading.current_thread() is self._thread:  # from a callback: the turn is running
            self._steering_task = loop.create_task(post_steering())
            return True
        return asyncio.run_coroutine_threadsafe(post_steering(), loop).result()

    def clear_interrupt(self) -> None:
        """Clear the interrupt flag."""
        self._interrupted.clear()

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupt was requested since the last turn began."""
        return self._interrupted.is_set()

    def close(self) -> None:
        """Stop the running turn, close the store and the connections, and end the thread.

        Calling it twice is fine.
        """
        self._check_thread()
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None:
                return
            asyncio.run_coroutine_threadsafe(self._close_app(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._loop = self._thread = None
            atexit.unregister(self._at_exit)

    def __enter__(self) -> "AIAgent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _run_turn(
        self,
        text: str,
        system: str | None,
        history: Sequence[Mapping[str, object]] | None,
        task_id: str | None,
        stream: Callable[[str], None] | None,
    ) -> Plain:
        self._interrupted.clear()
        self._interrupt_message = None
        self._unjoined.clear()
        async with self._opening:  # two threads that begin at once share one session
            if self._app is None:
                self._app = await App(copy_environment(), self._build_options()).__aenter__()
            app = self._app
            task = task_id or self._task_id
            if self._actor is None or task != self._task_id or history is not None or system is not None:
                await self._open_session(app, system, history)
                self._task_id = task
            actor = self._actor
        assert actor is not None
        adapter = CallbackAdapter(self, actor, stream)
        unsubscribe = actor.subscribe(adapter)
        try:
            waiting = actor.post(InboundMessage(text=text, cwd=app.options.cwd))
            if self._interrupted.is_set():  # while the session was being opened
                actor.stop()
            ended = await waiting
        finally:
            unsubscribe()
        await asyncio.sleep(0)  # what could not join is given back in callbacks of the loop
        result = app.turn_result(actor, ended)
        result["interrupt_message"] = self._interrupt_message if ended.reason is ExitReason.INTERRUPTED else None
        result["pending_steer"] = "\n".join(self._unjoined) or None
        adapter.finish_turn(result)
        return result

    async def _open_session(self, app: App, system: str | None, history: Sequence[Mapping[str, object]] | None) -> None:
        messages = history_for_prompt(history) if history is not None else None
        actor, self._actor = self._actor, None
        if actor is not None:
            await app.close_session(actor)
        self._actor = await app.open_session(
            self.session_id or None,
            create=True,
            system=system,
            history=messages,
            asker=CallbackAsker(self) if self.clarify_callback is not None else None,
        )
        self.session_id = self._actor.session_id
        """The session to continue, or the id of a new one; empty starts a fresh session."""
        self._actor.approvals.can_ask = self.approval_callback is not None

    def _build_options(self) -> SessionOptions:
        shared = set(SessionOptions.__struct_fields__) & {spec.name for spec in fields(self)}
        given = {name: getattr(self, name) for name in shared}
        pool = parse_credential_pool(self.credential_pool)
        effort = (self.reasoning_config or {}).get("effort")
        given |= {
            "max_turns": self.max_iterations if self.max_iterations != MAX_ITERATIONS else None,
            "tool_delay": self.tool_delay if self.tool_delay != TOOL_DELAY else None,
            "cwd": self.cwd or os.getcwd(),
            "reasoning_effort": effort if isinstance(effort, str) else "",
            "allow": tuple(self.allow),
            "credential_pool": pool.more_keys,
            "key_organisations": pool.organisations,
            "enabled_toolsets": tuple(self.enabled_toolsets) if self.enabled_toolsets is not None else None,
            "disabled_toolsets": tuple(self.disabled_toolsets or ()),
            "fallback_models": _parse_fallback_models(self.fallback_model),
            "prefill_messages": tuple(history_for_prompt(self.prefill_messages or ())),
        }
        return SessionOptions(**given)

    def _run_in_loop(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the agent's own loop and wait for it; Ctrl-C stops the turn and is raised again."""
        try:
            self._check_thread()
        except UsageError:
            coroutine.close()
            raise
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._at_exit = partial(_close_at_exit, weakref.ref(self))
                atexit.register(self._at_exit)
                self._thread = threading.Thread(target=self._loop.run_forever, name="hermes", daemon=True)
                self._thread.start()
            loop = self._loop
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.interrupt()
            future.result()
            raise

    def _check_thread(self) -> None:
        """Raise UsageError in the agent's own thread, where callbacks run: waiting there would never end."""
        if threading.current_thread() is self._thread:
            raise UsageError("An agent cannot be asked or closed from its own callback.", "Do it after the turn.")

    async def _close_app(self) -> None:
        if self._app is not None:
            await self._app.__aexit__(None, None, None)
        self._app = self._actor = None


def _parse_fallback_models(
    given: Mapping[str, object] | str | Sequence[Mapping[str, object] | str] | None,
) -> tuple[ModelReference, ...]:
    """Parse the fallback models that a program names. Raises UsageError for what names none."""
    if not given:
        return ()
    named: list[object] = [given] if isinstance(given, str | Mapping) else list(given)
    named = [{"model": one} if isinstance(one, str) else one for one in named]
    try:
        return msgspec.convert(named, tuple[ModelReference, ...])
    except msgspec.ValidationError as error:
        raise UsageError(
            N_("fallback_model cannot be used: {error}.", error=error), "Give provider, model, base_url, api_key."
        ) from None


def _close_at_exit(agent: "weakref.ref[AIAgent]") -> None:
    """Close an agent that is still open when the interpreter ends."""
    if (left := agent()) is not None:
        left.close()
