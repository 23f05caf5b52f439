"""What the person chooses for one live session: its model, how much it thinks, how it is, its tools.

It holds until the session is closed; `keep` writes a model into the settings, too. Each change begins an epoch by name.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.admin.models.models import Candidate, keep
from hermes.admin.toolsets import standings, switched
from hermes.config.settings import Settings
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.i18n.messages import phrase
from hermes.plugins import suggestion
from hermes.providers.records import record
from hermes.providers.resolve import ModelChoice
from hermes.sessions.features.personalities import PERSONALITIES
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.mcp_servers import SET
from hermes.sessions.options import Options

if TYPE_CHECKING:
    from hermes.sessions.model.endpoint import Model
    from hermes.sessions.services import Premises
    from hermes.sessions.session_builder import Live

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
OWN = "default"
"""The word that takes a choice back."""


class Leading(Struct, frozen=True):
    """A model that could lead the session: its window, and about how many tokens the conversation has."""

    model: "Model"
    window: int | None
    tokens: int

    @property
    def fits(self) -> bool:
        """Whether the conversation fits its window, as far as anybody knows."""
        return self.window is None or self.tokens < self.window


class Choices:
    """The choices of one live session."""

    def __init__(self, premises: "Premises", live: "Live") -> None:
        self._on = premises
        self._live = live
        self._actor = live.actor

    def check_idle(self) -> None:
        """Raise BusyError while a turn runs: an epoch begins between two."""
        if self._actor.busy:
            raise BusyError(phrase("A turn runs in this session."), phrase("Ctrl-C or /stop ends it."))

    @property
    def current(self) -> ModelChoice:
        """What the first model of this session was chosen by."""
        return self._live.route.leader or self._on.model.choice

    def wanted(self, model: str, provider: str) -> ModelChoice:
        """The choice that is meant: a name alone stays with the provider, a provider brings its own key and address."""
        from hermes.sessions.model.endpoint import choose_model

        if provider:
            named = Options(provider=record(provider).name, model=model)
            return structs.replace(choose_model(self._on.settings.model, named), model=model)
        if model == OWN:
            return self._on.model.choice
        return structs.replace(self.current, model=model, context_length=None)

    async def leading(self, choice: ModelChoice) -> Leading:
        """Open a model and see whether the conversation fits it. Raises ConfigError when it cannot be used."""
        on = self._on
        model = await on.other(choice)
        client = await on.client(on.spending.meter_for(self._actor.session_id, self._live.options), model)
        return Leading(model, await client.context_length(), self._actor.conversation.lineage.estimated)

    async def lead(self, found: Leading) -> int | None:
        """Go on with it: the bytes of the conversation that are sent anew; None when that was stopped."""
        self.check_idle()
        await self._live.route.lead(found.model)
        return await self._renewed(phrase("the person chose {model}", model=found.model.endpoint.model), first=True)

    def keep(self, found: Leading) -> list[str]:
        """Write the model into the settings, as `hermes model` does; the keys that were changed."""
        endpoint = found.model.endpoint
        choice = found.model.choice
        candidate = Candidate(model=endpoint.model, provider=endpoint.record.name, base_url=choice.base_url)
        return keep(self._on.environ, candidate)

    async def think(self, effort: str) -> int | None:
        """Let the model think so much from now on; the bytes that are sent anew."""
        if effort not in (*EFFORTS, OWN):
            hint = suggestion(effort, EFFORTS) or ", ".join((*EFFORTS, OWN))
            raise UsageError(phrase("There is no effort {name!r}.", name=effort), hint)
        self.check_idle()
        self._live.manner.effort = None if effort == OWN else effort
        return await self._renewed(phrase("the person chose the reasoning effort {effort}", effort=effort))

    @property
    def effort(self) -> str:
        """How much the model thinks; empty: as its provider has it."""
        return self._live.framing.effort(self._live.manner)

    def personalities(self) -> dict[str, str]:
        """Every personality by name: the person's own and ours."""
        return {**PERSONALITIES, **self._on.settings.personalities}

    @property
    def personality(self) -> str:
        """How the agent is: a name, words of the person's own, or empty."""
        chosen = self._live.manner.personality
        return self._on.settings.agent.personality if chosen is None else chosen

    async def be(self, name: str) -> int | None:
        """Let the agent be like this from now on; the bytes that are sent anew. Raises NotFoundError."""
        if name not in (*self.personalities(), OWN, "none"):
            hint = suggestion(name, list(self.personalities())) or phrase("/personality lists them.")
            raise NotFoundError(phrase("There is no personality {name!r}.", name=name), hint)
        self.check_idle()
        self._live.manner.personality = {OWN: None, "none": ""}.get(name, name)
        return await self._renewed(phrase("the person chose the personality {name}", name=name))

    def toolsets(self) -> list[Plain]:
        """Every tool set with its tools, and whether this session has it (`on`)."""
        return standings(self._tool_settings())

    async def switch(self, names: Sequence[str], *, on: bool) -> int | None:
        """Have tool sets in this session, or have them no more; the bytes that are sent anew; None: nothing changed.

        Raises UsageError for a name that is no set's, and ConfigError when no tool would be left.
        """
        self.check_idle()
        served = [name for name in names if name == SET or name.startswith(f"{SET}-")]
        if served:
            raise UsageError(
                phrase("The tools of MCP servers are switched for sessions that begin later."),
                f"hermes tools {'enable' if on else 'disable'} {served[0]}",
            )
        before = self._tool_settings()
        after = switched(before, names, on=on)
        select = self._live.tools.select
        if after == before or select is None:
            return None
        chosen = select(after)
        self._live.manner.enabled, self._live.manner.disabled = after.toolsets, after.disabled_toolsets
        self._live.tools.toolbox.become(chosen)
        said = (
            phrase("the person switched tools on: {names}") if on else phrase("the person switched tools off: {names}")
        )
        return await self._renewed(said.format(names=", ".join(names)))

    async def _renewed(self, reason: str, *, first: bool = False) -> int | None:
        return await self._actor.aside(lambda: self._live.renew(reason, first))

    def _tool_settings(self) -> Settings:
        """The settings with the tool sets that this session has."""
        settings, options, manner = self._on.settings, self._live.options, self._live.manner
        enabled = options.enabled_toolsets if options.enabled_toolsets is not None else settings.toolsets
        disabled = (*settings.disabled_toolsets, *options.disabled_toolsets)
        return structs.replace(
            settings,
            toolsets=tuple(enabled if manner.enabled is None else manner.enabled),
            disabled_toolsets=disabled if manner.disabled is None else manner.disabled,
        )
