"""Find a wire by name. Only the module of the wire that is used is imported."""

from importlib import import_module

from hermes.core.errors import ConfigError
from hermes.providers.wire import Wire

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


def wire_name(name: str) -> str:
    """The wire's own name for a name or an alias. Raises `ConfigError` for one that does not exist."""
    wanted = name.strip().lower()
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in _MODULES:
        raise ConfigError(
            f"There is no API mode `{name}`.",
            f"Set `model.api_mode` to one of: {', '.join(_MODULES)} (or codex_responses).",
        )
    return wanted


def wire(name: str) -> Wire:
    """The wire of that name or alias."""
    found: Wire = import_module(f"hermes.providers.{_MODULES[wire_name(name)]}").WIRE
    return found
