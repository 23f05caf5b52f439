"""Selects the environment variables that a command gets: those without keys."""

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_?KEYS?(_ID)?|SECRET(_KEY)?|PRIVATE_KEY|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)|"
    r"_KEY$|^(KEY|PASS)$|_PASS$|_DSN$|^DATABASE_URL$|SECRET"
)
_HARMLESS_NAMES = frozenset({"SSH_AUTH_SOCK", "GPG_TTY", "XDG_SESSION_ID"})


_BASIC_NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    }
)  # fmt: skip


def select_basic_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that programs need to run at all, for those that are given nothing else
    unless by name.
    """
    return {name: value for name, value in environment.items() if name in _BASIC_NAMES or name.startswith("LC_")}


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of this name is taken to hold a key."""
    return name not in _HARMLESS_NAMES and _SECRET_NAME.search(name.upper()) is not None


def remove_secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that commands may see."""
    return {name: value for name, value in environment.items() if not is_secret_variable(name)}
