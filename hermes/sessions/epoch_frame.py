"""Builds what all requests of an epoch share: its system prompt and its frame, from the settings, the home, the project
and the session.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from hermes.config.home import HermesHome
from hermes.config.settings import Settings
from hermes.config.tool_settings import ImageInput
from hermes.context.prompt import (
    DEFAULT_IDENTITY,
    PERSONALITIES,
    PLATFORM_HINTS,
    PromptPart,
    PromptPlan,
    PromptSection,
    build_prompt_parts,
    join_parts,
    read_identity,
)
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError, UsageError
from hermes.core.frame import EpochFrame, Rewrite, Sampling, ToolSchema, TransientContext
from hermes.core.messages import Message
from hermes.i18n.messages import N_
from hermes.providers.wire import Endpoint, load_wire, takes_effort, takes_images
from hermes.runtime.recorder import redact_message
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.features.features import Feature
from hermes.sessions.formats.openai_format import history_for_prompt
from hermes.sessions.options import SessionOptions

_MAX_PREFILL_BYTES = 1 << 20


def build_system_parts(
    home: HermesHome,
    settings: Settings,
    *,
    platform: str,
    model: str,
    has_tools: bool,
    sections: Sequence[PromptSection] = (),
    skip_identity: bool = False,
) -> tuple[PromptPart, ...]:
    """Build the parts of an epoch's prompt as of now; `platform` says what the model is told of the front-end. Raises
    ConfigError for what cannot be used.
    """
    plan = PromptPlan(
        identity=DEFAULT_IDENTITY if skip_identity else read_identity(home.identity_file),
        personality=_personality_text(settings),
        platform=platform,
        model=model,
        has_tools=has_tools,
    )
    return build_prompt_parts(plan, sections)


def build_aside(
    settings: Settings, home: HermesHome, *, ephemeral: str, prefill: Sequence[Message]
) -> TransientContext:
    """Build what is sent with every request and never stored. Raises ConfigError for a file that holds no messages."""
    system = "\n\n".join(part for part in (settings.agent.system_prompt.strip(), ephemeral.strip()) if part)
    if not prefill and settings.prefill_messages_file:
        prefill = _read_prefill(home.root / Path(settings.prefill_messages_file).expanduser())
    return TransientContext(system, tuple(prefill))


class PromptPartSize(Struct, frozen=True):
    """The size of a part of each request: its bytes as they are sent, and an estimate of its tokens."""

    part: str
    bytes: int

    @property
    def estimated_tokens(self) -> int:
        """The estimated tokens: four bytes each, as in every estimate."""
        return -(-self.bytes // 4)


def measure_frame(parts: Sequence[PromptPart], frame: EpochFrame) -> list[PromptPartSize]:
    """Measure what every request of an epoch begins with: prompt parts, tools, and prefilled messages."""
    told = [
        PromptPartSize(N_("prompt: {name}", name=part.name), len(part.text.encode()))
        for part in parts
        if part.text in frame.system
    ]
    rest = len(frame.request_frame.system.encode()) - sum(size.bytes for size in told)
    if parts and rest > 0:
        told.append(PromptPartSize(N_("prompt: between the parts, and what is never stored"), rest))
    elif frame.system and not parts:
        told = [PromptPartSize(N_("prompt: given as a whole"), rest)]
    told += [
        PromptPartSize(N_("tool: {name}", name=tool.name), len(tool.description.encode()) + len(tool.parameters))
        for tool in frame.tools
    ]
    prefill = sum(len(to_json(message)) for message in frame.aside.prefill)
    return told + ([PromptPartSize("messages that come first", prefill)] if prefill else [])


def _personality_text(settings: Settings) -> str:
    """Return the text of the chosen personality: the user's own of that name, the built-in one, or the literal text."""
    chosen = settings.agent.personality
    if not chosen or chosen in settings.personalities:
        return settings.personalities.get(chosen, "")

    return PERSONALITIES.get(chosen, chosen)


