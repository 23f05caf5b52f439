"""The synchronous API: `AIAgent`, the agent as a plain object for scripts and notebooks.

It owns a loop in a thread of its own, so it works inside a running event loop, and `interrupt` may be called from any
thread. It uses the same runtime as every other front-end. Its arguments stand in `docs/library.md`.
"""

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TypeVar

from hermes.config.environment import copy_environment
from hermes.core.encoding import Plain
from hermes.core.errors import TurnError, UsageError
from hermes.core.events import Event, Level, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App, find_sub_agents
from hermes.sessions.formats.openai_format import history_for_prompt
from hermes.sessions.options import SessionOptions
from hermes.sessions.python_library.argument_types import (
    EMPTY_WHEN_NONE,
    check_argument_types,
    check_callbacks,
    find_working_folder,
)
from hermes.sessions.python_library.callbacks import CallbackAdapter, CallbackAsker, Callbacks
from hermes.sessions.python_library.credential_pool import PoolEntry, parse_credential_pool
from hermes.sessions.python_library.function_tools import TOOLSET, ProgramTool, make_tools
from hermes.sessions.python_library.given_history import choose_session
from hermes.sessions.python_library.request_arguments import (
    parse_fallback_models,
    parse_reasoning,
    parse_request_members,
    resolve_trust,
)
from hermes.sessions.python_library.usual_arguments import UsualArguments, asks_for_something

_LOG = logging.getLogger(__name__)


T = TypeVar("T")


