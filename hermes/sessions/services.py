"""The services that all sessions of a process share: home, settings, store, models, credentials, budget, secrets."""

import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.settings import LoadedSettings, Settings, SideTaskSettings
from hermes.core.errors import ConfigError
from hermes.core.protocols import HttpTimeouts
from hermes.i18n.messages import N_
from hermes.llm.client import SIDE_TASK_SECONDS, ModelClient, RetryLimits, SideTask
from hermes.llm.exchange import Meter
from hermes.providers.resolve import ModelChoice
from hermes.runtime.compression import ContextWindows
from hermes.sessions.backend_factory import BackendFactory
from hermes.sessions.epoch_frame import FrameBuilder
from hermes.sessions.features.features import FeatureDeps
from hermes.sessions.model.credentials import Credentials, with_stored_providers
from hermes.sessions.model.model_route import (
    ModelConnection,
    ModelPool,
    SessionModelRoute,
    choose_model,
    fallback_choices,
    model_openers,
    open_model,
    side_task_choices,
)
from hermes.sessions.model.spending import ProcessBudget, SpendMeter
from hermes.sessions.options import SessionOptions
from hermes.sessions.secrets import build_lenient_redactor, build_redactor, iterate_secrets
from hermes.sessions.session_tools import ProcessDeps
from hermes.sessions.turn_log import TurnLog
from hermes.store.store import Store
from hermes.tools.taint_marks import TaintMark, TaintMarks
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.execution.supervisor import Supervisors
    from hermes.mcp.servers import McpServers
    from hermes.plugin_host.host import PluginHost
    from hermes.sessions.mcp_servers import AgreedServers
    from hermes.sessions.model.side_models import SessionSideModels
    from hermes.speech.service import SpeechService


_PROJECT_PLATFORMS = ("cli", "api")
"""Where a process works in one project."""
_IGNORED = N_("config.yaml is not read, so the rules and caps in it do not hold.")
_MODEL_ALONE = N_("Of config.yaml only the model is used: the rules and caps in it do not hold.")


