#!/usr/bin/env python3
"""Run the gateway as a service of a live systemd: `make units`.

    python -m scripts.units_check [--root FOLDER]

Boots a small Debian with systemd in namespaces (`systemd-nspawn`), with Hermes installed from its wheel, and does there
what docs/gateway.md says, once with a unit of the account's own and once with one of the machine: installs it, asks a
prompt through it, reloads it, kills it, stops its event loop until the watchdog restarts it, stops and starts it, and
removes it. A scripted model server inside answers. There is no network inside.

Needs root, debootstrap, and systemd-nspawn (Debian: systemd-container). `--root` is where the small Debian is kept.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hermes.admin.service.service import WATCHDOG_SECONDS
from scripts.install_check import ROOT, CheckError, build_packages, run_program

ANSWER = "The unit works."
PACKAGES = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,python3,procps"
USER = "ada"
_BOOT_SECONDS = 120
_RESTART_SECONDS = 60


def build_root(root: Path) -> None:
    """Make the small Debian where it is not there yet, and install Hermes in it from the wheel."""
    if not (root / "usr/bin/python3").exists():
        run_program(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)])
        run_program(["chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", USER])
    library = root / "opt/hermes"
    for old in (library, root / "home" / USER / ".hermes", root / "home" / USER / ".config"):
        shutil.rmtree(old, ignore_errors=True)
    for file in ("etc/systemd/system/hermes-gateway*", "var/lib/systemd/linger/*"):
        for one in root.glob(file):
            one.unlink()
    with tempfile.TemporaryDirectory() as folder:
        _, wheel = build_packages(Path(folder))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        run_program([*pip, "--target", str(library), f"{wheel}[gateway]"])
    (root / "usr/lib/python3/dist-packages/hermes.pth").write_text("/opt/hermes\n")
    command = root / "usr/local/bin/hermes"
    command.write_text('#!/bin/sh\nexec /usr/bin/python3 -m hermes "$@"\n')
    command.chmod(0o755)
    (root / "opt/script.json").write_text(json.dumps([{"reply": "say", "text": ANSWER}] * 20))


class Machine:
    """The booted machine."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def run(self, user: str, command: str, *, may_fail: bool = False) -> str:
        """Run a command as a login shell of a user does; return what it printed. Raises CheckError where it fails."""
        first = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if not first:
            raise CheckError("The machine has ended.")
        enter = ["nsenter", "--target", first[0], "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        words = [*enter, "su", "-", user, "-c", command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)
        if done.returncode and not may_fail:
            raise CheckError(f"{user}$ {command}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def wait(self, what: str, seconds: float, check: Callable[[], bool]) -> None:
        """Wait until something is so. Raises CheckError after some seconds."""
        end = time.monotonic() + seconds
        while not check():
            if time.monotonic() > end:
                raise CheckError(f"Not within {seconds:.0f} s: {what}.")
            time.sleep(0.5)


@contextlib.contextmanager
def booted(root: Path) -> Iterator[Machine]:
    """Boot the machine while the context lasts."""
    options = ["--boot", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--quiet"]
    process = subprocess.Popen(
        ["systemd-nspawn", "-D", str(root), "-M", f"hermes-units-{os.getpid()}", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        machine = Machine(process)
        booting = {"running", "degraded"}
        machine.wait("the machine has booted", _BOOT_SECONDS, lambda: _is_up(machine, booting))
        yield machine
    finally:
        process.terminate()
        process.wait(60)


def _is_up(machine: Machine, states: set[str]) -> bool:
    try:
        return machine.run("root", "systemctl is-system-running", may_fail=True).strip() in states
    except CheckError:
        return False


def set_up_home(machine: Machine) -> None:
    """Start the model server, and make a home of the account that uses it."""
    machine.run(
        "root",
        "systemctl stop model 2>/dev/null; systemd-run --unit=model --property=StandardInput=null "
        "--property=StandardOutput=truncate:/opt/model.url python3 -m hermes.testing --script /opt/script.json",
    )
    machine.wait("the model server listens", 60, lambda: "http" in machine.run("root", "cat /opt/model.url"))
    url = machine.run("root", "cat /opt/model.url").strip()
    machine.run(
        USER,
        f"hermes config set model.default m && hermes config set model.provider custom && "
        f"hermes config set model.base_url {url} && hermes config set terminal.backend local && "
        "echo API_KEY=$(head -c 30 /dev/urandom | base64 | tr -d +/=) > ~/.hermes/.env && "
        "hermes config set platforms.api_server.key '${API_KEY}'",
    )


def check_lingering(machine: Machine) -> None:
    """Check that a refusal to keep the account's systemd after its logout is told; then have root allow it."""
    said = machine.run(USER, "hermes gateway install --yes")
    if "ends at your last logout" not in said:
        raise CheckError(f"It is not told that lingering was refused: {said}")
    machine.run(USER, "hermes gateway uninstall --yes")
    machine.run("root", f"loginctl enable-linger {USER}")


def check_unit(machine: Machine, owner: str, unit: str, install: str) -> None:
    """Do everything that a person does with a service; `owner` is who may ask the service manager."""
    manager = "systemctl" if owner == "root" else "systemctl --user"
    home = f"HERMES_HOME=/home/{USER}/.hermes SUDO_USER={USER} " if owner == "root" else ""

    def read(name: str) -> str:
        return machine.run(owner, f"{manager} show --property={name} --value {unit}").strip()

    def is_back(pid: str) -> bool:
        return read("ActiveState") == "active" and read("MainPID") != pid

    def ask() -> None:
        status = machine.run(USER, "hermes gateway status")
        if unit not in status or "connected" not in status:
            raise CheckError(f"The status is wrong: {status}")
        if ANSWER not in machine.run(USER, "hermes -z hello"):
            raise CheckError("The prompt was not answered.")

    said = machine.run(owner, f"{home}{install} --yes").splitlines()[-1]
    if said != "The gateway is installed and runs.":
        raise CheckError(f"It is not only told that it runs: {said}")
    print(said, flush=True)
    ask()
    print("  answers", flush=True)
    machine.run(owner, f"{manager} reload {unit}")
    machine.wait("it has reloaded", _RESTART_SECONDS, lambda: read("StatusText").startswith("Reloaded"))
    print("  reloads", flush=True)
    for signal, name, seconds in (("KILL", "kill -9", 0), ("STOP", "a stopped event loop", WATCHDOG_SECONDS)):
        pid = read("MainPID")
        machine.run("root", f"kill -{signal} {pid}")
        machine.wait(f"it is back after {name}", seconds + _RESTART_SECONDS, partial(is_back, pid))
        ask()
        print(f"  comes back after {name}", flush=True)
    machine.run(owner, f"{home}hermes gateway stop")
    if read("ActiveState") != "inactive":
        raise CheckError(f"It is {read('ActiveState')} after `hermes gateway stop`.")
    machine.run(owner, f"{home}hermes gateway start")
    ask()
    machine.run(owner, f"{home}hermes gateway uninstall --yes")
    status = machine.run(USER, "hermes gateway status", may_fail=True)
    if "not installed" not in status or "No gateway runs" not in status:
        raise CheckError(f"It is not gone: {status}")
    print("  stops, starts, and is removed", flush=True)


def main() -> int:
    """Run the check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT / "build/units-root", metavar="FOLDER")
    args = parser.parse_args()
    missing = [one for one in ("debootstrap", "systemd-nspawn", "nsenter") if shutil.which(one) is None]
    if missing or os.getuid() != 0:
        print(f"This needs root, and what is missing: {', '.join(missing) or 'nothing'}.", file=sys.stderr)
        return 2
    try:
        args.root.parent.mkdir(exist_ok=True)
        build_root(args.root)
        with booted(args.root) as machine:
            set_up_home(machine)
            check_lingering(machine)
            check_unit(machine, USER, "hermes-gateway.service", "hermes gateway install")
            check_unit(machine, "root", f"hermes-gateway-{USER}.service", "hermes gateway install --system")
    except CheckError as error:
        print(error, file=sys.stderr)
        return 1
    print("Both units work.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
