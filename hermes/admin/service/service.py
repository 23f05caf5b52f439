"""`hermes gateway install | start | stop`: what is to be written and run for it, and doing so.

Where neither systemd nor launchd looks after a person's services the gateway is a detached process, found by its lock.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

import hermes
from hermes.admin.service import units
from hermes.config.home import Home
from hermes.core.errors import HermesError, NotFoundError, StoreError
from hermes.i18n.messages import phrase
from hermes.util.atomic import write_atomic

_COMMAND_SECONDS = 180.0


class Kind(StrEnum):
    """Who looks after the gateway."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    PLAIN = "plain"
    """Nobody: a process of its own."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done, in this order."""

    writes: tuple[tuple[Path, str], ...] = ()
    removes: tuple[Path, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    """Those that begin with `-` may fail."""
    first: bool = False
    """Whether the commands come before the files."""


class ServiceError(HermesError):
    """The machine's service manager did not do what it was told."""


def kind_here(environ: Mapping[str, str], platform: str = sys.platform) -> Kind:
    """Who looks after a person's services on this machine."""
    if platform == "darwin" and shutil.which("launchctl", path=environ.get("PATH")):
        return Kind.LAUNCHD
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    if platform.startswith("linux") and os.path.exists(f"{runtime}/systemd/private"):
        return Kind.SYSTEMD if shutil.which("systemctl", path=environ.get("PATH")) else Kind.PLAIN
    return Kind.PLAIN


class Service:
    """The gateway of one home as a service of one kind. Every verb has a plan that can be shown first."""

    def __init__(self, home: Home, environ: Mapping[str, str], kind: Kind, drain_seconds: float) -> None:
        self.kind = kind
        self._home = home
        self._environ = environ
        self._drain_seconds = drain_seconds
        user = Path(environ.get("HOME") or "~").expanduser()
        folder = Path(environ.get("XDG_CONFIG_HOME") or user / ".config")
        usual = home.root == user / ".hermes"
        mark = "" if usual else f"-{hashlib.sha256(str(home.root).encode()).hexdigest()[:8]}"
        self.name = f"org.hermes.gateway{mark}" if kind is Kind.LAUNCHD else f"hermes-gateway{mark}.service"
        self.file = (
            user / "Library/LaunchAgents" / f"{self.name}.plist"
            if kind is Kind.LAUNCHD
            else folder / "systemd/user" / self.name
        )

    @property
    def installed(self) -> bool:
        """Whether the service manager knows it."""
        return self.kind is not Kind.PLAIN and self.file.exists()

    @property
    def patience(self) -> float:
        """Seconds that its end may take."""
        return self._drain_seconds + units.MARGIN_SECONDS

    @property
    def wish(self) -> units.Wish:
        """What is to run."""
        environ = {"HERMES_HOME": str(self._home.root)}
        return units.Wish(
            # -P: nothing that lies in the folder where it runs is taken for a module.
            arguments=(sys.executable, "-P", "-m", "hermes", "gateway", "run"),
            folder=str(self._home.root),
            drain_seconds=self._drain_seconds,
            environ=units.passed(self._environ) | environ | _code(self._environ),
            name=self.name,
            log=str(self._home.logs / "gateway.out"),
        )

    def install(self) -> Plan:
        """Have it started now, and whenever the person logs in. Raises NotFoundError where nobody would."""
        if self.kind is Kind.PLAIN:
            raise NotFoundError(
                phrase("Neither systemd nor launchd looks after your services on this machine."),
                phrase("`hermes gateway start` starts it until the machine is switched off."),
            )
        if self.kind is Kind.LAUNCHD:
            return Plan(
                writes=((self.file, units.launchd_plist(self.wish)),),
                commands=(("-launchctl", "bootout", self._target), self._bootstrap),
            )
        commands = [
            ("systemctl", "--user", "daemon-reload"),
            ("systemctl", "--user", "enable", self.name),
            ("systemctl", "--user", "restart", self.name),
            # Without it the service ends with the last login.
            ("-loginctl", "enable-linger"),
        ]
        return Plan(writes=((self.file, units.systemd_unit(self.wish)),), commands=tuple(commands))

    def uninstall(self) -> Plan:
        """End it, and have nobody start it any more."""
        if not self.installed:
            raise NotFoundError(phrase("The gateway is not installed as a service."))
        if self.kind is Kind.LAUNCHD:
            commands: tuple[tuple[str, ...], ...] = (("-launchctl", "bootout", self._target),)
        else:
            commands = (("-systemctl", "--user", "disable", "--now", self.name),)
        return Plan(removes=(self.file,), commands=commands, first=True)

    def start(self) -> Plan:
        """Have the service manager start it."""
        launchd = (("-launchctl", *self._bootstrap[1:]), ("launchctl", "kickstart", self._target))
        return Plan(commands=launchd if self.kind is Kind.LAUNCHD else (("systemctl", "--user", "start", self.name),))

    def stop(self) -> Plan:
        """Have the service manager end it, and not start it anew."""
        if self.kind is Kind.LAUNCHD:
            return Plan(commands=(("-launchctl", "bootout", self._target),))
        return Plan(commands=(("systemctl", "--user", "stop", self.name),))

    @property
    def _target(self) -> str:
        return f"gui/{os.getuid()}/{self.name}"

    @property
    def _bootstrap(self) -> tuple[str, ...]:
        return ("launchctl", "bootstrap", f"gui/{os.getuid()}", str(self.file))


def lines_of(plan: Plan) -> list[str]:
    """The plan in words of a shell, for showing it."""
    import shlex

    commands = [shlex.join((command[0].lstrip("-"), *command[1:])) for command in plan.commands]
    files = [line for path, text in plan.writes for line in (f"{path}:", *(f"    {one}" for one in text.splitlines()))]
    files += [f"rm {shlex.quote(str(path))}" for path in plan.removes]
    return commands + files if plan.first else files + commands


def carry_out(plan: Plan, environ: Mapping[str, str]) -> None:
    """Do it. Raises ServiceError with what the service manager said, StoreError when a file cannot be written."""
    if plan.first:
        _run_all(plan, environ)
    try:
        for path, text in plan.writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text.encode(), mode=0o600)
        for path in plan.removes:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            phrase("{file} cannot be written: {reason}.", file=str(error.filename or ""), reason=error.strerror or "")
        ) from None
    if not plan.first:
        _run_all(plan, environ)


def _run_all(plan: Plan, environ: Mapping[str, str]) -> None:
    for command in plan.commands:
        may_fail = command[0].startswith("-")
        words = (command[0].lstrip("-"), *command[1:])
        try:
            done = subprocess.run(
                words, env=dict(environ), capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
            )
            said, failed = (done.stderr or done.stdout).strip(), done.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, failed = str(error), True
        if failed and not may_fail:
            raise ServiceError(phrase("`{command}` failed: {said}", command=" ".join(words), said=said or "?"))


def _code(environ: Mapping[str, str]) -> dict[str, str]:
    """Where our own code is found, where it is not installed."""
    here = str(Path(hermes.__file__).resolve().parent.parent)
    if here in sysconfig.get_paths().values():
        return {}
    others = environ.get("PYTHONPATH", "").split(os.pathsep)
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([here, *(one for one in others if os.path.isabs(one))]))}
