"""Which variables a command gets: not the keys that this process holds."""

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_?KEYS?(_ID)?|SECRET(_KEY)?|PRIVATE_KEY|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)|"
    r"_KEY$|^(KEY|PASS)$|_PASS$|_DSN$|^DATABASE_URL$|SECRET"
)
_KEPT = frozenset({"SSH_AUTH_SOCK", "GPG_TTY", "XDG_SESSION_ID"})


_BASIC = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    }
)  # fmt: skip


def basic_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The few variables that programs need to run at all, for those that are given nothing else unless by name."""
    return {name: value for name, value in environment.items() if name in _BASIC or name.startswith("LC_")}


def holds_secret(name: str) -> bool:
    """Whether a variable of this name is taken to hold a key."""
    return name not in _KEPT and _SECRET.search(name.upper()) is not None


def public_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that commands may see."""
    return {name: value for name, value in environment.items() if not holds_secret(name)}
