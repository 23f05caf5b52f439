"""`hermes -z TEXT` through the gateway of this home, where one runs: the same answer without starting up.

What is imported here is all that such a call pays for, so it is little: no parser of options, no event loop. Whatever
is out of the ordinary (a question, a warning, an option that needs a process of its own) is handed on.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # as in `typing`, whose import would cost a third of such a call
if TYPE_CHECKING:
    from socket import socket

_WITH_VALUE = {
    "-m": "model",
    "--model": "model",
    "--provider": "provider",
    "-t": "toolsets",
    "--toolsets": "toolsets",
    "--max-turns": "max_turns",
    "--allow": "allow",
    "-r": "resume",
    "--resume": "resume",
}
_PLAIN = {"--no-input": "no_input", "-c": "latest", "--continue": "latest"}
_TEXT = "--oneshot="
_LARGEST = 32 << 20
_CONNECT_SECONDS = 2.0
_TAKEN_SECONDS = 20.0
"""How long the gateway may take until it says whether it does it."""
_LONGEST_PATH = 100


def through_gateway(given: list[str]) -> tuple[int | None, list[str]]:
    """The exit code when the gateway has answered; else None, and the arguments with which to go on."""
    chosen = _chosen(given)
    if chosen is None:
        return None, given
    from hermes.config.environment import process_environment

    environ = process_environment()
    if environ.get("HERMES_NO_GATEWAY"):
        return None, given
    from hermes.config.home import locate_home
    from hermes.core.errors import HermesError

    try:
        path = str(locate_home(environ).locks / "gateway.sock")
    except HermesError:
        return None, given
    if not os.path.exists(path):
        return None, given
    if chosen["text"] == "-":
        text = sys.stdin.read()
        given = [f"{_TEXT}{text}" if one == f"{_TEXT}-" else one for one in given]
        chosen["text"] = text
    return _asked(path, chosen, environ), given


def _chosen(given: list[str]) -> dict[str, object] | None:
    """The options, when the gateway can serve them all."""
    found: dict[str, object] = {}
    words = iter(given)
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith(_TEXT):
            found["text"] = word.removeprefix(_TEXT)
        elif word in _PLAIN:
            found[_PLAIN[word]] = True
        elif not _put(found, name if name.startswith("--") else word, value if equals else next(words, "")):
            return None
    text = str(found.get("text", ""))
    return found if text.strip() and not ("resume" in found and "latest" in found) else None


def _put(found: dict[str, object], option: str, value: str) -> bool:
    """Take an option's value; False for one that has to be complained of, or needs a process of its own."""
    name = _WITH_VALUE.get(option, "")
    if not name or not value:
        return False
    if name == "max_turns":
        found[name] = _number(value)
        return bool(found[name])
    if name == "toolsets":
        found[name] = [one.strip() for one in value.split(",") if one.strip()] or [""]
    elif name == "allow":
        before = found.get(name)
        found[name] = [*(before if isinstance(before, list) else []), value]
    else:
        found[name] = value
    return True


def _number(value: str) -> int:
    """A number above zero; 0 for what is none."""
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 7 else 0


def _asked(path: str, chosen: dict[str, object], environ: dict[str, str]) -> int | None:
    """Have it answered; None when a process of our own has to."""
    import json
    import socket

    no_input = bool(chosen.pop("no_input", False))
    try:
        terminal = None if no_input else os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        terminal = None
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        frame = {"type": "oneshot", "environ": environ, "asks": terminal is not None, "cwd": os.getcwd(), **chosen}
        body = json.dumps(frame, ensure_ascii=False).encode() + b"\n"
        if len(body) > _LARGEST or not _connected(one, path):
            return None
        with _Stopping(one) as stopping:
            return _Call(one, terminal, stopping).run(body)
    except (OSError, ValueError):
        return None
    finally:
        one.close()
        if terminal is not None:
            os.close(terminal)


class _Call:
    """One call of the gateway. Until it is taken on, and told to go, a process of our own can do it instead."""

    def __init__(self, one: "socket", terminal: int | None, stopping: "_Stopping") -> None:
        self._one = one
        self._terminal = terminal
        self._stopping = stopping
        self._buffer = bytearray()

    def run(self, body: bytes) -> int | None:
        """Have it answered; the exit code, or None."""
        import json

        self._one.settimeout(_TAKEN_SECONDS)
        self._one.sendall(body)
        told = b""
        while True:
            line = self._line()
            said = json.loads(line) if line else {"type": "alone"}
            if said["type"] != "told":
                break
            told += line
        if self._stopping.asked:
            return _complained("Stopped.", 130)
        if said["type"] == "alone":
            return None
        if said["type"] == "taken":
            self._one.sendall(b'{"type":"go"}\n')
            self._one.settimeout(None)
            return self._wait(str(said["session_id"]), told)
        return self._on("", told + line)

    def _wait(self, session_id: str, told: bytes) -> int:
        """Wait for the answer, for as long as it takes."""
        import json

        try:
            line = self._line()
            plain = not told and line.startswith(b'{"type":"ended"') and (said := json.loads(line)).get("ended")
        except (OSError, ValueError):
            line, plain = b"", False
        if not plain or said["ended"].get("error") or said.get("code") == 130:
            return self._on(session_id, told + line)
        text = str(said["ended"].get("text", ""))
        if text and sys.stdout.isatty():
            from hermes.util.text import inert

            text = inert(text)
        if text:
            print(text)
        return int(said.get("code", 0))

    def _on(self, session_id: str, begun: bytes) -> int:
        """Hand it on to what can show everything, and ask."""
        from hermes.cli.plain.attached import finish_oneshot

        _speak()
        return finish_oneshot(self._one, begun + bytes(self._buffer), session_id, self._terminal)

    def _line(self) -> bytes:
        """The next line with its end; empty when the gateway is gone."""
        while (end := self._buffer.find(b"\n")) < 0:
            piece = self._one.recv(65536)
            if not piece:
                return b""
            self._buffer += piece
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line


class _Stopping:
    """While the context lasts Ctrl-C and its like stop the turn instead of this process."""

    def __init__(self, one: "socket") -> None:
        self._one = one
        self._before: dict[int, object] = {}
        self.asked = False

    def __enter__(self) -> "_Stopping":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _stop(self, *_signal: object) -> None:
        self.asked = True
        try:
            self._one.send(b'{"type":"stop"}\n')
        except OSError:
            return


def _connected(one: "socket", path: str) -> bool:
    """Whether a gateway listens there that is ours. Raises OSError where none does."""
    import struct

    name = path
    folder = -1
    if len(os.fsencode(path)) > _LONGEST_PATH and os.path.isdir("/proc/self/fd"):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        name = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    try:
        one.settimeout(_CONNECT_SECONDS)
        one.connect(name)
    finally:
        if folder >= 0:
            os.close(folder)
    if sys.platform == "darwin":
        return bool(struct.unpack_from("=II", one.getsockopt(0, 1, 76))[1] == os.getuid())
    return bool(struct.unpack("3i", one.getsockopt(1, 17, 12))[1] == os.getuid())


def _speak() -> None:
    """Say things in the language that this person wants, now that something is to be said."""
    from hermes.config.environment import process_environment
    from hermes.config.language import wanted_language
    from hermes.i18n.messages import speak

    speak(wanted_language(process_environment()))


def _complained(text: str, code: int) -> int:
    from hermes.cli.errors import complain

    _speak()
    complain(text)
    return code
