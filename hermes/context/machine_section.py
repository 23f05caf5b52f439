"""The prompt section about the machine: only what does not change while the machine stays the same."""

import os
from collections.abc import Mapping, Sequence

from hermes.context.prompt import PromptTier
from hermes.util.text import to_one_line


class MachineSection:
    """The prompt section about the machine."""

    name = "machine"
    tier = PromptTier.STABLE

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def render_text(self) -> str:
        """Return system, architecture, shell and home folder, on one line."""
        machine = os.uname()
        system = {"Darwin": "macOS"}.get(machine.sysname, machine.sysname)
        told = [f"{system} {machine.machine}"]
        if shell := self._environ.get("SHELL", ""):
            told.append(f"shell {os.path.basename(shell)}")
        if home := self._environ.get("HOME", ""):
            told.append(f"home folder {to_one_line(home, 200)}")
        return f"Machine: {', '.join(told)}."

    def list_remarks(self) -> Sequence[str]:
        """Return nothing: there is never a remark."""
        return ()
