"""The person's overrides for one live session: model, reasoning effort, personality, tool sets.

They hold until the session is closed; `save_model` also writes a model into the settings. Each change
begins an epoch with a reason.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.admin.models.models import ModelSelection, save_selection
from hermes.admin.toolsets import list_toolsets_of, switch_toolsets
from hermes.config.settings import Settings
from hermes.context.prompt import PERSONALITIES
from hermes.core.encoding import Plain
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.providers.resolve import ModelChoice
from hermes.sessions.model.credentials import list_named_providers, load_known_record
from hermes.sessions.options import SessionOptions
from hermes.tools.toolsets import MCP_TOOLSET

if TYPE_CHECKING:
    from hermes.sessions.model.model_route import ModelConnection
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
DEFAULT_CHOICE = "default"
"""The word that takes an override back."""


class ModelFit(Struct, frozen=True):
    """A model that could lead the session: its window, and about how many tokens the conversation has."""

    model: "ModelConnection"
    window: int | None
    tokens: int

    @property
    def fits(self) -> bool:
        """Whether the conversation fits the model's window, as far as that is known."""
        return self.window is None or self.tokens < self.window


class OverrideEditor:
    """Changes the overrides of one live session."""

    def __init__(self, services: "Services", live: "LiveSession") -> None:
        self._services = services
        self._live = live
        self._actor = live.actor

    def check_idle(self) -> None:
        """Raise BusyError while a turn runs: an epoch can begin only between two turns."""
        if self._actor.busy:
            raise BusyError(N_("A turn runs in this session."), N_("Ctrl-C or /stop ends it."))

    @property
    def current(self) -> ModelChoice:
        """The choice that led to the first model of this session."""
        return self._live.route.chosen_model or self._services.model.choice

    def resolve_choice(self, model: str, provider: str) -> ModelChoice:
        """Return the model choice that is meant.

        A name alone stays with the current provider; a provider brings its own key and address.
        """
        from hermes.sessions.model.model_route import choose_model

        if provider:
            services = self._services
            record = load_known_record(provider, services.home, services.settings)
            named = SessionOptions(provider=record.name, model=model)
            return structs.replace(choose_model(self._services.settings.model, named), model=model)
        if model == DEFAULT_CHOICE:
            return self._services.model.choice
        current, services = self.current, self._services
        own = list_named_providers(services.home, services.settings)
        if own:
            from hermes.providers.named import pin_named_provider

            current = pin_named_provider(current, own)
        return structs.replace(current, model=model, context_length=None, prefix_decides=True)

    async def open_model(self, choice: ModelChoice) -> ModelFit:
        """Open a model and measure whether the conversation fits it. Raises ConfigError when it cannot be used."""
        services = self._services
        model = await services.open_model_choice(choice)
        client = await services.create_client(
            services.budget.create_meter(self._actor.session_id, self._live.options), model
        )
        return ModelFit(model, await client.find_context_length(), self._actor.conversation.lineage.estimated_tokens)

    async def switch_model(self, found: ModelFit) -> int | None:
        """Continue the session with this model; return the bytes that are sent again, None when that was stopped."""
        self.check_idle()
        await self._live.route.set_first_model(found.model)
        return await self._renew_epoch(N_("the person chose {model}", model=found.model.endpoint.model), first=True)

    def save_model(self, found: ModelFit) -> list[str]:
        """Write the model into the settings, as `hermes model` does; return the keys that were changed."""
        endpoint = found.model.endpoint
        choice = found.model.choice
        candidate = ModelSelection(model=endpoint.model, provider=endpoint.record.name, base_url=choice.base_url)
        return save_selection(self._services.environ, candidate)

    async def set_effort(self, effort: str) -> int | None:
        """Set the reasoning effort from now on; return the bytes that are sent again."""
        if effort not in (*EFFORTS, DEFAULT_CHOICE):
            hint = suggest_name(effort, EFFORTS) or ", ".join((*EFFORTS, DEFAULT_CHOICE))
            raise UsageError(N_("There is no effort {name!r}.", name=effort), hint)
        self.check_idle()
        self._live.overrides.effort = None if effort == DEFAULT_CHOICE else effort
        return await self._renew_epoch(N_("the person chose the reasoning effort {effort}", effort=effort))

    @property
    def effort(self) -> str:
        """The reasoning effort; empty means the provider's default."""
        return self._live.frame_builder.resolve_effort(self._live.overrides)

    def list_personalities(self) -> dict[str, str]:
        """Return every personality by name: the person's own and the built-in ones."""
        return {**PERSONALITIES, **self._services.settings.personalities}

    @property
    def personality(self) -> str:
        """The personality: a name, a text of the person's own, or empty."""
        chosen = self._live.overrides.personality
        return self._services.settings.agent.personality if chosen is None else chosen

    async def set_personality(self, name: str) -> int | None:
        """Set the personality from now on; return the bytes that are sent again. Raises NotFoundError."""
        if name not in (*self.list_personalities(), DEFAULT_CHOICE, "none"):
            hint = suggest_name(name, list(self.list_personalities())) or N_("/personality lists them.")
            raise NotFoundError(N_("There is no personality {name!r}.", name=name), hint)
        self.check_idle()
        self._live.overrides.personality = {DEFAULT_CHOICE: None, "none": ""}.get(name, name)
        return await self._renew_epoch(N_("the person chose the personality {name}", name=name))

    def list_toolsets(self) -> list[Plain]:
        """List every tool set with its tools, and whether this session has it (`on`)."""
        return list_toolsets_of(self._tool_settings(), self._services.environ)

    async def switch_toolsets(self, names: Sequence[str], *, on: bool) -> int | None:
        """Turn tool sets on or off in this session; return the bytes that are sent again, None for no change.

        Raises UsageError for an unknown tool set, and ConfigError when no tool would be left.
        """
        self.check_idle()
        served = [name for name in names if name == MCP_TOOLSET or name.startswith(f"{MCP_TOOLSET}-")]
        if served:
            raise UsageError(
                N_("The tools of MCP servers are switched for sessions that begin later."),
                N_("hermes tools {on} {served}", on="enable" if on else "disable", served=served[0]),
            )
        before = self._tool_settings()
        after = switch_toolsets(before, names, on=on)
        select = self._live.tools.reselect
        if after == before or select is None:
            return None
        chosen = select(after)
        self._live.overrides.enabled, self._live.overrides.disabled = after.toolsets, after.disabled_toolsets
        self._live.tools.toolbox.replace_tools(chosen)
        self._live.tools.toolbox.hidden = chosen.hidden
        said = N_("the person switched tools on: {names}") if on else N_("the person switched tools off: {names}")
        return await self._renew_epoch(said.format(names=", ".join(names)))

    async def _renew_epoch(self, reason: str, *, first: bool = False) -> int | None:
        return await self._actor.exclusive(lambda: self._live.renew(reason, first))

    def _tool_settings(self) -> Settings:
        """Return the settings with the tool sets that this session has."""
        settings, options, overrides = self._services.settings, self._live.options, self._live.overrides
        enabled = options.enabled_toolsets if options.enabled_toolsets is not None else settings.toolsets
        disabled = (*settings.disabled_toolsets, *options.disabled_toolsets)
        return structs.replace(
            settings,
            toolsets=tuple(enabled if overrides.enabled is None else overrides.enabled),
            disabled_toolsets=disabled if overrides.disabled is None else overrides.disabled,
        )
