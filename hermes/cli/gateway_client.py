"""Run `hermes -z TEXT` through the gateway of this home, where one runs: the same answer without the startup cost.

This module imports little (no option parser, no event loop), because such a call pays for all of it. Whatever is out of
the ordinary (a question, a warning, an option that needs a process of its own) is handed over to the full command line.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # as in `typing`, whose import would cost a third of such a call
if TYPE_CHECKING:
    from socket import socket

_VALUE_OPTIONS = {
    "-m": "model",
    "--model": "model",
    "--provider": "provider",
    "-t": "toolsets",
    "--toolsets": "toolsets",
    "--max-turns": "max_turns",
    "--allow": "allow",
    "-r": "resume",
    "--resume": "resume",
    "--output-format": "report",
}
_FLAG_OPTIONS = {"--no-input": "no_input", "-c": "latest", "--continue": "latest"}
_REPORT_OPTIONS = {"--json": "json", "--stream-json": "stream"}
_OUTPUT_FORMATS = {"text": "", "json": "json", "stream-json": "stream"}
_TEXT_PREFIX = "--oneshot="
_MAX_REQUEST_BYTES = 32 << 20
_CONNECT_SECONDS = 2.0
_ACCEPT_SECONDS = 20.0
"""Seconds in which the gateway must say whether it takes the task."""
_MAX_SOCKET_PATH = 100


def run_through_gateway(args: list[str]) -> tuple[int | None, list[str]]:
    """Return the exit code when the gateway has answered; else None, and the arguments with which to go on."""
    chosen = _parse_gateway_options(args)
    if chosen is None:
        return None, args
    from hermes.config.environment import copy_environment

    environ = copy_environment()
    if environ.get("HERMES_NO_GATEWAY"):
        return None, args
    from hermes.config.home import locate_home
    from hermes.core.errors import HermesError

    try:
        path = str(locate_home(environ).locks / "gateway.sock")
    except HermesError:
        return None, args
    if not os.path.exists(path):
        return None, args
    report = str(chosen.get("report", ""))
    try:
        if report:
            _stop_by_exception()
        if not _read_input(chosen):
            return None, args
        return _ask_gateway(path, chosen, environ), args
    except HermesError:
        return None, args  # the full command line tells it
    except KeyboardInterrupt:
        return _report_stop(report), args


def _read_input(chosen: dict[str, object]) -> bool:
    """Read what is piped into this process: the task itself where it is `-`, or what goes along with it.

    Return False where there is no task, or a person types it.
    """
    from hermes.cli.piped_input import read_piped_input

    if chosen["text"] != "-":
        if piped := read_piped_input():
            chosen["piped"] = piped
        return True
    chosen["text"] = read_piped_input()
    return bool(str(chosen["text"]).strip())


def _stop_by_exception() -> None:
    """Handle SIGTERM and a closed terminal as Ctrl-C, so that a report still names the outcome."""

    def interrupt(*_signal: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, interrupt)


def _parse_gateway_options(args: list[str]) -> dict[str, object] | None:
    """Return the options, or None when the gateway cannot serve them all."""
    found: dict[str, object] = {}
    words = iter(args)
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith(_TEXT_PREFIX):
            found["text"] = word.removeprefix(_TEXT_PREFIX)
        elif word in _FLAG_OPTIONS:
            found[_FLAG_OPTIONS[word]] = True
        elif word in _REPORT_OPTIONS:
            if "report" in found:
                return None
            found["report"] = _REPORT_OPTIONS[word]
        elif not _set_option(found, name if name.startswith("--") else word, value if equals else next(words, "")):
            return None
    text = str(found.get("text", ""))
    return found if text.strip() and not ("resume" in found and "latest" in found) else None


def _set_option(found: dict[str, object], option: str, value: str) -> bool:
    """Store an option's value. Return False for one that is wrong, or that needs a process of its own."""
    name = _VALUE_OPTIONS.get(option, "")
    if not name or not value or (name == "model" and len(value.split()) > 1):
        return False
    if name == "report":
        if value not in _OUTPUT_FORMATS or name in found:
            return False
        found[name] = _OUTPUT_FORMATS[value]
    elif name == "max_turns":
        found[name] = _parse_positive_int(value)
        return bool(found[name])
    elif name == "toolsets":
        found[name] = _split_names(value)
    elif name == "allow":
        before = found.get(name)
        found[name] = [*(before if isinstance(before, list) else []), value]
    else:
        found[name] = value
    return True


def _split_names(value: str) -> list[str]:
    """Split names that commas join; one empty name where there is none."""
    return [one.strip() for one in value.split(",") if one.strip()] or [""]


def _parse_positive_int(value: str) -> int:
    """Parse a number above zero; 0 for anything else."""
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 7 else 0


