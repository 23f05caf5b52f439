"""What an engine for code that calls tools gives and takes: calls that the code waits for, their answers, its end."""

import ast
from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Raw, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError

MAX_CODE = 100_000
"""The characters of a piece of code."""
MAX_ARGUMENTS = 2_000_000
"""The characters of the arguments of the calls that code makes at once."""
MAX_AT_ONCE = 50
"""The calls that code may make at once."""
MAX_NAME = 200
"""The characters of the name of a tool that code calls: it is kept with every call that is made."""
MAX_ERROR = 20_000
"""The characters that are kept of the error by which code has ended."""


class CallRequest(Struct, frozen=True):
    """A call that code makes; `arguments` is JSON."""

    name: str
    arguments: str


class AnswerKind(StrEnum):
    """What came of a call, as code is told."""

    OK = "ok"
    FAILED = "failed"
    """It raises `ToolError`."""
    UNKNOWN = "unknown"
    """It raises `OutcomeUnknown`: the call may have happened."""


class CallAnswer(Struct, frozen=True):
    """The answer to a call."""

    kind: AnswerKind
    text: str


class CallsWanted(Struct, frozen=True):
    """The code waits for the results of these calls. `dump` is its state there; empty where that cannot be stored."""

    calls: tuple[CallRequest, ...]
    dump: bytes = b""


class InvalidCallsError(ToolError):
    """Code wants calls that cannot be made; the text says why, for the code."""


def build_calls(asked: Sequence[tuple[str, Mapping[str, Raw]]]) -> tuple[CallRequest, ...]:
    """Return the calls that code wants, names and arguments as they were read. Raises `InvalidCallsError`."""
    if not 0 < len(asked) <= MAX_AT_ONCE:
        raise InvalidCallsError(f"Between 1 and {MAX_AT_ONCE} calls can be made at once.")
    if any(len(name) > MAX_NAME for name, _ in asked):
        raise InvalidCallsError(f"The name of a tool has over {MAX_NAME} characters.")
    try:
        calls = tuple(CallRequest(name, to_json(arguments).decode()) for name, arguments in asked)
    except UnicodeDecodeError:
        raise InvalidCallsError("The arguments are no text.") from None
    if sum(len(one.arguments) for one in calls) > MAX_ARGUMENTS:
        raise InvalidCallsError(f"The arguments have over {MAX_ARGUMENTS} characters.")
    return calls


class CodeEnded(Struct, frozen=True):
    """The code has ended; `error` says what it was stopped by, empty when by nothing."""

    error: str = ""


CodeStep = CallsWanted | CodeEnded


class UnsupportedCodeError(ToolError):
    """The engine cannot run this code, and has made no call for it; the text says why, for the model."""


class PrintedText:
    """What code prints, up to a limit; the rest is counted."""

    def __init__(self, limit: int, before: str = "") -> None:
        self._limit = limit
        self._pieces = [before]
        self._size = len(before)
        self.left_out = 0

    def add(self, text: str) -> None:
        """Add what was printed."""
        room = max(0, self._limit - self._size)
        if room:
            self._pieces.append(text[:room])
            self._size += min(room, len(text))
        self.left_out += max(0, len(text) - room)

    @property
    def is_flooded(self) -> bool:
        """Whether so much was printed that the code is to be stopped."""
        return self.left_out > 20 * self._limit

    def to_text(self) -> str:
        """Return what was kept."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


def show_last_value(code: str, function: str) -> str:
    """Return code whose last expression, if it ends with one, is given to a function that prints its value. Lines stay
    where they are.

    Raises SyntaxError, ValueError or RecursionError for what is no Python.
    """
    body = ast.parse(code).body
    last = body[-1] if body else None
    if not isinstance(last, ast.Expr) or _is_printing(last.value):
        return code
    assert last.end_lineno is not None and last.end_col_offset is not None
    lines = code.encode("utf-8", "surrogatepass").split(b"\n")
    end, stop = lines[last.end_lineno - 1], last.end_col_offset
    lines[last.end_lineno - 1] = end[:stop] + b"))" + end[stop:]
    first = lines[last.lineno - 1]
    lines[last.lineno - 1] = first[: last.col_offset] + function.encode() + b"((" + first[last.col_offset :]
    return b"\n".join(lines).decode("utf-8", "surrogatepass")


def _is_printing(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print"


_FILE_NAMES = ("open", "input", "breakpoint")
_FILE_MODULES = ("pathlib", "io", "shutil", "subprocess")
_OS_MODULE = "os"
_PLAIN = ("path", "sep")
"""What of `os` reaches nothing."""


class CodeNeeds(Struct, frozen=True):
    """What code needs: the modules that it imports, and what of it reaches files or the system, empty for nothing."""

    modules: tuple[str, ...]
    files: str = ""


def find_needs(code: str) -> CodeNeeds:
    """Return what code needs, as far as its text tells. Raises what `show_last_value` raises."""
    modules: dict[str, None] = {}
    files: dict[str, None] = {}
    for node in ast.walk(ast.parse(code)):
        modules |= dict.fromkeys(_list_imports(node))
        files |= dict.fromkeys(_list_file_names(node))
    files |= dict.fromkeys(name for name in modules if name.partition(".")[0] in _FILE_MODULES)
    return CodeNeeds(tuple(name for name in modules if name.replace(".", "").isidentifier()), next(iter(files), ""))


def _list_imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def _list_file_names(node: ast.AST) -> list[str]:
    """Return what a node names of files and of the system."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return [f"{node.id}()"] if node.id in _FILE_NAMES else []
    is_system = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _OS_MODULE
    return [f"os.{node.attr}"] if isinstance(node, ast.Attribute) and is_system and node.attr not in _PLAIN else []
