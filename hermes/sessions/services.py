"""What all sessions of a process stand on: home, settings, store, models, keys, money, secrets."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.config.environment import with_dotenv
from hermes.config.home import Home
from hermes.config.load import load_settings
from hermes.config.settings import SideTaskSettings
from hermes.core.errors import ConfigError
from hermes.core.protocols import HttpTimeouts
from hermes.execution.supervisor import Wardens
from hermes.llm.auxiliary import SideTask
from hermes.llm.client import ModelClient
from hermes.llm.metering import Meter
from hermes.providers.resolve import ModelChoice
from hermes.runtime.compression import Windows
from hermes.sessions.backend_factory import Place
from hermes.sessions.epoch_frame import Framing
from hermes.sessions.features.features import Shelf
from hermes.sessions.mcp_servers import open_servers
from hermes.sessions.model.credentials import Credentials, with_stored
from hermes.sessions.model.endpoint import Model, choose_model, open_model
from hermes.sessions.model.fallback_route import Models, fallbacks, openers, side_choices
from hermes.sessions.model.spending import Spending, SpendMeter
from hermes.sessions.options import Options
from hermes.sessions.secrets import redactor_for
from hermes.sessions.session_tools import Process
from hermes.store.store import Store
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.mcp.servers import Servers


class Premises:
    """Opened once a process, by `open`, and closed by `close`."""

    def __init__(self, home: Home, process: Mapping[str, str], options: Options, clock: Clock) -> None:
        """Raises ConfigError for settings that cannot be used. Nothing is created yet."""
        loaded = load_settings(home)
        self.home = home
        self.options = options
        self.clock = clock
        self.settings = loaded.settings
        self.notices: list[str] = [*loaded.warnings]
        """Lines for the person that were learned while opening, and while opening sessions."""
        self.environ = with_dotenv(process, home.env_file)
        self.wardens = Wardens(self.environ)
        self.redactor = redactor_for(self.environ, home, self.settings)
        self.shared = Process(
            environ=self.environ,
            clock=clock,
            place=Place(self.environ, self.settings, self.wardens),
            redactor=self.redactor,
        )
        self.framing = Framing(home, self.settings, options, self.redactor)
        self.windows = Windows()
        self.timeouts = HttpTimeouts()
        """How long a model's server may take."""
        self.model: Model
        self.models: Models
        self.store: Store
        self.credentials: Credentials
        self.spending: Spending
        self.shelf: Shelf
        self.process = process
        """The variables that the process was started with, without those of `.env`."""
        self._stack = AsyncExitStack()
        self._sides: dict[str, Models] = {}
        self._others: list[tuple[ModelChoice, Models]] = []
        self._mcp: Servers | None = None

    async def open(self) -> None:
        """Open the model and the store; what can be wrong with the model is said before anything is created."""
        stack, settings = self._stack, self.settings
        stack.push_async_callback(self.wardens.close)
        choice = choose_model(settings.model, self.options)
        others = fallbacks(settings, self.options.fallback_models)
        first = self._opening(choice)
        self.home.ensure()
        self.models = Models((choice, *others), lambda one: first if one is choice else self._opening(one), stack)
        self.model = await self.models.at(0)
        if self.model.notice:
            self.notices.append(self.model.notice)
        self.store = await Store.open(self.home.root, self.clock)
        self.credentials = Credentials(self.home, self.process, settings, self.clock, self.store, self.redactor.learn)
        stack.push_async_callback(self.store.close)
        self.spending = Spending(settings, self.options, self.store, self.clock)
        self.shelf = Shelf(
            home=self.home,
            settings=settings,
            store=self.store,
            redactor=self.redactor,
            environ=self.environ,
            clock=self.clock,
            platform=self.options.platform,
            window=self.model.endpoint.context_length,
        )

    async def close(self) -> None:
        """Close everything that was opened since."""
        await self._stack.aclose()

    async def client(self, meter: Meter, model: Model) -> ModelClient:
        """How a session calls a model."""
        tries = max(self.settings.agent.api_max_retries, 1)
        keys = self.credentials.keys(model.endpoint, model.choice)
        return ModelClient(
            model.endpoint,
            model.transport,
            self.clock,
            keys=keys,
            meter=meter,
            retries=tries - 1,
            timeouts=self.timeouts,
        )

    def side_task(
        self, purpose: str, chosen: SideTaskSettings, meter: SpendMeter, leader: Callable[[], ModelChoice | None]
    ) -> SideTask:
        """Who does a side task: the models that its settings name, then the one that the person has chosen for the
        session (`leader`), then those of the conversation."""
        if purpose not in self._sides:
            self._sides[purpose] = Models(side_choices(chosen), self._opening, self._stack)
        client = partial(self.client, meter.side(purpose))

        async def led() -> ModelClient:
            choice = leader()
            if choice is None:
                raise ConfigError("No model was chosen for this session.")
            return await client(await self.other(choice))

        return SideTask([*openers(self._sides[purpose], client), led, *openers(self.models, client)])

    async def other(self, choice: ModelChoice) -> Model:
        """Another model than the process's own, opened once. Raises ConfigError when it cannot be used."""
        if choice == self.model.choice:
            return self.model
        found = next((one for one in self._others if one[0] == choice), None)
        if found is None:
            found = choice, Models((choice,), self._opening, self._stack)
            self._others.append(found)
        return await found[1].at(0)

    def servers(self) -> "Servers":
        """The MCP servers, started for the first session that wants some."""
        if self._mcp is None:
            self._mcp = open_servers(
                self.settings,
                self.environ,
                self.home,
                self.wardens,
                self.redactor,
                workspace=self.options.cwd or os.getcwd(),
            )
            self._stack.push_async_callback(self._mcp.close)
            self._mcp.start()
        return self._mcp

    def framing_for(self, options: Options) -> Framing:
        """Who frames the epochs of a session with these options."""
        if options is self.options:
            return self.framing
        return Framing(self.home, self.settings, options, self.redactor)

    def shelf_for(self, options: Options) -> Shelf:
        """What is kept beyond sessions, as a session with these options has it."""
        if options.platform == self.options.platform:
            return self.shelf
        return structs.replace(self.shelf, platform=options.platform)

    def remark(self, lines: Sequence[str]) -> None:
        """Note what the person should know, once."""
        self.notices += [line for line in lines if line not in self.notices]

    def _opening(self, choice: ModelChoice) -> AbstractAsyncContextManager[Model]:
        """A model about to be opened."""
        caching = self.settings.prompt_caching
        choice = structs.replace(with_stored(choice, self.home), cache_ttl=caching.cache_ttl if caching.enabled else "")
        return open_model(choice, self.environ, ca_file=self.settings.model.ca_bundle)