def _ask_gateway(path: str, chosen: dict[str, object], environ: dict[str, str]) -> int | None:
    """Have the gateway answer and return the exit code; None when a process of our own has to answer."""
    import json
    import socket

    no_input = bool(chosen.pop("no_input", False))
    try:
        terminal = None if no_input else os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        terminal = None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        frame = {"type": "oneshot", "environ": environ, "asks": terminal is not None, "cwd": os.getcwd(), **chosen}
        body = json.dumps(frame, ensure_ascii=False).encode() + b"\n"
        if len(body) > _MAX_REQUEST_BYTES or not _connect_gateway(connection, path):
            return None
        with _TurnStopper(connection) as stopping:
            return _GatewayCall(connection, terminal, stopping, chosen).run(body)
    except (OSError, ValueError):
        return None
    finally:
        connection.close()
        if terminal is not None:
            os.close(terminal)


class _GatewayCall:
    """One call of the gateway. Until the gateway takes it and is told to go, a process of
    our own can answer instead.
    """

    def __init__(
        self, connection: "socket", terminal: int | None, stopping: "_TurnStopper", chosen: dict[str, object]
    ) -> None:
        self._needs_reports = bool(chosen.get("piped") or chosen.get("report"))
        self._report = str(chosen.get("report", ""))
        self._connection = connection
        self._terminal = terminal
        self._stopping = stopping
        self._buffer = bytearray()

    def run(self, body: bytes) -> int | None:
        """Have the gateway answer; return the exit code, or None."""
        import json

        self._connection.settimeout(_ACCEPT_SECONDS)
        self._connection.sendall(body)
        events = b""
        while True:
            line = self._read_line()
            said = json.loads(line) if line else {"type": "alone"}
            if said["type"] != "told":
                break
            events += line
        if self._stopping.stop_requested:
            return _report_stop(self._report)
        if said["type"] == "alone" or (self._needs_reports and said["type"] == "taken" and not said.get("reports")):
            return None
        if said["type"] == "taken":
            self._connection.sendall(b'{"type":"go"}\n')
            self._connection.settimeout(None)
            if self._report:
                return self._hand_over(said, events)
            return self._wait_for_answer(said, events)
        return self._hand_over({}, events + line)

    def _wait_for_answer(self, accepted: dict[str, object], events: bytes) -> int:
        """Wait for the answer, for as long as it takes."""
        import json

        try:
            line = self._read_line()
            plain = not events and line.startswith(b'{"type":"ended"') and (said := json.loads(line)).get("ended")
        except (OSError, ValueError):
            line, plain = b"", False
        if not plain or said["ended"].get("error") or said.get("code") == 130:
            return self._hand_over(accepted, events + line)
        text = str(said["ended"].get("text", ""))
        if text and sys.stdout.isatty():
            from hermes.util.text import strip_control_characters

            text = strip_control_characters(text)
        if text:
            print(text)
        return int(said.get("code", 0))

    def _hand_over(self, accepted: dict[str, object], received: bytes) -> int:
        """Hand the connection over to the module that can show everything and ask questions."""
        from hermes.cli.plain.attached import OneshotCall, finish_oneshot
        from hermes.config.language import use_detected_language

        use_detected_language()
        call = OneshotCall(
            session_id=str(accepted.get("session_id", "")),
            model=str(accepted.get("model", "")),
            provider=str(accepted.get("provider", "")),
            report=self._report,
        )
        return finish_oneshot(self._connection, received + bytes(self._buffer), call, self._terminal)

    def _read_line(self) -> bytes:
        """Return the next line with its end; empty when the gateway is gone."""
        while (end := self._buffer.find(b"\n")) < 0:
            piece = self._connection.recv(65536)
            if not piece:
                return b""
            self._buffer += piece
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        return line


class _TurnStopper:
    """Stops the turn instead of this process on Ctrl-C, SIGTERM and SIGHUP, while the context lasts."""

    def __init__(self, connection: "socket") -> None:
        self._connection = connection
        self._before: dict[int, object] = {}
        self.stop_requested = False

    def __enter__(self) -> "_TurnStopper":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._request_stop)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def _request_stop(self, *_signal: object) -> None:
        self.stop_requested = True
        try:
            self._connection.send(b'{"type":"stop"}\n')
        except OSError:
            return


def _connect_gateway(connection: "socket", path: str) -> bool:
    """Connect and return whether the gateway that listens there belongs to this user.
    Raises OSError where none does.
    """
    import struct

    name = path
    folder = -1
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH and os.path.isdir("/proc/self/fd"):
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        name = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    try:
        connection.settimeout(_CONNECT_SECONDS)
        connection.connect(name)
    finally:
        if folder >= 0:
            os.close(folder)
    if sys.platform == "darwin":
        return bool(struct.unpack_from("=II", connection.getsockopt(0, 1, 76))[1] == os.getuid())
    return bool(struct.unpack("3i", connection.getsockopt(1, 17, 12))[1] == os.getuid())


def _report_stop(report: str) -> int:
    """Say that the run was stopped before its turn began."""
    from hermes.cli.output import print_error
    from hermes.config.language import use_detected_language

    use_detected_language()
    print_error("Stopped.")
    if report:
        from hermes.cli.plain.attached import report_early_stop

        report_early_stop(report)
    return 130
