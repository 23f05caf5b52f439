"""Checks whether a file that was just written can be read by the programs it is for."""

import warnings
from collections.abc import Callable
from pathlib import PurePath

import msgspec

_MAX_CHARACTERS = 1_000_000


def describe_syntax_error(path: str, text: str) -> str:
    """Return a line that names the first syntax error of Python, JSON, YAML or TOML; empty when there is none."""
    check = _CHECKS.get(PurePath(path).suffix.lower())
    if check is None or len(text) > _MAX_CHARACTERS:
        return ""
    found = check(text)
    return f"Syntax error now in {path}: {found}" if found else ""


def _check_python(text: str) -> str:
    import ast

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        return f"{line}{error.msg if isinstance(error, SyntaxError) else error}."
    return ""


def _check_json(text: str) -> str:
    import json

    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        try:  # for the position in lines, and for what only msgspec rejects
            json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"{error}."
    return ""


def _check_yaml(text: str) -> str:
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        return " ".join(str(error).split()) + "."
    return ""


def _check_toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return f"{error}."
    return ""


_CHECKS: dict[str, Callable[[str], str]] = {
    ".py": _check_python,
    ".pyi": _check_python,
    ".json": _check_json,
    ".yaml": _check_yaml,
    ".yml": _check_yaml,
    ".toml": _check_toml,
}
