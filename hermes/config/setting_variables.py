"""Environment variables that stand for settings, under the names that guides for agents of this kind use.

They go before config.yaml, and what they replace there is said. They come from the process's environment or from the
`.env` of the home.
"""

from collections.abc import Mapping

SETTING_VARIABLES = {
    "TERMINAL_ENV": "terminal.backend",
    "TERMINAL_TIMEOUT": "terminal.timeout",
    "HERMES_MODEL": "model.default",
    "HERMES_INFERENCE_PROVIDER": "model.provider",
    "HERMES_MAX_ITERATIONS": "agent.max_turns",
}
"""The setting that each variable stands for."""


def select_setting_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables of an environment that stand for settings and are not empty."""
    return {name: environ[name].strip() for name in SETTING_VARIABLES if environ.get(name, "").strip()}


def set_by_path(document: Mapping[str, object], key: str, value: object) -> dict[str, object]:
    """Return the document with the value at `section.name`; a model that is only a name becomes a section."""
    section, _, name = key.partition(".")
    held = document.get(section)
    inner = held if isinstance(held, dict) else {"default": held} if isinstance(held, str) else {}
    return {**document, section: {**inner, name: value}}


def get_by_path(document: Mapping[str, object], key: str) -> object:
    """Return the value at `section.name`, or None."""
    section, _, name = key.partition(".")
    held = document.get(section)
    if isinstance(held, str) and name == "default":
        return held
    return held.get(name) if isinstance(held, dict) else None
