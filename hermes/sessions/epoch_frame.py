"""Builds an epoch's frame, which all of its requests share, from the settings, the home and the session."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct, structs

from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.context.prompt import PromptPart, joined
from hermes.core.frame import Aside, EpochFrame, Sampling, ToolSchema
from hermes.core.scrub import scrubbed_message
from hermes.providers.wire import Endpoint
from hermes.providers.wires import wire
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.features.features import Feature
from hermes.sessions.options import SessionOptions
from hermes.sessions.system_prompt import PromptPartSize, build_aside, build_system_parts, measure_frame

T = TypeVar("T")


class SessionOverrides(Struct):
    """The person's overrides of the settings for one session; None means no override."""

    effort: str | None = None
    """The reasoning effort; empty means the provider's default."""
    personality: str | None = None
    """The personality: its name or its text; empty means none."""
    enabled: tuple[str, ...] | None = None
    """The enabled tool sets; None means those of the settings."""
    disabled: tuple[str, ...] | None = None


class FrameBuilder:
    """Builds the frames of a process's sessions. Raises ConfigError for what cannot be used.

    Secrets are redacted from the prompt here, whoever put them there; `remarks` says from which part.
    """

    def __init__(self, home: Home, settings: Settings, options: SessionOptions, redactor: Redactor) -> None:
        self._home = home
        self._settings = settings
        self._options = options
        self._redact = redactor.redact
        self.remarks: list[str] = []
        """What the person should know about the last prompt that was built."""
        aside = build_aside(settings, home, ephemeral=options.ephemeral_system_prompt, prefill=options.prefill_messages)
        prefill = tuple(scrubbed_message(message, self._redact) for message in aside.prefill)
        self._aside = Aside(self._redact(aside.system), prefill)

    def build_frame(
        self,
        endpoint: Endpoint,
        tools: Sequence[ToolSchema],
        features: Feature,
        system: str | None,
        overrides: SessionOverrides | None = None,
    ) -> EpochFrame:
        """Build the frame of a new epoch with this model; the parts of the prompt are read afresh.

        `system` is a prompt that the caller insists on, `overrides` holds the person's choices for the session.
        """
        overrides = overrides or SessionOverrides()
        settings, options, record = self._settings, self._options, endpoint.record
        schemas = tuple(tools) if record.tools else ()
        if system is None:
            system = record.prompt or joined(self._build_parts(endpoint.model, features, schemas, overrides))
        system = self._redact(system)
        return EpochFrame(
            provider=record.name,
            model=endpoint.model,
            wire=endpoint.wire,
            encoder_version=wire(endpoint.wire).version,
            system=system,
            tools=schemas,
            aside=self._aside,
            sampling=Sampling(
                temperature=_first_given(options.temperature, settings.model.temperature, record.temperature),
                max_tokens=_first_given(options.max_tokens, settings.model.max_tokens, record.max_tokens),
                reasoning_effort=self.resolve_effort(overrides) or None,
            ),
        )

    def resolve_effort(self, overrides: SessionOverrides) -> str:
        """Return the reasoning effort; empty means the provider's default."""
        if overrides.effort is not None:
            return overrides.effort
        return self._options.reasoning_effort or self._settings.agent.reasoning_effort

    def measure_parts(
        self, frame: EpochFrame, features: Feature, overrides: SessionOverrides | None = None
    ) -> list[PromptPartSize]:
        """Return the sizes of what every request of this epoch begins with, part by part, as the parts are now."""
        return measure_frame(
            self._build_parts(frame.model, features, frame.tools, overrides or SessionOverrides()), frame
        )

    def _build_parts(
        self, model: str, features: Feature, tools: Sequence[ToolSchema], overrides: SessionOverrides
    ) -> tuple[PromptPart, ...]:
        names = {"", *(tool.name for tool in tools)}
        settings = self._settings
        if overrides.personality is not None:
            settings = structs.replace(
                settings, agent=structs.replace(settings.agent, personality=overrides.personality)
            )
        parts = build_system_parts(
            self._home,
            settings,
            platform=self._options.platform,
            model=model,
            has_tools=bool(tools),
            sections=[section for section in features.sections if features.needs.get(section.name, "") in names],
        )
        clean = tuple(PromptPart(part.name, self._redact(part.text)) for part in parts)
        found = [part.name for part, other in zip(parts, clean, strict=True) if part != other]
        self.remarks = [f"A secret was taken out of the prompt ({name}): keep it somewhere else." for name in found]
        """What the person should know about the last prompt that was built."""
        return clean


def _first_given(*values: T | None) -> T | None:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)
