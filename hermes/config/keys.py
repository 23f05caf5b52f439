"""Settings by their dotted names: which exist, their types, and the parsing of values that a person types.

Names of settings that other agents of the same family use.
"""

import types
import typing
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec
from msgspec import Meta, Struct

from hermes.config.settings import Settings
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.util.localizable import join_localizable

# fmt: off
KNOWN_ELSEWHERE = frozenset(
    {
        "model", "providers", "fallback_providers", "credential_pool_strategies", "toolsets",
        "max_concurrent_sessions", "max_live_sessions", "agent", "terminal", "web", "browser", "checkpoints",
        "context_file_max_chars", "file_read_max_chars", "mcp_discovery_timeout", "mcp", "tool_output",
        "tool_loop_guardrails", "compression", "kanban", "prompt_caching", "openrouter", "bedrock", "auxiliary",
        "display", "dashboard", "privacy", "tts", "stt", "voice", "human_delay", "context", "memory", "delegation",
        "prefill_messages_file", "goals", "moa", "skills", "curator", "honcho", "timezone", "slack", "discord",
        "whatsapp", "telegram", "mattermost", "matrix", "approvals", "command_allowlist", "quick_commands",
        "platform_hints", "hooks", "hooks_auto_accept", "personalities", "security", "cron", "code_execution",
        "tools", "logging", "model_catalog", "network", "gateway", "streaming", "sessions", "onboarding", "updates",
        "lsp", "x_search", "secrets", "paste_collapse_threshold", "paste_collapse_threshold_fallback",
        "paste_collapse_char_threshold", "computer_use", "desktop", "vertex", "_config_version", "custom_providers",
        "fallback_model", "mcp_servers", "platforms", "plugins", "platform_toolsets", "session_reset",
        "reset_triggers", "group_sessions_per_user", "thread_sessions_per_user", "multiplex_profiles",
        "profile_routes", "unauthorized_dm_behavior", "image_gen", "video_gen", "smart_model_routing",
        "always_log_local", "filter_silence_narration", "stt_echo_transcripts", "require_mention", "signal",
        "known_plugin_toolsets", "spending", "prices",
    }
)
# fmt: on
"""Top-level keys that guides for such agents mention; those that this version does not act on are not
mistakes.
"""


_BOOLEAN_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Setting(Struct, frozen=True):
    """A key of `config.yaml`. `typed` is None where this version does not know the key's type."""

    path: tuple[str, ...]
    typed: object
    known: bool = True
    """True if this version acts on it; else only guides for such agents mention it."""

    @property
    def key(self) -> str:
        """Return its dotted name."""
        return ".".join(self.path)


def find_setting(key: str) -> Setting:
    """Return the setting or section of that dotted name. Raises UsageError with the nearest name."""
    path = tuple(key.strip().split("."))
    if not all(path):
        raise UsageError(N_("{key!r} is not a key.", key=key[:80]), N_("Keys look like `model.default`."))
    typed: object = Settings
    for depth, name in enumerate(path):
        below = type_members(typed)
        if below is None:
            raise _unknown_key_error(path[:depth])
        if name in below:
            typed = below[name]
        elif "*" in below:
            typed = below["*"]
        elif depth == 0 and name in KNOWN_ELSEWHERE:
            return Setting(path, None, known=False)
        else:
            raise _unknown_key_error(path)
    return Setting(path, typed)


def type_at(path: tuple[str, ...]) -> object:
    """Return the type of the value at a path (`[]` for an item of a list); None when there is no such setting."""
    typed: object = Settings
    for name in path:
        below = type_members(typed) or {}
        typed = below.get(name, below.get("*"))
        if typed is None:
            return None
    return typed


def type_members(typed: object) -> dict[str, object] | None:
    """Return the types below a type by name; `*` for any name, `[]` for items of a list; None for a plain value."""
    for one in _union_members(typed):
        if isinstance(one, type) and issubclass(one, Struct):
            return {field.name: field.type for field in msgspec.structs.fields(one)}
        origin, arguments = typing.get_origin(one), typing.get_args(one)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"*": arguments[1]}
        if origin in (tuple, list):
            return {"[]": arguments[0]}
    return None


