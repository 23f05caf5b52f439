"""What an epoch's requests have in common, as the settings, the home and the session make it."""

from collections.abc import Sequence
from typing import TypeVar

from hermes.app.keeping import Kept
from hermes.app.options import Options
from hermes.app.prompting import Size, aside_of, sizes, system_parts
from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.context.prompt import PromptPart, joined
from hermes.core.frame import EpochFrame, Sampling, ToolSchema
from hermes.providers.wire import Endpoint
from hermes.providers.wires import wire

T = TypeVar("T")


class Framing:
    """Makes the frames of a process's sessions. Raises ConfigError for what cannot be used."""

    def __init__(self, home: Home, settings: Settings, options: Options) -> None:
        self._home = home
        self._settings = settings
        self._options = options
        self._aside = aside_of(
            settings, home, ephemeral=options.ephemeral_system_prompt, prefill=options.prefill_messages
        )

    def frame(self, endpoint: Endpoint, tools: Sequence[ToolSchema], kept: Kept, system: str | None) -> EpochFrame:
        """The frame of a new epoch with this model; what the prompt is made of is read afresh.

        `system` is a prompt that the caller insists on.
        """
        settings, options, record = self._settings, self._options, endpoint.record
        schemas = tuple(tools) if record.tools else ()
        if system is None:
            system = record.prompt or joined(self._parts(endpoint.model, kept, schemas))
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
                reasoning_effort=options.reasoning_effort or settings.agent.reasoning_effort or None,
            ),
        )

    def sizes(self, frame: EpochFrame, kept: Kept) -> list[Size]:
        """What every request of this epoch begins with, part by part, as the parts are now."""
        return sizes(self._parts(frame.model, kept, frame.tools), frame)

    def _parts(self, model: str, kept: Kept, tools: Sequence[ToolSchema]) -> tuple[PromptPart, ...]:
        names = {"", *(tool.name for tool in tools)}
        return system_parts(
            self._home,
            self._settings,
            platform=self._options.platform,
            model=model,
            has_tools=bool(tools),
            sections=[section for section in kept.sections if kept.needs.get(section.name, "") in names],
        )


def _first(*values: T | None) -> T | None:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)