class Services:
    """The shared services of a process: created once, opened by `open` and closed by `close`."""

    def __init__(
        self, home: HermesHome, process_environ: Mapping[str, str], options: SessionOptions, clock: Clock
    ) -> None:
        """Load the settings. Raises ConfigError for settings that cannot be used. Nothing is created yet."""
        loaded = load_settings(home, ignored=options.ignore_config)
        self.home = home
        self.options = options
        self.clock = clock
        self.environ = merge_dotenv(process_environ, home.env_file)
        self.notices: list[str] = []
        """Lines for the user that were learned while opening, and while opening sessions."""
        self._agreed_servers: AgreedServers | None = None
        self.settings = self._add_agent_servers(loaded.settings, self.environ)
        self._unused_keys = loaded.unused
        named = loaded.settings.model.default or loaded.settings.model.provider or loaded.settings.model.base_url
        ignored = (_MODEL_ALONE if named else _IGNORED,) if options.ignore_config else ()
        self.notices[:0] = [*loaded.warnings, *ignored]
        self.redactor = (
            build_lenient_redactor(self.environ, home)
            if options.ignore_config
            else build_redactor(self.environ, home, self.settings)
        )
        self.turn_log = TurnLog(home.logs, self.redactor.redact, clock)
        """Writes a line for each turn of this process."""
        self.speech = LateSpeech(self)
        self.process_deps: ProcessDeps
        self.frame_builder: FrameBuilder
        self.timeouts: HttpTimeouts
        """How long a model's server may take."""
        self._build_parts()
        self.context_windows = ContextWindows()
        self.model: ModelConnection
        self.models: ModelPool
        self.store: Store
        self.credentials: Credentials
        self.budget: ProcessBudget
        self.feature_deps: FeatureDeps
        self.process_environ = process_environ
        """The variables that the process was started with, without those of `.env`."""
        self._taint_marks = TaintMarks(save=partial(_save_taint_marks, self))
        self._stack = AsyncExitStack()
        self._model_stack = AsyncExitStack()
        """What is closed when other models take the place of these."""
        self._retired: list[Callable[[], Awaitable[None]]] = []
        """Closes what was replaced and live sessions may still use."""
        self._side_models: dict[str, ModelPool] = {}
        self._other_models: list[tuple[ModelChoice, ModelPool]] = []
        self._mcp_servers: McpServers | None = None
        self._plugin_host: PluginHost | None = None

    async def open(self) -> None:
        """Open the model and the store.

        Errors in the model's settings are raised before anything is created.
        """
        stack = self._stack
        stack.push_async_callback(_close_supervisors, self)
        stack.push_async_callback(self._close_models)
        await self._open_models()
        if self._unused_keys:
            from hermes.sessions.unused_keys import tell_unused_keys

            self.add_notices(tell_unused_keys(self.home, self._unused_keys))
        if self.model.notice:
            self.notices.append(self.model.notice)
        self.store = await Store.open(self.home.root, self.clock)
        stack.push_async_callback(self.store.close)
        self.budget = ProcessBudget(self.settings, self.options, self.store.spending, self.clock)
        self._build_store_parts()

    def _add_agent_servers(self, settings: Settings, environ: Mapping[str, str]) -> Settings:
        """Return the settings with the MCP servers of other agents' files that the person has agreed to. A project's
        are those of the folder in which a person works, and not of the gateway's. Raises ConfigError.
        """
        options, self._agreed_servers = self.options, None
        if options.ignore_config or not os.path.lexists(self.home.consent_file):
            return settings
        from hermes.sessions.mcp_servers import add_agent_servers

        folder = os.path.realpath(options.cwd or os.getcwd()) if options.platform in _PROJECT_PLATFORMS else ""
        self._agreed_servers = add_agent_servers(settings, self.home, environ, folder, options.trusted_folders)
        self.add_notices(self._agreed_servers.notices)
        return self._agreed_servers.settings

    def _build_parts(self) -> None:
        """Build what sessions are built with and depends on the settings and variables alone."""
        self.process_deps = ProcessDeps(
            environ=self.environ,
            clock=self.clock,
            backend_factory=BackendFactory(self.environ, self.settings, lambda: self.supervisors),
            redactor=self.redactor,
            on_allowed=self._allow_always,
            get_supervisors=lambda: self.supervisors,
            get_speech=self.speech,
        )
        self.frame_builder = FrameBuilder(self.home, self.settings, self.options, self.redactor)
        limits = self.settings.model.timeout
        self.timeouts = HttpTimeouts(connect=limits.connect, read=limits.read)

    async def _open_models(self) -> None:
        """Open the first model. Raises ConfigError before anything is created."""
        choice = choose_model(self.settings.model, self.options)
        others = fallback_choices(self.settings, self.options.fallback_models)
        first = self._open_model(choice)
        self.home.ensure_exists()
        models = ModelPool(
            (choice, *others), lambda one: first if one is choice else self._open_model(one), self._model_stack
        )
        self.model = await models.open_at(0)
        self.models = models

    def _build_store_parts(self) -> None:
        """Build what sessions are built with and depends on the model and the store, too."""
        self.credentials = Credentials(
            self.home, self.process_environ, self.settings, self.clock, self.store.keys, self.redactor.add_secret
        )
        self._model_stack.push_async_callback(self.credentials.close)
        self.feature_deps = FeatureDeps(
            home=self.home,
            settings=self.settings,
            store=self.store,
            redactor=self.redactor,
            environ=self.environ,
            clock=self.clock,
            platform=self.options.platform,
            window=self.model.endpoint.context_length,
            taint_marks=self._taint_marks,
            get_plugin_host=self.plugin_host,
        )

    async def reload(self) -> tuple[LoadedSettings, bool]:
        """Read `config.yaml` and `.env` again, and use them for every session that is opened from now on; return them,
        and whether sessions are concerned.

        Caps on spending hold in live sessions, too. What live sessions use stays open until `close_replaced`. Raises
        ConfigError; then nothing has changed.
        """
        loaded = load_settings(self.home, ignored=self.options.ignore_config)
        environ = merge_dotenv(self.process_environ, self.home.env_file)
        before = self.settings, self.environ, self._model_stack
        settings = self._add_agent_servers(loaded.settings, environ)
        same = structs.replace(settings, platforms=self.settings.platforms) == self.settings
        self.settings, self.environ = settings, environ
        if same and environ == before[1]:
            return loaded, False
        self._model_stack = AsyncExitStack()
        try:
            self._build_parts()
            await self._open_models()
        except ConfigError:
            await self._model_stack.aclose()
            self.settings, self.environ, self._model_stack = before
            self._build_parts()
            raise
        for name, value in iterate_secrets(self.environ, self.home, self.settings):
            self.redactor.add_secret(name, value)
        self._side_models, self._other_models = {}, []
        self._retired.append(before[2].aclose)
        if self._mcp_servers is not None:
            self._retired.append(self._mcp_servers.close)
            self._mcp_servers = None
        if self._plugin_host is not None:
            self._retired.append(self._plugin_host.close)
            self._plugin_host = None
        self._retired.append(self.speech.detach())
        self.budget.use_settings(self.settings)
        self._build_store_parts()
        return loaded, True

    @property
    def has_replaced(self) -> bool:
        """Whether a reload has replaced something that is still open."""
        return bool(self._retired)

    async def close_replaced(self) -> None:
        """Close what a reload has replaced; to be called once no session from before is live."""
        while self._retired:
            await self._retired.pop()()

    def _allow_always(self, patterns: Sequence[str]) -> None:
        """Have sessions that are opened from now on allow what somebody has allowed for always.

        Tools of MCP servers are asked about again: a server may have changed them without a word since it was
        connected, and the answer is for a tool as it was.
        """
        fresh = (one for one in patterns if not one.startswith("mcp "))
        known = (*self.settings.command_allowlist, *fresh)
        self.settings = structs.replace(self.settings, command_allowlist=tuple(dict.fromkeys(known)))

    def forget_allowed(self, pattern: str) -> None:
        """Have sessions that are opened from now on ask about a pattern again."""
        kept = tuple(one for one in self.settings.command_allowlist if one.strip() != pattern)
        self.settings = structs.replace(self.settings, command_allowlist=kept)

    async def _close_models(self) -> None:
        await self.close_replaced()
        if self._mcp_servers is not None:
            await self._mcp_servers.close()
        if self._plugin_host is not None:
            await self._plugin_host.close()
        await self.speech.close()
        await self._model_stack.aclose()

    async def load_taint_marks(self) -> TaintMarks:
        """Return the marks of files with untrusted content, the same for all sessions, as they are stored now."""
        stored = [TaintMark(*row) for row in await self.store.tainted_files.list_all()]
        self._taint_marks.reload(stored)
        return self._taint_marks

    async def close(self) -> None:
        """Close everything that was opened."""
        await self._stack.aclose()

    @cached_property
    def supervisors(self) -> "Supervisors":
        """The supervisors of the commands of all sessions."""
        from hermes.execution.supervisor import Supervisors

        return Supervisors(self.environ)

    async def create_client(
        self, meter: Meter, model: ModelConnection, *, retry_seconds: float | None = None
    ) -> ModelClient:
        """Create the client with which a session calls a model; its calls are tried again as long as the settings say,
        or for `retry_seconds` if that is less.
        """
        agent = self.settings.agent
        minutes = agent.api_retry_minutes_unattended if self.options.unattended else agent.api_retry_minutes
        seconds = minutes * 60.0 if retry_seconds is None else min(minutes * 60.0, retry_seconds)
        tries = agent.api_max_retries
        keys = self.credentials.keys_for_endpoint(model.endpoint, model.choice)
        client = ModelClient(
            model.endpoint,
            model.transport,
            self.clock,
            keys=keys,
            meter=meter,
            limits=RetryLimits(seconds=seconds, retries=None if tries is None else max(tries, 1) - 1),
            timeouts=self.timeouts,
        )
        client.streams = self.settings.model.stream
        return client

    def create_side_task(
        self,
        purpose: str,
        settings: SideTaskSettings,
        meter: SpendMeter,
        chosen_model: Callable[[], ModelChoice | None],
    ) -> SideTask:
        """Create a side task's model client, which tries several models in order.

        First the models that the side task's settings name, then the one that the user has chosen for the
        session (`leader`), then those of the conversation.
        """
        if purpose not in self._side_models:
            self._side_models[purpose] = ModelPool(side_task_choices(settings), self._open_model, self._model_stack)
        client = partial(self.create_client, meter.side_meter(purpose), retry_seconds=SIDE_TASK_SECONDS)

        async def open_chosen_model() -> ModelClient:
            choice = chosen_model()
            if choice is None:
                raise ConfigError("No model was chosen for this session.")
            return await client(await self.open_model_choice(choice))

        return SideTask(
            [*model_openers(self._side_models[purpose], client), open_chosen_model, *model_openers(self.models, client)]
        )

    async def open_model_choice(self, choice: ModelChoice) -> ModelConnection:
        """Open another model than the process's own, once. Raises ConfigError when it cannot be used."""
        if choice == self.model.choice:
            return self.model
        found = next((one for one in self._other_models if one[0] == choice), None)
        if found is None:
            found = choice, ModelPool((choice,), self._open_model, self._model_stack)
            self._other_models.append(found)
        return await found[1].open_at(0)

    def mcp_servers(self) -> "McpServers":
        """Return the MCP servers, started for the first session that wants some."""
        if self._mcp_servers is None:
            self._mcp_servers = prepare_mcp_servers(self, self.settings)
            if self._agreed_servers is not None:
                self._agreed_servers.watch_changes(self._mcp_servers, self.environ)
            self._mcp_servers.start()
        return self._mcp_servers

    def plugin_host(self) -> "PluginHost":
        """Return the host of folder plug-ins, which starts one when it is first needed."""
        if self._plugin_host is None:
            from hermes.sessions.features.folder_plugins import open_plugin_host

            self._plugin_host = open_plugin_host(
                self.home,
                self.environ,
                self.supervisors,
                self.redactor,
                folder=self.options.cwd or os.getcwd(),
                trusted_folders=self.options.trusted_folders,
            )
        return self._plugin_host

    @property
    def started_mcp_servers(self) -> "McpServers | None":
        """The MCP servers, if a session has wanted some."""
        return self._mcp_servers

    def frame_builder_for(self, options: SessionOptions) -> FrameBuilder:
        """Return the builder of epoch frames for a session with these options."""
        if options is self.options:
            return self.frame_builder
        return FrameBuilder(self.home, self.settings, options, self.redactor)

    def feature_deps_for(self, options: SessionOptions) -> FeatureDeps:
        """Return the dependencies of session features for a session with these options."""
        if options.platform == self.options.platform:
            return self.feature_deps
        return structs.replace(self.feature_deps, platform=options.platform)

    def add_notices(self, lines: Sequence[str]) -> None:
        """Note what the user should know, each line once."""
        self.notices += [line for line in lines if line not in self.notices]

    def _open_model(self, choice: ModelChoice) -> AbstractAsyncContextManager[ModelConnection]:
        """A model about to be opened."""
        caching = self.settings.prompt_caching
        choice = structs.replace(
            with_stored_providers(choice, self.home, self.settings),
            cache_ttl=caching.cache_ttl if caching.enabled else "",
        )
        return open_model(choice, self.environ, ca_file=self.settings.model.ca_bundle)


