"""A box made by macOS's Seatbelt. Its text is tested, on macOS itself it is not."""

from collections.abc import Mapping, Sequence

from hermes.execution.base import Command, Network
from hermes.execution.sandbox.policy import Kind, Layout
from hermes.execution.sandbox.tmpdir import Room

PROGRAM = "/usr/bin/sandbox-exec"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper", "/dev/ptmx")


class SeatbeltBox:
    """One command under a profile."""

    def __init__(self, command: Command, room: Room, layout: Layout, network: Network) -> None:
        self.folder = room.outside(command.cwd, layout)
        self.variables: Mapping[str, str] = room.variables(room.tmp)
        self.temporary: str | None = room.tmp
        self.handles: Sequence[int] = ()
        self.spaces: Sequence[int] = ()
        self._profile = profile(layout, room.tmp, network)

    def __enter__(self) -> "SeatbeltBox":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def script(self, text: str, terminal: str) -> tuple[str, ...]:
        """The shell leads its session, so the terminal that it opens becomes the one that controls it."""
        return ("-c", f": <{terminal}; {text}" if terminal else text)

    def wrap(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """sandbox-exec, which the system's own protection keeps from obeying variables of the loader."""
        return (PROGRAM, "-p", self._profile, *shell), environment


def profile(layout: Layout, tmp: str, network: Network) -> str:
    """The profile of a layout. Of rules that fit, the last one counts, so parents come before what is in them."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)", "(deny appleevent-send)"]
    lines += ["(deny signal)", "(allow signal (target same-sandbox))", "(deny mach-priv-task-port)"]
    lines += [f"(allow file-write* (literal {_quoted(one)}))" for one in _DEVICES]
    lines.append('(allow file-write* (regex #"^/dev/ttys[0-9]+$"))')
    for path in sorted(layout.kinds, key=lambda one: one.split("/")):
        place = f"(subpath {_quoted(path)})"
        kind = layout.kinds[path]
        if kind is Kind.HIDDEN:
            lines.append(f"(deny file-read* file-write* network-outbound {place})")
        elif kind is Kind.WRITE:
            lines.append(f"(allow file-read* file-write* {place})")
        elif kind is Kind.READ:
            lines += [f"(deny file-write* {place})", f"(allow file-read* {place})"]
    lines += [f"(deny file-write-unlink (literal {_quoted(path)}))" for path in layout.pinned]
    lines.append(f"(allow file-read* file-write* (subpath {_quoted(tmp)}))")
    if network is not Network.ON:
        lines.append("(deny network*)")
    return "\n".join(lines) + "\n"


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
