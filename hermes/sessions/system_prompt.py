"""Build a session's system prompt from its settings, its home and its project."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.config.home import HermesHome
from hermes.config.settings import PlatformHint, Settings
from hermes.context.prompt import (
    PLATFORM_HINTS,
    PromptPart,
    PromptPlan,
    PromptSection,
    build_prompt_parts,
    read_identity,
)
from hermes.core.errors import ConfigError, UsageError
from hermes.core.frame import EpochFrame, TransientContext
from hermes.core.messages import Message
from hermes.i18n.messages import N_
from hermes.sessions.features.personalities import PERSONALITIES
from hermes.sessions.formats.openai_format import history_for_prompt

_MAX_PREFILL_BYTES = 1 << 20


def build_system_parts(
    home: HermesHome,
    settings: Settings,
    *,
    platform: str,
    model: str,
    has_tools: bool,
    sections: Sequence[PromptSection] = (),
) -> tuple[PromptPart, ...]:
    """Build the parts of an epoch's prompt as of now. Raises ConfigError for what cannot be used."""
    plan = PromptPlan(
        identity=read_identity(home.identity_file),
        personality=_personality_text(settings),
        platform=_platform_hint(platform, settings.platform_hints.get(platform)),
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
    prefill = sum(len(msgspec.json.encode(message)) for message in frame.aside.prefill)
    return told + ([PromptPartSize("messages that come first", prefill)] if prefill else [])


def _personality_text(settings: Settings) -> str:
    """Return the text of the chosen personality: the user's own of that name, the built-in one, or the literal text."""
    chosen = settings.agent.personality
    if not chosen or chosen in settings.personalities:
        return settings.personalities.get(chosen, "")

    return PERSONALITIES.get(chosen, chosen)


def _platform_hint(name: str, hint: PlatformHint | None) -> str:
    own = PLATFORM_HINTS.get(name, "")
    if hint is None:
        return own
    return " ".join(part for part in (hint.replace or own, hint.append) if part)


def _read_prefill(file: Path) -> list[Message]:
    try:
        raw = file.read_bytes()[: _MAX_PREFILL_BYTES + 1]
        rows = msgspec.json.decode(raw, type=list[dict[str, object]])
        return history_for_prompt(rows)
    except OSError as error:
        said = f"{file} cannot be read: {error.strerror}."
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError) as error:
        said = f"{file} is no list of messages: {error}."
    raise ConfigError(said, "`prefill_messages_file` names a JSON list of objects with `role` and `content`.")
