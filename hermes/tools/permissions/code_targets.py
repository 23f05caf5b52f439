"""Which files a command would run, where its folder alone is too much to say."""

import json
import os
import re
import sys
from collections.abc import Iterator

from hermes.safety.shell.findings import Effect, EffectKind, Simple
from hermes.tools.session import ToolContext

_READS_ONLY = frozenset(
    {
        *("venv", "ensurepip", "json.tool", "http.server", "zipfile", "tarfile", "gzip", "base64", "calendar", "this"),
        *("platform", "site", "sysconfig", "tokenize", "ast", "py_compile", "compileall"),
    }
)
"""Modules of Python that run no file which they are given. They take in others of the library, by their names."""
_INTERPRETER = re.compile(r"(python|pypy|node|ruby|perl|php|lua)[\d.]*")
_BINARY = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""How programs of Linux and macOS begin."""
_STARTS = frozenset({"sitecustomize", "usercustomize"})
_INSTALLS = ("install", "i", "add", "ci", "uninstall", "update")
_AT_INSTALL = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
_SHORT = ("test", "start", "stop", "restart")
_LARGEST = 262_144
_DEEPEST = 3


def is_interpreter(simple: Simple) -> bool:
    """Whether a command's program is one of the known interpreters, and a binary: no script of anybody's."""
    if _INTERPRETER.fullmatch(simple.argv[0].rpartition("/")[2]) is None:
        return False
    try:
        with open(os.path.join(simple.cwd, simple.argv[0]), "rb") as file:
            return file.read(4) in _BINARY
    except OSError:
        return False


def narrowed(effect: Effect, path: str, context: ToolContext, depth: int = 0) -> bool:
    """Whether a command that runs something of a folder may run this file in it (resolved), as far as can be told."""
    program, *words = effect.argv or ("",)
    name = program.rpartition("/")[2]
    folder = os.path.realpath(effect.targets[-1]) if effect.targets else ""
    if name.startswith("python") and words[:1] == ["-m"] and words[1:2] and words[1] in _READS_ONLY:
        return "--cgi" in words or _taken_in(path, folder)
    if name == "npm" and (texts := _scripts(words, folder, context)) is not None:
        return depth > _DEEPEST or any(_script_runs(text, folder, path, context, depth) for text in texts)
    return True


def _taken_in(path: str, folder: str) -> bool:
    """Whether a file stands where Python looks for a module of its library first."""
    first = os.path.relpath(path, folder).split("/")[0].partition(".")[0]
    return first in sys.stdlib_module_names or first in _STARTS or path.endswith(".pth")


def _scripts(words: list[str], folder: str, context: ToolContext) -> list[str] | None:
    """The scripts of a package that npm would run; None where that cannot be told, or this session wrote them."""
    file = os.path.join(folder, "package.json")
    if not words or file in context.state.wrote or os.path.join(folder, ".npmrc") in context.state.wrote:
        return None
    names = _script_names(words)
    if not names:
        return None
    try:
        with open(file, encoding="utf-8") as opened:
            told = json.loads(opened.read(_LARGEST))
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        return None
    scripts = told.get("scripts") if isinstance(told, dict) else None
    return [str(scripts[one]) for one in names if one in scripts] if isinstance(scripts, dict) else []


def _script_names(words: list[str]) -> list[str]:
    """The names of the scripts that a verb of npm's runs; none where that cannot be told."""
    if words[0] in _INSTALLS:
        return list(_AT_INSTALL)
    verb = words[0] if words[0] in _SHORT else "".join(words[1:2]) if words[0] in ("run", "run-script") else ""
    return [f"pre{verb}", verb, f"post{verb}"] if verb and not verb.startswith("-") else []


def _script_runs(text: str, folder: str, path: str, context: ToolContext, depth: int) -> bool:
    return any(
        one.kind is EffectKind.UNKNOWN or _reaches(one, path, context, depth) for one in _effects(text, folder, context)
    )


def _effects(text: str, folder: str, context: ToolContext) -> Iterator[Effect]:
    from hermes.safety.shell.commands import analyse

    yield from analyse(text, folder, context.places, context.state.environment).effects


def _reaches(effect: Effect, path: str, context: ToolContext, depth: int) -> bool:
    if effect.kind is not EffectKind.RUNS:
        return False
    below = (path == one or path.startswith(f"{one}/") for one in map(os.path.realpath, effect.targets))
    return any(below) and narrowed(effect, path, context, depth + 1)
