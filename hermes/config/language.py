"""Detects the language a person wants, without reading the settings as a whole."""

import re
from collections.abc import Mapping

from hermes.config.environment import copy_environment, merge_dotenv
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.i18n.messages import LANGUAGES, language_from_environment, set_language

_LANGUAGE_SETTING = re.compile(
    r"^display:[ \t]*(?:#.*)?\n(?:(?:[ \t].*|#.*|)\n)*?[ \t]+language:[ \t]*[\"']?(\w+)", re.MULTILINE
)
_MAX_CHARS = 4_000_000


def detect_language(environ: Mapping[str, str]) -> str:
    """Return the language of HERMES_LANGUAGE (`.env` counts), else of `display.language`, else of the locale.

    It is needed before the settings are, and where they cannot be used: so it is looked for in their text.
    A home that cannot be read is no error here.
    """
    try:
        home = locate_home(environ)
        whole = merge_dotenv(environ, home.env_file)
        if whole.get("HERMES_LANGUAGE"):
            return language_from_environment(whole)
        with home.config_file.open(encoding="utf-8", errors="replace") as file:
            found = _LANGUAGE_SETTING.search(file.read(_MAX_CHARS))
    except (OSError, HermesError):
        found = None
    return found[1] if found is not None and found[1] in LANGUAGES else language_from_environment(environ)


def use_detected_language() -> None:
    """Use the language that this person wants for everything that is printed from here on."""
    set_language(detect_language(copy_environment()))
