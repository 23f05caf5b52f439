"""The program that runs code in a Python of the place where commands run. It knows the standard library only.

What it was started with becomes the channel to Hermes: a line each way for each message, with a mark in front that
nobody else knows. The code and all that it starts get other streams: what they print is sent on as messages.
"""

import sys

if __name__ == "__main__":
    sys.path[:1] = []  # what lies in the folder is the code's to import, not this program's

import builtins
import io
import json
import linecache
import os
import threading
import traceback


class CallFailedError(OSError):
    """A call has failed."""


class CallUnknownError(CallFailedError):
    """A call may have happened."""


CallFailedError.__qualname__ = CallFailedError.__name__ = "ToolError"
CallUnknownError.__qualname__ = CallUnknownError.__name__ = "OutcomeUnknown"


class Channel:
    """Sends messages to Hermes, and reads its answers."""

    def __init__(self) -> None:
        self._output = os.fdopen(os.dup(1), "wb", 0)
        self._input = os.fdopen(os.dup(0), "rb")
        self.first = json.loads(self._input.readline())
        self._mark = self.first["mark"]
        self._sending = threading.Lock()
        self._asking = threading.Lock()

    def send(self, message: dict[str, object]) -> None:
        """Send one message."""
        line = b"\x1e" + self._mark.encode() + json.dumps(message, ensure_ascii=False).encode() + b"\n"
        with self._sending:
            while line:
                line = line[self._output.write(line) :]

    def ask(self, calls: list[list[object]]) -> list[list[str]]:
        """Make calls, and return what came of each."""
        with self._asking:
            sys.stdout.flush()
            sys.stderr.flush()
            self.send({"calls": calls})
            while True:
                line = self._input.readline()
                if not line:
                    os._exit(1)
                if line.startswith(self._mark.encode()):
                    return list(json.loads(line[len(self._mark) :]))


def forward_prints(channel: Channel) -> threading.Thread:
    """Give this process and its children other streams, and send on what comes out of them."""
    source, sink = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    os.close(null)
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding="utf-8")
    for name, handle in (("stdout", 1), ("stderr", 2)):
        raw = os.fdopen(handle, "wb", closefd=False)
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True))

    def forward() -> None:
        while data := os.read(source, 65_536):
            channel.send({"printed": data.decode("utf-8", "backslashreplace")})

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    return thread


def define_names(channel: Channel, tools: list[str], show: str) -> dict[str, object]:
    """Return the names with which the code begins."""

    def settle(answer: list[str]) -> str:
        if answer[0] == "ok":
            return answer[1]
        raise CallUnknownError(answer[1]) if answer[0] == "unknown" else CallFailedError(answer[1])

    def tool(name: str, arguments: dict[str, object] | None = None, **named: object) -> str:
        return settle(channel.ask([[name, {**(arguments or {}), **named}]])[0])

    def at_once(calls: list[tuple[str, dict[str, object]]]) -> list[object]:
        found: list[object] = []
        for answer in channel.ask([[one[0], one[1]] for one in calls]):
            try:
                found.append(settle(answer))
            except CallFailedError as error:
                found.append(error)
        return found

    def show_value(value: object) -> None:
        if value is not None:
            sys.stdout.write(f"{value if isinstance(value, str) else repr(value)}\n")

    def make_stub(name: str) -> object:
        return lambda **named: tool(name, named)

    names: dict[str, object] = {name: make_stub(name) for name in tools}
    return {
        **names,
        "__name__": "__main__",
        "__builtins__": builtins,
        "ToolError": CallFailedError,
        "OutcomeUnknown": CallUnknownError,
        "tool": tool,
        "at_once": at_once,
        show: show_value,
    }


def explain_error(error: BaseException, original: str) -> str:
    """Return an error with the lines of the code that led to it."""
    if isinstance(error, SystemExit):
        return "" if error.code in (None, 0) else f"SystemExit: {error.code}"
    written = original.split("\n")
    numbers = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == "<code>"]
    lines = [f"line {one}: {written[one - 1].strip()}" for one in numbers if one and one <= len(written)]
    said = "".join(traceback.format_exception_only(type(error), error)).strip().removeprefix("__main__.")
    return "\n".join([*dict.fromkeys(lines), said])


def main() -> None:
    """Run the code that the first line brings, and send how it ended."""
    channel = Channel()
    first = channel.first
    forwarding = forward_prints(channel)
    linecache.cache["<code>"] = (len(first["code"]), None, first["original"].splitlines(True), "<code>")
    names = define_names(channel, first["tools"], first["show"])
    sys.path.insert(0, "")
    said = ""
    try:
        exec(compile(first["code"], "<code>", "exec"), names)  # noqa: S102 - this is what it is for
    except BaseException as error:  # noqa: BLE001 - how the code has ended, whatever it raised
        said = explain_error(error, first["original"])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    forwarding.join(0.5)
    channel.send({"ended": said.encode("utf-8", "backslashreplace").decode()})
    os._exit(0)


if __name__ == "__main__":
    main()
