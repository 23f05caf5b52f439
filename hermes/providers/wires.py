"""Finds an API format by name. Only the module of the format that is used is imported."""

from importlib import import_module

from hermes.core.errors import ConfigError
from hermes.providers.wire import WireFormat

_MODULES = {
    "chat_completions": "chat_completions",
    "responses": "responses",
    "anthropic_messages": "anthropic_messages",
}
_ALIASES = {
    "codex_responses": "responses",
    "openai_responses": "responses",
    "chat": "chat_completions",
    "openai": "chat_completions",
    "anthropic": "anthropic_messages",
}


def resolve_wire_name(name: str) -> str:
    """Return the format's own name for a name or an alias. Raises `ConfigError` for one that does not exist."""
    wanted = name.strip().lower()
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in _MODULES:
        raise ConfigError(
            f"There is no API mode `{name}`.",
            f"Set `model.api_mode` to one of: {', '.join(_MODULES)} (or codex_responses).",
        )
    return wanted


def load_wire(name: str) -> WireFormat:
    """Return the format of that name or alias."""
    found: WireFormat = import_module(f"hermes.providers.{_MODULES[resolve_wire_name(name)]}").WIRE
    return found
