"""Whether a file that was just written can be read by the programs it is for."""

import warnings
from collections.abc import Callable
from pathlib import PurePath

import msgspec

_LIMIT = 1_000_000


def syntax_note(path: str, text: str) -> str:
    """A line that names the first syntax error of Python, JSON, YAML or TOML; empty when there is none."""
    check = _CHECKS.get(PurePath(path).suffix.lower())
    if check is None or len(text) > _LIMIT:
        return ""
    found = check(text)
    return f"Syntax error now in {path}: {found}" if found else ""


def _python(text: str) -> str:
    import ast

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        return f"{line}{error.msg if isinstance(error, SyntaxError) else error}."
    return ""


def _json(text: str) -> str:
    import json

    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        try:  # for the position in lines, and for what only msgspec rejects
            json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"{error}."
    return ""


def _yaml(text: str) -> str:
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        return " ".join(str(error).split()) + "."
    return ""


def _toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return f"{error}."
    return ""


_CHECKS: dict[str, Callable[[str], str]] = {
    ".py": _python, ".pyi": _python, ".json": _json, ".yaml": _yaml, ".yml": _yaml, ".toml": _toml,
}  # fmt: skip
