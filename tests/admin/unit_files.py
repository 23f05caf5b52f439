"""What systemd itself says of a unit, and what it reads in one."""

import re
import shlex
import subprocess
from pathlib import Path


def verify_unit(unit: str, folder: Path, *, user: bool = True) -> str:
    """Return what systemd finds wrong in the unit; nothing where it takes it."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    file = folder / "hermes-gateway.service"
    file.write_text(unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(["--user"] if user else []), str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        # Without a folder for its sockets it gives up before it reads the unit.
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(runtime)},
    )
    found = [line for line in done.stderr.splitlines() if "hermes-gateway.service" in line]
    return "\n".join(found) or (done.stderr if done.returncode else "")


def read_values(unit: str, name: str) -> list[str]:
    """Return the values of a setting, as they are written."""
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def read_words(value: str) -> list[str]:
    """Return the words of a value as systemd reads them: quotes, specifiers, and in commands variables are resolved."""
    return [one.replace("%%", "%").replace("$$", "$") for one in shlex.split(value)]