def describe_platform(settings: Settings, platform: str, surroundings: str = "") -> str:
    """Return what the model is told of a front-end: by the settings, by the front-end itself, or as is usual."""
    own, hint = surroundings or PLATFORM_HINTS.get(platform, ""), settings.platform_hints.get(platform)
    if hint is None:
        return own
    return " ".join(part for part in (hint.replace or own, hint.append) if part)


def _read_prefill(file: Path) -> list[Message]:
    try:
        raw = file.read_bytes()[: _MAX_PREFILL_BYTES + 1]
        rows = msgspec.json.decode(raw, type=list[dict[str, object]])
        return history_for_prompt(rows)
    except OSError as error:
        said = N_("{file} cannot be read: {strerror}.", file=file, strerror=error.strerror)
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError) as error:
        said = N_("{file} is not a list of messages: {error}.", file=file, error=error)
    raise ConfigError(said, "`prefill_messages_file` names a JSON list of objects with `role` and `content`.")


def _choose_rewrites(endpoint: Endpoint, *, streams: bool, images: ImageInput) -> tuple[Rewrite, ...]:
    """Return what an epoch with this model sends in another form from its beginning."""
    rewrites = [Rewrite.MERGED_ROLES] if endpoint.record.quirks.strict_roles else []
    rewrites += [] if streams else [Rewrite.WHOLE_ANSWERS]
    is_blind = images is ImageInput.AUTO and takes_images(endpoint) is False
    return (*rewrites, Rewrite.NO_IMAGES) if is_blind or images is ImageInput.TEXT else tuple(rewrites)


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

    def __init__(self, home: HermesHome, settings: Settings, options: SessionOptions, redactor: Redactor) -> None:
        self._home = home
        self._settings = settings
        self._options = options
        self._redact = redactor.redact
        self.remarks: list[str] = []
        """What the person should know about the last prompt that was built."""
        aside = build_aside(settings, home, ephemeral=options.ephemeral_system_prompt, prefill=options.prefill_messages)
        prefill = tuple(redact_message(message, self._redact) for message in aside.prefill)
        self._aside = TransientContext(self._redact(aside.system), prefill)

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
            system = record.prompt or join_parts(self._build_parts(endpoint.model, features, schemas, overrides))
        system = self._redact(system)
        if (options.reasoning_effort or options.reasoning_tokens) and not takes_effort(endpoint):
            self.remarks.append(
                N_(
                    "{model} from {title} cannot be told how much to think: that wish is not sent.",
                    model=endpoint.model,
                    title=record.title,
                )
            )
        return EpochFrame(
            provider=record.name,
            model=endpoint.model,
            wire=endpoint.wire,
            encoder_version=load_wire(endpoint.wire).version,
            system=system,
            tools=schemas,
            rewrites=_choose_rewrites(endpoint, streams=settings.model.stream, images=settings.agent.image_input_mode),
            aside=self._aside,
            sampling=Sampling(
                temperature=_first_given(options.temperature, settings.model.temperature, record.temperature),
                max_tokens=_first_given(options.max_tokens, settings.model.max_tokens, record.max_tokens),
                reasoning_effort=self.resolve_effort(overrides) or None,
                reasoning_tokens=options.reasoning_tokens if overrides.effort is None else None,
                reasoning_replay=endpoint.reasoning_replay or None,
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
            platform=describe_platform(settings, self._options.platform, self._options.surroundings),
            model=model,
            has_tools=bool(tools),
            skip_identity=self._options.skip_identity,
            sections=[section for section in features.sections if features.needs.get(section.name, "") in names],
        )
        clean = tuple(PromptPart(part.name, self._redact(part.text)) for part in parts)
        found = [part.name for part, other in zip(parts, clean, strict=True) if part != other]
        self.remarks = [
            N_("A secret was taken out of the prompt ({name}): keep it somewhere else.", name=name) for name in found
        ]
        return clean


def _first_given(*values: T | None) -> T | None:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)
