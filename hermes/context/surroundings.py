"""What the model is told of the machine: only what stays as it is while the machine does."""

import os
from collections.abc import Mapping, Sequence

from hermes.context.prompt import Tier
from hermes.util.text import one_line


class Surroundings:
    """The prompt's part about the machine."""

    name = "machine"
    tier = Tier.STABLE

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self) -> str:
        """System, architecture, shell and home folder, on one line."""
        machine = os.uname()
        system = {"Darwin": "macOS"}.get(machine.sysname, machine.sysname)
        told = [f"{system} {machine.machine}"]
        if shell := self._environ.get("SHELL", ""):
            told.append(f"shell {os.path.basename(shell)}")
        if home := self._environ.get("HOME", ""):
            told.append(f"home folder {one_line(home, 200)}")
        return f"Machine: {', '.join(told)}."

    def remarks(self) -> Sequence[str]:
        """Nothing is ever odd about it."""
        return ()