class LateSpeech:
    """What hears and speaks for all sessions of a process; it is imported and opened when it is first called."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._service: SpeechService | None = None

    def __call__(self) -> "SpeechService":
        """Return what hears and speaks."""
        if self._service is None:
            from hermes.sessions.features.speech import SpeechParts, open_speech_service

            services = self._services
            self._service = open_speech_service(
                SpeechParts(
                    settings=services.settings,
                    environ=services.environ,
                    home=services.home,
                    get_credentials=lambda: services.credentials,
                    get_supervisors=lambda: services.supervisors,
                    learn=services.redactor.add_secret,
                )
            )
        return self._service

    def detach(self) -> Callable[[], Awaitable[None]]:
        """Open another one, with new settings, at the next call; return the function that closes the present one."""
        service, self._service = self._service, None

        async def close() -> None:
            if service is not None:
                await service.close()

        return close

    async def close(self) -> None:
        """Close it if it was opened."""
        await self.detach()()


async def _close_supervisors(services: Services) -> None:
    if "supervisors" in services.__dict__:
        await services.supervisors.close()


async def _save_taint_marks(services: Services, marks: Sequence[TaintMark], gone: Sequence[str]) -> None:
    rows = [(one.path, one.digest, one.sources) for one in marks]
    await services.store.tainted_files.mark_all(rows, gone)


def prepare_mcp_servers(services: Services, settings: Settings) -> "McpServers":
    """Prepare the MCP servers that these settings name, without starting them; whoever does closes them."""
    from hermes.sessions.mcp_servers import open_servers

    options = services.options
    return open_servers(
        settings,
        services.environ,
        services.home,
        services.supervisors,
        services.redactor,
        workspace=options.cwd or os.getcwd(),
    )


class SessionSideTasks:
    """Creates the side tasks of one session. It holds nothing of the session, which is freed once it has left."""

    def __init__(self, services: Services, meter: SpendMeter) -> None:
        self._services = services
        self._meter = meter
        self._route: Callable[[], SessionModelRoute | None] = lambda: None

    def follow_route(self, route: SessionModelRoute) -> None:
        """Have the model that is chosen there answer where a side task has none of its own."""
        self._route = weakref.ref(route)

    def create_task(self, purpose: str, chosen: SideTaskSettings) -> SideTask:
        """Create a side task."""
        return self._services.create_side_task(purpose, chosen, self._meter, self._find_chosen_model)

    def open_side_models(self) -> "SessionSideModels":
        """Return the side models that tools of the session ask."""
        from hermes.sessions.model.side_models import SessionSideModels

        return SessionSideModels(self._services.settings.auxiliary, self.create_task)

    def _find_chosen_model(self) -> ModelChoice | None:
        route = self._route()
        return route.chosen_model if route is not None else None
