"""Confines a command with macOS's Seatbelt. The profile's text is tested, its effect on macOS itself is not."""

import os.path
from collections.abc import Mapping, Sequence

from hermes.execution.base import NetworkMode, ShellCommand
from hermes.execution.layout import AccessLayout, PathAccess
from hermes.execution.sandbox.settings_copies import settings_variables
from hermes.execution.sandbox.tmpdir import SandboxTmpdir

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_WRITABLE_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper", "/dev/ptmx")


class SeatbeltSandbox:
    """Confines one command with a profile."""

    def __init__(
        self, command: ShellCommand, tmpdir: SandboxTmpdir, layout: AccessLayout, network: NetworkMode
    ) -> None:
        self.folder = tmpdir.to_local_path(command.cwd, layout)
        self.variables: Mapping[str, str] = {
            **tmpdir.all_variables(tmpdir.tmp),
            **settings_variables(layout.copies, tmpdir.settings_folder),
        }
        self.temporary_folder: str | None = tmpdir.tmp
        self.handles: Sequence[int] = ()
        self.namespaces: Sequence[int] = ()
        self.order_index: int | None = None
        self._profile = build_profile(layout, tmpdir.tmp, network)

    def __enter__(self) -> "SeatbeltSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        """Release nothing: no handle is open."""

    def shell_arguments(self, text: str, terminal: str) -> tuple[str, ...]:
        """Return the shell's arguments. The shell leads its session, so the terminal that it opens becomes its own."""
        return ("-c", f": <{terminal}; {text}" if terminal else text)

    def wrap_shell(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the call of sandbox-exec, which the system's own protection keeps from obeying variables of the
        loader.
        """
        return (SANDBOX_EXEC, "-p", self._profile, *shell), environment


def build_profile(layout: AccessLayout, tmp: str, network: NetworkMode) -> str:
    """Build the profile of a layout. Of rules that fit, the last one counts, so parents come before what is in them."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)", "(deny appleevent-send)"]
    lines += ["(deny signal)", "(allow signal (target same-sandbox))", "(deny mach-priv-task-port)"]
    lines += [f"(allow file-write* (literal {_quote_path(one)}))" for one in _WRITABLE_DEVICES]
    lines.append('(allow file-write* (regex #"^/dev/ttys[0-9]+$"))')
    layout = layout.hide_covered()
    for path in sorted(layout.access_by_path, key=lambda one: one.split("/")):
        place = f"(subpath {_quote_path(path)})"
        kind = layout.access_by_path[path]
        if kind is PathAccess.HIDDEN:
            lines.append(f"(deny file-read* file-write* network-outbound {place})")
        elif kind is PathAccess.WRITE:
            lines.append(f"(allow file-read* file-write* {place})")
        elif kind is PathAccess.READ:
            lines += [f"(deny file-write* {place})", f"(allow file-read* {place})"]
    lines += [f"(allow file-read-metadata (literal {_quote_path(path)}))" for path in _ways(layout)]
    lines += [f"(deny file-write-unlink (literal {_quote_path(path)}))" for path in layout.pinned]
    lines.append(f"(allow file-read* file-write* (subpath {_quote_path(tmp)}))")
    if network is not NetworkMode.ON:
        lines.append("(deny network*)")
    return "\n".join(lines) + "\n"


def _ways(layout: AccessLayout) -> list[str]:
    """The hidden folders on the way to what is not: programs ask for each of them what it is."""
    found: set[str] = set()
    for path in (one for one, kind in layout.access_by_path.items() if kind is not PathAccess.HIDDEN):
        while layout.access_of(path := os.path.dirname(path)) is PathAccess.HIDDEN:
            found.add(path)
    return sorted(found)


def _quote_path(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
