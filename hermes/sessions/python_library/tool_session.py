"""A session whose tools a program calls itself: no model is asked, and nobody answers questions."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.config.environment import merge_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.encoding import to_json
from hermes.core.errors import UsageError
from hermes.core.ids import new_call_id
from hermes.core.messages import ToolCallPart, ToolResultPart
from hermes.i18n.messages import N_
from hermes.providers.resolve import is_configured
from hermes.sessions.app import App
from hermes.sessions.model.model_route import choose_model
from hermes.sessions.options import SessionOptions
from hermes.sessions.session_tools import approval_mode
from hermes.sessions.shell_escape import NullJournal
from hermes.tools.effect_marks import EffectMarks
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.gate import CallReviewer
from hermes.tools.registry import Toolbox
from hermes.tools.taint import sources_from_provenance

if TYPE_CHECKING:
    from hermes.hooks.hook import HookSource
    from hermes.hooks.session_hooks import SessionHooks
    from hermes.sessions.session_builder import LiveSession

_IN_CALL: ContextVar[bool] = ContextVar("in_call", default=False)
_NO_MODEL = {
    "provider": "custom",
    "base_url": "http://127.0.0.1:9/v1",
    "model": "none",
    "api_key": "none",
    "context_length": 100_000,
}
"""The model of a home that has none: tools are called without one."""


def check_not_in_call() -> None:
    """Raise UsageError inside of a tool that a session of this kind runs: its calls wait for each other, so a call from
    there would wait for itself. A thread that such a tool starts by `asyncio.to_thread` counts as inside.
    """
    if _IN_CALL.get():
        raise UsageError(
            N_("A tool cannot call another tool in this way."), N_("Call what both need as a plain function of yours.")
        )


class ToolSession:
    """Calls tools as a model's calls are made: through hooks, the permission gate and the executor.

    What would need a person's answer is refused. Untrusted content that a call brings counts for the calls that follow.
    It is an async context; with a home that has no model it works, too. `hooks` are asked beside those of the home.
    """

    def __init__(
        self, environ: Mapping[str, str], options: SessionOptions, *, hooks: "Sequence[HookSource]" = ()
    ) -> None:
        self._environ = environ
        self._options = options
        self._sources = hooks
        self._stack = AsyncExitStack()
        self._calls = asyncio.Lock()
        self._marks = EffectMarks()
        self._live: LiveSession
        self._executor: Executor
        self.notices: list[str] = []
        """Lines for the person: about what could not be used, and of hooks."""

    async def __aenter__(self) -> "ToolSession":
        async with AsyncExitStack() as stack:
            app = await stack.enter_async_context(App(self._environ, self._choose_options()))
            actor = await app.open_session()
            live = self._live = app.live_session(actor)
            self.notices += app.notices
            reviewer = self._build_reviewer(app)
            self._executor = Executor(live.tools.toolbox, live.tools.gate, reviewer=reviewer, marks=self._marks)
            hooks = self._executor.hooks = self._open_hooks()
            if hooks is not None and hooks is not live.hooks:
                stack.push_async_callback(hooks.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._marks.settle(self._live.tools.context)
        await self._stack.aclose()

    @property
    def toolbox(self) -> Toolbox:
        """The tools of the session."""
        return self._live.tools.toolbox

    async def call(self, name: str, arguments: Mapping[str, object] | str) -> ToolResultPart:
        """Call a tool and return its result, which says why where it was refused or failed.

        `arguments` are an object, or its JSON text. Calls run one after another. Cancelling ends the call. Raises
        UsageError from inside a tool.
        """
        check_not_in_call()
        raw = arguments if isinstance(arguments, str) else to_json(arguments).decode()
        async with self._calls:
            if self.toolbox.servers and self.toolbox.find(name) is None:
                await self.toolbox.wait_for_tools()
            batch = CallBatch((ToolCallPart(call_id=new_call_id(), name=name, arguments=raw),))
            token = _IN_CALL.set(True)
            try:
                context = self._live.tools.context
                await self._executor.run(batch, context, NullJournal(), lambda _event: None)
            finally:
                _IN_CALL.reset(token)
            (result,) = batch.collect_results()
            if result.provenance is not None and result.provenance.is_untrusted:
                context.state.taint.add_sources(sources_from_provenance(result.provenance))
            return result

    def _choose_options(self) -> SessionOptions:
        """Return the options, with a model that is never asked where the home has none."""
        home = locate_home(self._environ)
        settings = load_settings(home).settings
        choice = choose_model(settings.model, self._options)
        if is_configured(choice, merge_dotenv(self._environ, home.env_file)):
            return self._options
        return structs.replace(self._options, **_NO_MODEL)

    def _build_reviewer(self, app: App) -> CallReviewer | None:
        """Return the model that looks at what the rules allow, where the approval mode is `smart`."""
        settings = app.services.settings
        if approval_mode(settings) != "smart":
            return None
        from hermes.runtime.reviewer import ModelReviewer

        task = app.services.create_side_task("approval", settings.auxiliary.approval, self._live.meter, lambda: None)
        return ModelReviewer(task)

    def _open_hooks(self) -> "SessionHooks | None":
        """Return the hooks of the session, with those that were given beside them."""
        live = self._live
        if not self._sources:
            return live.hooks
        if live.hooks is not None:
            live.hooks.dispatcher.add_sources(self._sources)
            return live.hooks
        from hermes.hooks.dispatcher import HookDispatcher
        from hermes.hooks.session_hooks import SessionFacts, SessionHooks
        from hermes.hooks.transcript_file import TranscriptFile

        context, session_id = live.tools.context, live.actor.session_id
        folder = str(context.places.workspace)
        facts = SessionFacts(
            session_id=session_id,
            folder=folder,
            model="",
            is_fresh=True,
            is_sub_agent=False,
            get_mode=lambda: context.state.mode.value,
            list_sources=context.state.taint.list_sources,
            spill_folder=context.spill_folder,
        )
        transcript = TranscriptFile(context.spill_folder / "transcript.jsonl", session_id, folder, [])
        return SessionHooks(HookDispatcher(self._sources, self.notices.append), facts, transcript)
