"""What a folder plug-in in Python is written with: `tool`, `hook` and `command` mark functions, `run` answers Hermes.

It knows the standard library only. `run()` reads requests from the standard input, a line of JSON each, and writes an
answer for each to the standard output. Hooks run one after another, everything else in threads of its own.
What a plug-in prints goes to its log, `logs/plugin-NAME.log` in Hermes' home.
"""

import io
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

PROTOCOL = 1
_MAX_MESSAGE = 1_000_000


class CallError(Exception):
    """Raised by a tool, hook or command to say in a sentence why it cannot do what was asked."""


class PluginCall:
    """What a tool or a command is told beside its arguments: the session's id, and its folder."""

    def __init__(self, session: str, folder: str) -> None:
        self.session = session
        self.folder = folder
        self.is_cancelled = False
        """Whether nobody waits for the answer any more; work that takes long looks here now and then."""


_tools: dict[str, Callable[..., object]] = {}
_hooks: dict[str, Callable[[dict[str, object]], dict[str, object] | None]] = {}
_commands: dict[str, Callable[[PluginCall, str], object]] = {}
_memory: dict[str, Callable[[dict[str, object]], object]] = {}


def get_data_folder() -> str:
    """Return the only folder in which a plug-in may write."""
    return os.path.expanduser("~")


def tool(function: Callable[..., object]) -> Callable[..., object]:
    """Mark a function as the tool of its name: it is given `call` and the arguments by name, and returns a text."""
    _tools[function.__name__] = function
    return function


def hook(event: str) -> Callable[[Callable[[dict[str, object]], dict[str, object] | None]], object]:
    """Mark a function as the hook of an event: it is given a dict, and returns None or a dict with its answer."""

    def mark_hook(function: Callable[[dict[str, object]], dict[str, object] | None]) -> object:
        _hooks[event] = function
        return function

    return mark_hook


def command(name: str) -> Callable[[Callable[[PluginCall, str], object]], object]:
    """Mark a function as a command: it is given `call` and the text behind its name, and returns a text."""

    def mark_command(function: Callable[[PluginCall, str], object]) -> object:
        _commands[name] = function
        return function

    return mark_command


def memory(event: str) -> Callable[[Callable[[dict[str, object]], object]], object]:
    """Mark a function as the memory's part for an event (`recall`, `learn` ...): it is given a dict and returns a text
    or None.
    """

    def mark_memory(function: Callable[[dict[str, object]], object]) -> object:
        _memory[f"memory.{event}"] = function
        return function

    return mark_memory


def summarize(function: Callable[[dict[str, object]], object]) -> Callable[[dict[str, object]], object]:
    """Mark the function that writes summaries: it is given a dict with `instructions` and `text`; it returns a text."""
    _memory["engine.summarize"] = function
    return function


class _Server:
    """Reads requests and answers them."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source = source
        self._target = target
        self._writing = threading.Lock()
        self._open: set[int] = set()
        """The requests that have no answer yet; guarded by the lock."""
        self._calls: dict[int, PluginCall] = {}

    def serve_requests(self) -> None:
        """Answer requests until Hermes closes the input."""
        for line in self._source:
            message = json.loads(line)
            method, params, number = message["method"], message.get("params") or {}, message.get("id")
            if number is not None:
                with self._writing:
                    self._open.add(number)
            if method == "cancel":
                self._cancel(params["id"])
            elif method in ("tool", "command"):
                call = self._calls[number] = PluginCall(params.get("session", ""), params.get("folder", ""))
                self._start(number, self._run_tool if method == "tool" else self._run_command, params, call)
            elif method.startswith(("memory.", "engine.")):
                self._start(number, self._run_memory, method, params)
            elif method == "hook":
                self._answer(number, self._run_hook, params)
            elif method == "initialize":
                self._answer(number, lambda: {"protocol": PROTOCOL})
            else:
                self._send({"id": number, "error": {"message": f"there is no method {method}"}})

    def _cancel(self, number: int) -> None:
        """Answer at once for what runs on: Hermes would end the process after a second without an answer."""
        call = self._calls.get(number)
        if call is not None:
            call.is_cancelled = True
        self._send({"id": number, "error": {"message": "it was cancelled"}})

    def _start(self, number: int, function: Callable[..., dict[str, object]], *arguments: object) -> None:
        threading.Thread(target=self._answer, args=(number, function, *arguments), daemon=True).start()

    def _run_hook(self, params: dict[str, object]) -> dict[str, object]:
        function = _hooks.get(str(params["event"]))
        return (function(params) if function is not None else None) or {}

    def _run_memory(self, method: str, params: dict[str, object]) -> dict[str, object]:
        function = _memory.get(method)
        result = function(params) if function is not None else None
        return {} if result is None else {"text": _to_text(result)}

    def _run_tool(self, params: dict[str, object], call: PluginCall) -> dict[str, object]:
        function, arguments = _tools.get(str(params["name"])), params["arguments"]
        if function is None or not isinstance(arguments, dict):
            raise CallError(f"main.py has no tool {params['name']}")
        return {"text": _to_text(function(call, **arguments))}

    def _run_command(self, params: dict[str, object], call: PluginCall) -> dict[str, object]:
        function = _commands.get(str(params["name"]))
        if function is None:
            raise CallError(f"main.py has no command {params['name']}")
        return {"text": _to_text(function(call, str(params["text"])))}

    def _answer(self, number: int, function: Callable[..., dict[str, object]], *arguments: object) -> None:
        try:
            answer: dict[str, object] = {"id": number, "result": function(*arguments)}
        except CallError as error:
            answer = {"id": number, "error": {"message": str(error)}}
        except Exception as error:  # noqa: BLE001 - what the author's code raises is said, and the next one is answered
            sys.excepthook(type(error), error, error.__traceback__)
            answer = {"id": number, "error": {"message": f"{type(error).__name__}: {error}"}}
        self._calls.pop(number, None)
        self._send(answer)

    def _send(self, answer: dict[str, object]) -> None:
        """Send an answer, unless the request has one already."""
        line = json.dumps(answer).encode() + b"\n"
        if len(line) > _MAX_MESSAGE:
            line = json.dumps({"id": answer["id"], "error": {"message": "the answer is too long"}}).encode() + b"\n"
        with self._writing:
            if answer["id"] in self._open:
                self._open.remove(answer["id"])
                self._target.write(line)
                self._target.flush()


def _to_text(result: object) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def run() -> None:
    """Answer Hermes until it closes the input. A plug-in calls this at its end."""
    source = os.fdopen(os.dup(0), "rb")
    target = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # what is printed is for the log
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False))
    _Server(source, target).serve_requests()
