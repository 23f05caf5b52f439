"""Profiles: several homes of one person, each a folder of `~/.hermes/profiles`, and which of them is used.

What `HERMES_HOME` names comes first, then `-p NAME` (`HERMES_PROFILE`), then what `hermes profile use` has written.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import phrase
from hermes.util.atomic import write_atomic

DEFAULT = "default"
"""The name of the home that is no profile: `~/.hermes` itself."""
VARIABLE = "HERMES_PROFILE"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_CHOSEN = "active_profile"
_FOLDER = "profiles"


def base_folder(environ: Mapping[str, str]) -> Path:
    """`~/.hermes`, under which the profiles lie, whatever HERMES_HOME says. Raises ConfigError."""
    try:
        return Path(environ.get("HOME") or Path.home()) / ".hermes"
    except RuntimeError:
        raise ConfigError(phrase("No home folder is known."), phrase("Set HERMES_HOME to a folder.")) from None


def checked_name(name: str) -> str:
    """The name, when it can be a profile's. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            phrase("{name!r} cannot be a profile's name.", name=name[:80]),
            phrase("Use small letters, digits, `_` and `-`, 64 at most, a letter or a digit first."),
        )
    return name


def folder_of(base: Path, name: str) -> Path:
    """Where a profile lies, or would lie; the default one is the base itself."""
    return base if name == DEFAULT else base / _FOLDER / name


def profile_names(base: Path) -> list[str]:
    """The profiles there are, sorted, the default one first."""
    try:
        found = sorted(one.name for one in os.scandir(base / _FOLDER) if one.is_dir() and _NAME.fullmatch(one.name))
    except (FileNotFoundError, NotADirectoryError):
        found = []
    return [DEFAULT, *(name for name in found if name != DEFAULT)]


def chosen_profile(base: Path) -> str:
    """What `hermes profile use` has chosen. Raises ConfigError for a file that cannot be read."""
    try:
        with open(base / _CHOSEN, encoding="utf-8", errors="replace") as file:
            return file.read(200).strip() or DEFAULT
    except (FileNotFoundError, NotADirectoryError):
        return DEFAULT
    except OSError as error:
        raise ConfigError(
            phrase("{file} cannot be read: {reason}.", file=base / _CHOSEN, reason=error.strerror),
            phrase("Mend its permissions, or remove it."),
        ) from None


def choose_profile(base: Path, name: str) -> None:
    """Use this profile from now on, wherever nothing else is said."""
    if name == DEFAULT:
        (base / _CHOSEN).unlink(missing_ok=True)
    else:
        write_atomic(base / _CHOSEN, f"{name}\n".encode(), mode=0o600)


def profile_home(environ: Mapping[str, str]) -> Path:
    """The home of the profile that is to be used. Raises UsageError for a name that is none, and ConfigError."""
    base = base_folder(environ)
    named = environ.get(VARIABLE, "")
    name = named or chosen_profile(base)
    if name == DEFAULT:
        return base
    folder = folder_of(base, checked_name(name))
    if not folder.is_dir():
        from hermes.plugins import suggestion

        hint = suggestion(name, profile_names(base)) or phrase("`hermes profile list` shows those there are.")
        raise ConfigError(phrase("There is no profile {name!r}.", name=name), hint)
    return folder


def current_profile(environ: Mapping[str, str]) -> str:
    """The name of the profile that is used; empty where HERMES_HOME names a folder that is none of them."""
    base, named = base_folder(environ), environ.get("HERMES_HOME", "")
    if not named:
        return environ.get(VARIABLE, "") or chosen_profile(base)
    root = Path(named).expanduser().absolute()
    return next((name for name in profile_names(base) if folder_of(base, name) == root), "")
