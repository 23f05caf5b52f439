"""The only reader of the process's environment.

Variables in a `.env` file: a line is added or changed, everything else stays as it is.
"""

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.i18n.disk_errors import advise_on_write_error
from hermes.i18n.messages import N_

SETTING_VARIABLES = {
    "TERMINAL_ENV": "terminal.backend",
    "TERMINAL_TIMEOUT": "terminal.timeout",
    "HERMES_MODEL": "model.default",
    "HERMES_INFERENCE_PROVIDER": "model.provider",
    "HERMES_MAX_ITERATIONS": "agent.max_turns",
}
"""The setting that each variable stands for, by the names that guides for agents of this kind use. They go before
config.yaml, and what they replace there is said.
"""


def select_setting_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables of an environment that stand for settings and are not empty."""
    return {name: environ[name].strip() for name in SETTING_VARIABLES if environ.get(name, "").strip()}


def copy_environment() -> dict[str, str]:
    """Return a copy of the environment as it is now."""
    return dict(os.environ)


def use_profile(name: str) -> None:
    """Make this process, and what it starts, use the home of this profile."""
    os.environ["HERMES_PROFILE"] = name


def use_home(folder: str) -> None:
    """Make this process, and what it starts, use this home; nothing changes for an empty one."""
    if folder:
        os.environ["HERMES_HOME"] = folder


def merge_dotenv(environ: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the environment with what a `.env` file adds; a variable that is set already keeps its value.

    The file holds `NAME=value` lines; `export ` before them, comments, and single or double quotes around
    the value are understood. A file that cannot be read adds nothing and is not an error here.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return dict(environ)
    merged = parse_dotenv(text)
    merged.update({name: value for name, value in environ.items() if value})
    return merged


def parse_dotenv(text: str) -> dict[str, str]:
    """Return the variables of a `.env` file's text."""
    found: dict[str, str] = {}
    for raw in text.splitlines():
        line = raw.strip().removeprefix("export ").lstrip()
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or name.startswith("#"):
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        elif " #" in value:
            value = value.split(" #", 1)[0].rstrip()
        if value:
            found[name] = value
    return found


_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


_UNQUOTED_VALUE = re.compile(r"[\w./:@%+,=~-]+", re.ASCII)


def set_variables(file: Path, values: Mapping[str, str]) -> None:
    """Set variables in the file; it is its owner's alone (0600), and made when missing.

    Raises ConfigError, which never holds a value, when that cannot be.
    """
    text = _read_text(file)
    for name, value in values.items():
        text = _set_line(text, name, value)
    if any(parse_dotenv(text).get(name) != value for name, value in values.items()):
        raise ConfigError(N_("{names} cannot be written to {file}.", names=", ".join(values), file=file))
    try:
        from hermes.util.atomic_write import write_atomic  # every start reads variables, and next to none writes them

        write_atomic(file, text.encode(), mode=0o600)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(
            N_("{file} cannot be written: {why}.", file=file, why=why), advise_on_write_error(error)
        ) from None


def _read_text(file: Path) -> str:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    except OSError as error:
        if file.is_symlink():
            raise ConfigError(N_("{file} is a symbolic link, and keys follow none.", file=file)) from None
        raise ConfigError(N_("{file} cannot be read: {why}.", file=file, why=error.strerror)) from None
    with contextlib.closing(os.fdopen(handle, "rb")) as source:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ConfigError(N_("{file} is not a file.", file=file))
        return source.read().decode("utf-8", "surrogateescape")


def _set_line(text: str, name: str, value: str) -> str:
    if not _VARIABLE_NAME.fullmatch(name) or "\n" in value or "\r" in value:
        raise ConfigError(N_("{name} cannot be a line of .env.", name=name[:60]))
    line = _format_line(name, value)
    lines = text.splitlines(keepends=True)
    mine = re.compile(rf"\s*(?:export\s+)?{name}\s*=")
    last = max((number for number, one in enumerate(lines) if mine.match(one)), default=-1)
    if last >= 0:  # of several lines the last one counts
        end = "\r\n" if lines[last].endswith("\r\n") else "\n"
        export = "export " if lines[last].lstrip().startswith("export ") else ""
        return "".join([*lines[:last], f"{export}{line}{end}", *lines[last + 1 :]])
    return text + ("" if not text or text.endswith("\n") else "\n") + line + "\n"


def _format_line(name: str, value: str) -> str:
    quote = "" if _UNQUOTED_VALUE.fullmatch(value) else "'" if '"' in value else '"'
    return f"{name}={quote}{value}{quote}"


_VARIABLE = re.compile(r"\$\{(\w+)\}")


def fill_variables(value: object, environ: Mapping[str, str], where: str) -> object:
    """Return the value with `${VARIABLE}` filled in. Raises ConfigError for a variable that is not set."""
    if isinstance(value, dict):
        return {key: fill_variables(inner, environ, f"{where}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_variables(inner, environ, where) for inner in value]
    if not isinstance(value, str):
        return value

    def fill_match(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise ConfigError(
                N_("`{where}` names the variable {name}, which is not set.", where=where, name=match[1]),
                N_("Put it into the home's .env file, or into the environment."),
            )
        return environ[match[1]]

    return _VARIABLE.sub(fill_match, value)
