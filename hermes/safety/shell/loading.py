"""Code that programs load from other files: modules by name or path, and options that add folders to search."""

import re
from collections.abc import Sequence

from hermes.safety.shell.words import word_set

PRELOADED_MODULES = word_set("""
    sys os time builtins io abc codecs site stat posixpath genericpath marshal errno itertools atexit gc signal _thread
    __future__ encodings os.path
""")
"""Python's modules that are loaded before a program begins: no file of the folder can replace them."""
_NAME_LOOKUP_LANGUAGES = word_set("node deno lua luajit tclsh julia r Rscript guile octave php")
"""Languages that find a module by its name below the folder they run in."""
_LOAD_STATEMENT = re.compile(
    r"\b(?:require(?:_once|_relative)?|include(?:_once)?|load(?:file)?|dofile|do|import|source|use\s+lib|from|autoload)\b"
    r"[\s(]{0,4}(?:qw[(\s/]{0,3}|__DIR__\s{0,2}\.\s{0,2})?['\"`]?([\w@./~-]{1,200})"
)
_BUILT_IN = re.compile(
    r"(node:)?(fs|os|path|util|http|https|http2|url|crypto|child_process|net|tls|zlib|events|stream|assert|buffer|dns|"
    r"readline|repl|vm|v8|worker_threads|cluster|perf_hooks|process|querystring|string_decoder|timers|tty|dgram|module|"
    r"fs/promises|timers/promises|stream/promises|node:test)$"
)
_FOLDER_LETTERS = {"perl": "I", "ruby": "I", "node": "", "php": "", "lua": ""}
_MODULE_LETTERS = {"perl": "Mm", "ruby": "r", "node": "r", "lua": "l", "julia": "L", "emacs": "l"}
_MODULE_NAMES = word_set("require import loader experimental-loader load preload")


def find_loaded_code(text: str, language: str) -> set[str]:
    """Return the files and folders from which a program text loads more code."""
    found: set[str] = set()
    for match in _LOAD_STATEMENT.finditer(text[:30_000]):
        name = match[1]
        if name.startswith((".", "/", "~")) or "require_relative" in match[0] or "lib" in match[0][:10]:
            found |= {name, name.rpartition("/")[0] or "."}
        elif language in _NAME_LOOKUP_LANGUAGES and re.search(r"['\"`(]", match[0]) and not _BUILT_IN.match(name):
            found.add(".")
    return found


def find_option_modules(args: Sequence[str], language: str) -> set[str]:
    """Return the files and folders that options of an interpreter name: `-I lib`, `-r ./x`, `--import=x`."""
    found: set[str] = set()
    for at, text in enumerate(args[:40]):
        following = args[at + 1] if at + 1 < len(args) else ""
        value, is_folder = _parse_module_option(text, following, language)
        if value.startswith((".", "/", "~")) or (value and is_folder):
            found |= {value, value.rpartition("/")[0] or "."}
    return found


def _parse_module_option(text: str, following: str, language: str) -> tuple[str, bool]:
    """Return (what an option names, whether that is a folder); nothing when it is no such option."""
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        return (value if equals else following) if name in _MODULE_NAMES else "", False
    letter = text[1:2] if text.startswith("-") else ""
    if letter and letter in _FOLDER_LETTERS.get(language, ""):
        return text[2:] or following, True
    return (text[2:] or following if letter and letter in _MODULE_LETTERS.get(language, "") else ""), False
