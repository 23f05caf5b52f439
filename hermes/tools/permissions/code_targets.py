"""Tells which files a command would run, where its folder alone is too coarse."""

import json
import os
import re
import sys

from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import CommandEffect, EffectKind, SimpleCommand
from hermes.safety.shell.words import word_set
from hermes.tools.session import ToolContext

_SAFE_PYTHON_MODULES = word_set(
    "venv ensurepip json.tool http.server zipfile tarfile gzip base64 calendar this platform site sysconfig tokenize "
    "ast py_compile compileall"
)
"""Modules of Python that run no file which they are given. They import other library modules by their names."""
_INTERPRETER = re.compile(r"(python|pypy|node|ruby|perl|php|lua)[\d.]*")
_BINARY_MAGIC = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""The first bytes of programs of Linux and macOS."""
_LIBRARY_MODULES = sys.stdlib_module_names | {"sitecustomize", "usercustomize"}
_NPM_INSTALL_VERBS = ("install", "i", "add", "ci", "uninstall", "update")
_NPM_INSTALL_SCRIPTS = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
_NPM_SHORT_VERBS = ("test", "start", "stop", "restart")
_MAX_BYTES = 262_144
_MAX_DEPTH = 3


def is_interpreter(simple: SimpleCommand) -> bool:
    """Return whether a command's program is a known interpreter and a binary, not somebody's script."""
    if _INTERPRETER.fullmatch(simple.argv[0].rpartition("/")[2]) is None:
        return False
    try:
        with open(os.path.join(simple.cwd, simple.argv[0]), "rb") as file:
            return file.read(4) in _BINARY_MAGIC
    except OSError:
        return False


def can_run_file(effect: CommandEffect, path: str, context: ToolContext, depth: int = 0) -> bool:
    """Return whether a command that runs something of a folder may run this file in it (resolved), as far as can be
    told.
    """
    program, *words = effect.argv or ("",)
    name = program.rpartition("/")[2]
    folder = os.path.realpath(effect.targets[-1]) if effect.targets else ""
    if name.startswith("python") and words[:1] == ["-m"] and not _SAFE_PYTHON_MODULES.isdisjoint(words[1:2]):
        # A file may be where Python looks for a module of its library first.
        first = os.path.relpath(path, folder).split("/")[0].partition(".")[0]
        return "--cgi" in words or first in _LIBRARY_MODULES or path.endswith(".pth")
    if name == "npm" and (texts := _load_npm_scripts(words, folder, context)) is not None:
        return depth > _MAX_DEPTH or any(_can_script_run(text, folder, path, context, depth) for text in texts)
    return True


def _load_npm_scripts(words: list[str], folder: str, context: ToolContext) -> list[str] | None:
    """Return the scripts of a package that npm would run, or None where that cannot be
    told or this session wrote them.
    """
    file = os.path.join(folder, "package.json")
    own = context.state.written_files
    names = _find_script_names(words) if words else []
    if not names or file in own or os.path.join(folder, ".npmrc") in own:
        return None
    try:
        with open(file, encoding="utf-8") as opened:
            decoded = json.loads(opened.read(_MAX_BYTES))
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        return None
    scripts = decoded.get("scripts") if isinstance(decoded, dict) else None
    return [str(scripts[one]) for one in names if one in scripts] if isinstance(scripts, dict) else []


def _find_script_names(words: list[str]) -> list[str]:
    """Return the names of the scripts that an npm verb runs; none where that cannot be told."""
    if words[0] in _NPM_INSTALL_VERBS:
        return list(_NPM_INSTALL_SCRIPTS)
    runs = words[0] in ("run", "run-script")
    verb = "".join(words[1:2]) if runs else words[0] if words[0] in _NPM_SHORT_VERBS else ""
    return [f"pre{verb}", verb, f"post{verb}"] if verb and not verb.startswith("-") else []


def _can_script_run(text: str, folder: str, path: str, context: ToolContext, depth: int) -> bool:
    from hermes.safety.shell.commands import analyze_command

    effects = analyze_command(text, folder, context.places, context.state.environment).effects
    return any(one.kind is EffectKind.UNKNOWN or _can_effect_run(one, path, context, depth) for one in effects)


def _can_effect_run(effect: CommandEffect, path: str, context: ToolContext, depth: int) -> bool:
    below = any(is_or_below(path, os.path.realpath(one)) for one in effect.targets)
    return effect.kind is EffectKind.RUNS and below and can_run_file(effect, path, context, depth + 1)
