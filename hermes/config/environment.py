"""The only reader of the process's environment."""

import os
from collections.abc import Mapping
from pathlib import Path


def copy_environment() -> dict[str, str]:
    """Return a copy of the environment as it is now."""
    return dict(os.environ)


def use_profile(name: str) -> None:
    """Make this process, and what it starts, use the home of this profile."""
    os.environ["HERMES_PROFILE"] = name


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