@dataclass(kw_only=True)
class AIAgent(Callbacks, UsualArguments):
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
    max_iterations: int | None = None
    """Model calls that one turn may make; None means: as configured (`agent.max_turns`, 90)."""
    tool_delay: float | None = None
    """Seconds between tool calls that run one after the other; None means: as configured (`agent.tool_delay`, 0)."""
    enabled_toolsets: Sequence[str] | None = None
    """The tool sets that are on; None means the default ones."""
    disabled_toolsets: Sequence[str] | None = None
    """Tool sets that stay off."""
    tools: Sequence[ProgramTool] = ()
    """The program's own tools: functions with type hints, or `Tool` objects, on beside all others."""
    reasoning_config: Mapping[str, object] | None = None
    """How the model thinks: `{"effort": "none" | "minimal" | "low" | "medium" | "high" | "xhigh"}`, or
    `{"max_tokens": 4096}`, or `{"enabled": False}`.
    """
    request_overrides: Mapping[str, object] | None = None
    """Members that are added to every request to the model, as its API names them."""
    service_tier: str | None = None
    """The `service_tier` of every request."""
    providers_allowed: Sequence[str] | None = None
    """OpenRouter: the only providers that may answer."""
    providers_ignored: Sequence[str] | None = None
    """OpenRouter: providers that may not answer."""
    providers_order: Sequence[str] | None = None
    """OpenRouter: the order in which providers are tried."""
    provider_sort: str | None = None
    """OpenRouter: `price`, `throughput` or `latency`."""
    provider_require_parameters: bool = False
    """OpenRouter: whether only providers that know every member of the request may answer."""
    provider_data_collection: str | None = None
    """OpenRouter: `allow` or `deny`."""
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
    skip_context_files: bool = False
    """Whether the project's files (`AGENTS.md` and others) and `SOUL.md` stay unread."""
    load_soul_identity: bool = False
    """Whether `SOUL.md` is read although `skip_context_files` is set."""
    skip_memory: bool = False
    """Whether there is no memory: neither notes nor a search over earlier sessions."""
    trust: bool | str | Sequence[str] = False
    """Folders whose files count as the person's own, for this agent: True for the working folder, or folders by name.
    `hermes trust` says it for good.
    """
    background_agents: bool = False
    """Whether sub-agents may go on in the background when a turn has ended: their reports then begin a turn by
    themselves, which the callbacks show. Without it every call of `delegate_task` is waited for.
    """
    save_trajectories: bool = False
    """Whether every turn is also written as JSON to `trajectories/` in the home."""
    cwd: str | os.PathLike[str] = ""
    """The working folder; empty means that of the process."""

    def __post_init__(self) -> None:
        self.check_usual_arguments()
        self._build_options()  # what cannot be used is said here, not at the first message
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._app: App | None = None
        self._actor: SessionActor | None = None
        self._interrupted = threading.Event()
        self._task_id = ""
        self._branched_from = ""
        self._told = 0
        self._interrupt_message: str | None = None
        self._unjoined: list[str] = []
        self._steering_task: asyncio.Task[bool] | None = None
        self._opening = asyncio.Lock()
        self._turns = 0
        """The turns that `run_conversation` waits for."""

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
        stream_callback: Callable[[str], None] | None = None,
        **others: object,
    ) -> Plain:
        """Run one turn and return its result.

        `system_message` replaces the built prompt. `conversation_history` (dicts with role and content) goes
        before the message in a fresh session; one that says what the session has said goes on in it, and any other
        begins a branch, whose id is the result's `session_id`. Without it the session's own history is used. `task_id`
        names an isolated set of resources (working folder, environment, processes): another id than before starts with
        fresh ones. The result holds `final_response`, `messages`, `completed`, `turn_exit_reason`, `api_calls`,
        token counts and more.
        """
        if not isinstance(user_message, str):
            raise UsageError("user_message must be text.")
        if not user_message.strip():
            raise UsageError("user_message is empty.")
        if not isinstance(system_message, str | None):
            raise UsageError("system_message must be text.")
        check_callbacks({"stream_callback": stream_callback})
        for name, value in others.items():
            if asks_for_something(value):
                raise UsageError(N_("run_conversation takes no {name}.", name=name), "docs/library.md lists them.")
        return self._run_in_loop(
            self._run_turn(user_message, system_message, conversation_history, task_id, stream_callback)
        )

    def interrupt(self, message: str | None = None) -> None:
        """Stop the running turn with the sub-agents for which it waits, or, when none runs, the sub-agents in the
        background; may be called from any thread.

        `message` comes back as the result's `interrupt_message`, to be sent next.
        """
        self._interrupt_message = message
        self._interrupted.set()
        if self._loop is not None and self._actor is not None:
            self._loop.call_soon_threadsafe(self._stop_work)

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

    def _stop_work(self) -> None:
        """Stop the running turn; without one the sub-agents in the background."""
        if self._app is None or self._actor is None or self._actor.stop():
            return
        if (team := find_sub_agents(self._app, self._actor.session_id)) is not None:
            team.stop_all()

    def clear_interrupt(self) -> None:
        """Clear the interrupt flag."""
        self._interrupted.clear()

    @property
    def has_turn(self) -> bool:
        """Whether `run_conversation` waits for a turn."""
        return self._turns > 0

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
            self._loop = self._thread = None
            atexit.unregister(self._at_exit)

    def __del__(self) -> None:
        """Close an agent that a program has dropped, without waiting for it."""
        loop: asyncio.AbstractEventLoop | None = getattr(self, "_loop", None)  # none where an argument was refused
        if loop is not None and loop.is_running():
            atexit.unregister(self._at_exit)
            asyncio.run_coroutine_threadsafe(_close_dropped(self._app, loop), loop)

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
                self._told = 0
            app = self._app
            task = task_id or self._task_id
            if self._actor is None or task != self._task_id or history is not None or system is not None:
                await self._open_session(app, system, history)
                self._task_id = task
            actor = self._actor
        assert actor is not None
        adapter = CallbackAdapter(self, actor, stream)
        unsubscribe = actor.subscribe(adapter)
        self._turns += 1
        try:
            waiting = actor.post(InboundMessage(text=text, cwd=app.options.cwd))
            if self._interrupted.is_set():  # while the session was being opened
                actor.stop()
            ended = await waiting
        finally:
            self._turns -= 1
            unsubscribe()
        await asyncio.sleep(0)  # what could not join is given back in callbacks of the loop
        result = app.turn_result(actor, ended)
        result["interrupt_message"] = self._interrupt_message if ended.reason is ExitReason.INTERRUPTED else None
        result["pending_steer"] = "\n".join(self._unjoined) or None
        result["branched_from"] = self._branched_from or None
        adapter.finish_turn(result)
        return result

    async def _open_session(self, app: App, system: str | None, history: Sequence[Mapping[str, object]] | None) -> None:
        messages = history_for_prompt(history) if history is not None else None
        actor, self._actor, self._branched_from = self._actor, None, ""
        if actor is not None:
            await app.close_session(actor)
        if messages is not None:
            options = app.options
            chosen = await choose_session(
                app.services.store, self.session_id, messages, now=time.time(), cwd=options.cwd, person=options.person
            )
            self.session_id, messages, self._branched_from = chosen.session_id, [*chosen.history], chosen.branched_from
        try:
            self._actor = await app.open_session(
                self.session_id or None,
                create=True,
                system=system,
                history=messages,
                asker=CallbackAsker(self) if self.clarify_callback is not None else None,
            )
        finally:
            self._tell_notices(app)
        self.session_id = self._actor.session_id
        self._actor.approvals.can_ask = self.approval_callback is not None
        if self.background_agents:
            self._actor.subscribe(_BetweenTurns(self, app, self._actor))

    def _tell_notices(self, app: App) -> None:
        """Tell the program, once each, what was learned while sessions were opened."""
        fresh, self._told = app.notices[self._told :], len(app.notices)
        for line in fresh:
            try:
                self.tell_notice(Level.WARNING, line)
            except Exception:  # noqa: BLE001 - a program's own code may raise anything
                _LOG.exception("the notice callback failed")

    def _build_options(self) -> SessionOptions:
        """Build the options of the App. Raises UsageError for an argument that cannot be used."""
        shared = set(SessionOptions.__struct_fields__) & {spec.name for spec in fields(self)}
        arguments = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        check_argument_types(arguments)
        check_callbacks({spec.name: arguments[spec.name] for spec in fields(Callbacks)})
        given = {name: arguments[name] for name in shared}
        given |= {name: arguments[name] or "" for name in shared.intersection(EMPTY_WHEN_NONE)}
        pool = parse_credential_pool(self.credential_pool)
        effort, reasoning_tokens = parse_reasoning(self.reasoning_config)
        tools = make_tools(self.tools)
        enabled = None if self.enabled_toolsets is None else (*self.enabled_toolsets, *([TOOLSET] if tools else []))
        cwd = find_working_folder(self.cwd)
        given |= {
            "max_turns": _check_number("max_iterations", self.max_iterations, least=1),
            "tool_delay": _check_number("tool_delay", self.tool_delay, least=0),
            "cwd": cwd,
            "reasoning_effort": effort,
            "reasoning_tokens": reasoning_tokens,
            "request_members": parse_request_members(self),
            "goes_on": self.background_agents,
            "skip_identity": self.skip_context_files and not self.load_soul_identity,
            "remembers": not self.skip_memory,
            "trusted_folders": resolve_trust(self.trust, cwd),
            "extra_tools": tools,
            "allow": tuple(self.allow),
            "credential_pool": pool.more_keys,
            "key_organisations": pool.organisations,
            "enabled_toolsets": enabled,
            "disabled_toolsets": tuple(self.disabled_toolsets or ()),
            "fallback_models": parse_fallback_models(self.fallback_model),
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
                self._thread = threading.Thread(target=_run_loop, args=(self._loop,), name="hermes", daemon=True)
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


class _BetweenTurns:
    """Calls an agent's callbacks for what happens while `run_conversation` waits for no turn: sub-agents in the
    background work, and their reports begin a turn. It keeps no agent alive that its program has dropped.
    """

    def __init__(self, agent: AIAgent, app: App, actor: SessionActor) -> None:
        self._agent = weakref.ref(agent)
        self._app = app
        self._actor = actor
        self._adapter = CallbackAdapter(weakref.proxy(agent), actor)

    def __call__(self, event: Event) -> None:
        """Handle one event."""
        agent = self._agent()
        if agent is None or agent.has_turn:
            return
        self._adapter(event)
        if isinstance(event, TurnEnded):
            self._adapter.finish_turn(self._app.turn_result(self._actor, event))


N = TypeVar("N", int, float)


def _check_number(name: str, value: N | None, *, least: int) -> N | None:
    """Return a number that is at least so much, or None. Raises UsageError for anything else."""
    given: object = value
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool) and least <= given < 1e9):
        return value
    raise UsageError(
        N_("{name} must be a number from {least} on, not {value}.", name=name, least=least, value=repr(value)[:40])
    )


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _close_dropped(app: App | None, loop: asyncio.AbstractEventLoop) -> None:
    """Close what an agent had open that nobody holds any more, and end its loop."""
    try:
        if app is not None:
            await app.__aexit__(None, None, None)
    finally:
        loop.stop()


def _close_at_exit(agent: "weakref.ref[AIAgent]") -> None:
    """Close an agent that is still open when the interpreter ends."""
    if (left := agent()) is not None:
        left.close()