def iter_settings() -> Iterator[Setting]:
    """Yield every key that has a value of its own, in the order of the documentation."""
    yield from _iter_settings_below((), Settings)


def _iter_settings_below(path: tuple[str, ...], typed: type[Struct]) -> Iterator[Setting]:
    for field in msgspec.structs.fields(typed):
        inner = field.type
        here = (*path, field.name)
        if isinstance(inner, type) and issubclass(inner, Struct):
            yield from _iter_settings_below(here, inner)
        else:
            yield Setting(here, inner)


def describe_type(typed: object) -> str:
    """Describe in words what a value of this type looks like."""
    alternatives = [one for one in _union_members(typed) if one is not type(None)]
    if bool in alternatives and str in alternatives:
        return N_("a word, or true or false")
    return _describe_member_type(alternatives[0] if alternatives else str)


def _describe_member_type(one: object) -> str:
    limits = next((extra for extra in typing.get_args(one)[1:] if isinstance(extra, Meta)), None)
    plain = typing.get_args(one)[0] if limits is not None else one
    if plain in (int, float):
        return _describe_number(whole=plain is int, limits=limits)
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        return N_("one of: {names}", names=", ".join(member.value for member in plain))
    below = type_members(plain)
    if below is not None:
        return N_("a list, such as [a, b]") if "[]" in below else N_("a section of keys with values")
    return N_("true or false") if plain is bool else N_("text")


def _describe_number(*, whole: bool, limits: Meta | None) -> str:
    if limits is None:
        return N_("a whole number") if whole else N_("a number")
    if limits.gt is not None:
        return N_("a number above {least}", least=f"{limits.gt:g}")
    if limits.le is not None:
        return N_("a whole number from {least} to {most}", least=limits.ge, most=limits.le)
    return N_("a whole number, {least} or more", least=limits.ge)


def parse_value(setting: Setting, text: str) -> object:
    """Parse what a person typed as a value for the setting: text as it is, all else as JSON or YAML on one line.

    Raises UsageError for invalid YAML. Whether the value fits is checked by `faults`.
    """
    kinds = set(_union_members(setting.typed)) - {type(None)}
    if bool in kinds and text.strip().lower() in _BOOLEAN_WORDS:
        return _BOOLEAN_WORDS[text.strip().lower()] if kinds == {bool} else text.strip().lower()
    enumerated = any(isinstance(one, type) and issubclass(one, StrEnum) for one in kinds)
    if str in kinds or enumerated:
        return text
    import yaml

    try:
        found: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = str(getattr(error, "problem", None) or error)
        raise UsageError(
            N_("What was given for {key} cannot be read: {why}.", key=setting.key, why=reason),
            N_("Write lists as [a, b] and sections as {a: 1}, in quotes."),
        ) from None
    return found


def _union_members(typed: object) -> tuple[object, ...]:
    """Return the types of a union; any other type alone."""
    if typing.get_origin(typed) in (typing.Union, types.UnionType):
        return typing.get_args(typed)
    return (typed,)


def _unknown_key_error(path: tuple[str, ...]) -> UsageError:
    key = ".".join(path)
    return UsageError(
        N_("Unknown setting `{key}`.", key=key[:80]),
        join_localizable(" ", (_suggest_key(path), N_("`hermes config list --all` shows those there are."))),
    )


def _suggest_key(path: tuple[str, ...]) -> str:
    """Return a `did you mean` sentence: the nearest name in the section that is meant, else the nearest of all, one
    with the same last word, or the section alone.
    """
    from hermes.util.nearest_names import list_nearest

    names = [setting.key for setting in iter_settings()]
    sections = [one.name for one in msgspec.structs.fields(Settings)]
    section = path[0] if path[0] in sections else next(iter(list_nearest(path[0], sections)), "")
    corrected = ".".join((section, *path[1:]))
    if section == path[0] and corrected not in names:
        return suggest_name(corrected, [name for name in names if name.startswith(f"{section}.")])
    same = sorted((name for name in names if name.rpartition(".")[2] == path[-1]), key=lambda name: name != corrected)
    nearest = same[0] if same else section
    return N_("Did you mean {names}?", names=repr(nearest)) if nearest else ""
