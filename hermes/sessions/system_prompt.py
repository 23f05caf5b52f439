"""The system prompt of a session as its settings, its home and its project make it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.config.home import Home
from hermes.config.settings import PlatformHint, Settings
from hermes.context.prompt import (
    PLATFORM_HINTS,
    PromptPart,
    PromptPlan,
    PromptSection,
    identity,
    prompt_parts,
)
from hermes.core.errors import ConfigError, UsageError
from hermes.core.frame import Aside, EpochFrame
from hermes.core.messages import Message
from hermes.i18n.messages import phrase
from hermes.sessions.formats.openai_format import closed_history

_LARGEST_PREFILL = 1 << 20


def system_parts(
    home: Home,
    settings: Settings,
    *,
    platform: str,
    model: str,
    has_tools: bool,
    sections: Sequence[PromptSection] = (),
) -> tuple[PromptPart, ...]:
    """The parts of an epoch's prompt, read as of now. Raises ConfigError for what cannot be used."""
    plan = PromptPlan(
        identity=identity(home.identity_file),
        personality=_personality(settings),
        platform=_platform(platform, settings.platform_hints.get(platform)),
        model=model,
        has_tools=has_tools,
    )
    return prompt_parts(plan, sections)


def aside_of(settings: Settings, home: Home, *, ephemeral: str, prefill: Sequence[Message]) -> Aside:
    """What is sent with every request and never stored. Raises ConfigError for a file that holds no messages."""
    system = "\n\n".join(part for part in (settings.agent.system_prompt.strip(), ephemeral.strip()) if part)
    if not prefill and settings.prefill_messages_file:
        prefill = _prefill(home.root / Path(settings.prefill_messages_file).expanduser())
    return Aside(system, tuple(prefill))


class Size(Struct, frozen=True):
    """How large a part of each request is: its bytes as they are sent, and about how many tokens they are."""

    part: str
    bytes: int

    @property
    def tokens(self) -> int:
        """Four bytes a token, as for every estimate."""
        return -(-self.bytes // 4)


def sizes(parts: Sequence[PromptPart], frame: EpochFrame) -> list[Size]:
    """What every request of an epoch begins with: the prompt's parts, each tool, messages that come first."""
    told = [
        Size(phrase("prompt: {name}", name=part.name), len(part.text.encode()))
        for part in parts
        if part.text in frame.system
    ]
    rest = len(frame.sent.system.encode()) - sum(size.bytes for size in told)
    if parts and rest > 0:
        told.append(Size(phrase("prompt: between the parts, and what is never stored"), rest))
    elif frame.system and not parts:
        told = [Size(phrase("prompt: given as a whole"), rest)]
    told += [
        Size(phrase("tool: {name}", name=tool.name), len(tool.description.encode()) + len(tool.parameters))
        for tool in frame.tools
    ]
    prefill = sum(len(msgspec.json.encode(message)) for message in frame.aside.prefill)
    return told + ([Size("messages that come first", prefill)] if prefill else [])


def _personality(settings: Settings) -> str:
    """The words of the chosen personality: the person's of that name, ours of that name, or what was written itself."""
    chosen = settings.agent.personality
    if not chosen or chosen in settings.personalities:
        return settings.personalities.get(chosen, "")
    from hermes.sessions.features.personalities import PERSONALITIES

    return PERSONALITIES.get(chosen, chosen)


def _platform(name: str, hint: PlatformHint | None) -> str:
    own = PLATFORM_HINTS.get(name, "")
    if hint is None:
        return own
    return " ".join(part for part in (hint.replace or own, hint.append) if part)


def _prefill(file: Path) -> list[Message]:
    try:
        raw = file.read_bytes()[: _LARGEST_PREFILL + 1]
        rows = msgspec.json.decode(raw, type=list[dict[str, object]])
        return closed_history(rows)
    except OSError as error:
        said = f"{file} cannot be read: {error.strerror}."
    except (msgspec.MsgspecError, UnicodeDecodeError, UsageError) as error:
        said = f"{file} is no list of messages: {error}."
    raise ConfigError(said, "`prefill_messages_file` names a JSON list of objects with `role` and `content`.")
