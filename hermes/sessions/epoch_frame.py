"""What an epoch's requests have in common, as the settings, the home and the session make it."""

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
from hermes.sessions.features.features import Kept
from hermes.sessions.options import Options
from hermes.sessions.system_prompt import Size, aside_of, sizes, system_parts

T = TypeVar("T")


class Manner(Struct):
    """What the person has chosen for one session, in the place of what the settings say; None: nothing."""

    effort: str | None = None
    """How much the model thinks; empty: as its provider has it."""
    personality: str | None = None
    """How the agent is to be: a name or the words themselves; empty: as it is."""
    enabled: tuple[str, ...] | None = None
    """The tool sets; None: those of the settings."""
    disabled: tuple[str, ...] | None = None


class Framing:
    """Makes the frames of a process's sessions. Raises ConfigError for what cannot be used.

    Secrets leave the prompt here, whoever put them there; `remarks` says of which part.
    """

    def __init__(self, home: Home, settings: Settings, options: Options, redactor: Redactor) -> None:
        self._home = home
        self._settings = settings
        self._options = options
        self._redact = redactor.redact
        self.remarks: list[str] = []
        """What the person should know about the prompt that was made last."""
        aside = aside_of(settings, home, ephemeral=options.ephemeral_system_prompt, prefill=options.prefill_messages)
        prefill = tuple(scrubbed_message(message, self._redact) for message in aside.prefill)
        self._aside = Aside(self._redact(aside.system), prefill)

    def frame(
        self,
        endpoint: Endpoint,
        tools: Sequence[ToolSchema],
        kept: Kept,
        system: str | None,
        manner: Manner | None = None,
    ) -> EpochFrame:
        """The frame of a new epoch with this model; what the prompt is made of is read afresh.

        `system` is a prompt that the caller insists on, `manner` what the person has chosen for the session.
        """
        manner = manner or Manner()
        settings, options, record = self._settings, self._options, endpoint.record
        schemas = tuple(tools) if record.tools else ()
        if system is None:
            system = record.prompt or joined(self._parts(endpoint.model, kept, schemas, manner))
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
                temperature=_first(options.temperature, settings.model.temperature, record.temperature),
                max_tokens=_first(options.max_tokens, settings.model.max_tokens, record.max_tokens),
                reasoning_effort=self.effort(manner) or None,
            ),
        )

    def effort(self, manner: Manner) -> str:
        """How much the model is to think; empty: as its provider has it."""
        if manner.effort is not None:
            return manner.effort
        return self._options.reasoning_effort or self._settings.agent.reasoning_effort

    def sizes(self, frame: EpochFrame, kept: Kept, manner: Manner | None = None) -> list[Size]:
        """What every request of this epoch begins with, part by part, as the parts are now."""
        return sizes(self._parts(frame.model, kept, frame.tools, manner or Manner()), frame)

    def _parts(self, model: str, kept: Kept, tools: Sequence[ToolSchema], manner: Manner) -> tuple[PromptPart, ...]:
        names = {"", *(tool.name for tool in tools)}
        settings = self._settings
        if manner.personality is not None:
            settings = structs.replace(settings, agent=structs.replace(settings.agent, personality=manner.personality))
        parts = system_parts(
            self._home,
            settings,
            platform=self._options.platform,
            model=model,
            has_tools=bool(tools),
            sections=[section for section in kept.sections if kept.needs.get(section.name, "") in names],
        )
        clean = tuple(PromptPart(part.name, self._redact(part.text)) for part in parts)
        found = [part.name for part, other in zip(parts, clean, strict=True) if part != other]
        self.remarks = [f"A secret was taken out of the prompt ({name}): keep it somewhere else." for name in found]
        return clean


def _first(*values: T | None) -> T | None:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)
