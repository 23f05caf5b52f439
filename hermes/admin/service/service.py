"""Plan and carry out `hermes gateway install | start | stop`.

Where neither systemd nor launchd manages a user's services, the gateway is a detached process that is
found by its lock.

Build the files of the gateway for systemd and launchd, as texts.
"""

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from xml.sax.saxutils import escape

from msgspec import Struct

import hermes
from hermes.config.home import HermesHome
from hermes.core.errors import HermesError, NotFoundError, StoreError
from hermes.i18n.messages import N_
from hermes.util.atomic_write import write_atomic

WATCHDOG_SECONDS = 60
"""How long the gateway's event loop may be stuck before it is restarted."""
RESTART_SECONDS = 2
MARGIN_SECONDS = 30
"""Seconds that stopping may take beyond the time that running turns have."""
_PASSED_VARIABLES = ("HERMES_HOME", "HERMES_LANGUAGE", "PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "NIX_SSL_CERT_FILE")
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_COMMAND_SECONDS = 180.0
_LINGERING = Path("/var/lib/systemd/linger")
"""Where systemd keeps a file for each account whose own systemd runs without a login."""
_NOT_IN_UNIT_NAMES = re.compile(r"[^\w.-]", re.ASCII)


class ServiceSpec(Struct, frozen=True, kw_only=True):
    """The process that a service runs."""

    arguments: Sequence[str]
    folder: str
    """Its working folder: the home."""
    drain_seconds: float
    environ: Mapping[str, str]
    """Its environment; see `service_environ`."""
    name: str
    log: str
    """The file for its output, where no service manager keeps that."""


class ServiceKind(StrEnum):
    """The manager of the gateway's process."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    PLAIN = "plain"
    """No manager: a detached process."""


class HomeOwner(Struct, frozen=True):
    """An account of the machine: its number, its name, and its folder."""

    number: int
    name: str
    folder: str


class ServicePlan(Struct, frozen=True, kw_only=True):
    """The files and commands of a change of the service, in order."""

    writes: tuple[tuple[Path, str], ...] = ()
    removes: tuple[Path, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    """The commands; those that begin with `-` may fail."""
    losses: Mapping[str, str] = {}
    """What is missing where a command that may fail does, by its program."""
    commands_first: bool = False
    """Whether the commands come before the files."""

    @property
    def needs_root(self) -> bool:
        """Whether only root can carry it out: it is the machine's systemd that is asked."""
        return any(one[0].lstrip("-") == "systemctl" and "--user" not in one for one in self.commands)


class ServiceError(HermesError):
    """The service manager failed to carry out a command."""


def detect_service_kind(environ: Mapping[str, str], platform: str = sys.platform) -> ServiceKind:
    """Return the manager of a user's services on this machine."""
    if platform == "darwin" and shutil.which("launchctl", path=environ.get("PATH")):
        return ServiceKind.LAUNCHD
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    if platform.startswith("linux") and os.path.exists(f"{runtime}/systemd/private"):
        return ServiceKind.SYSTEMD if shutil.which("systemctl", path=environ.get("PATH")) else ServiceKind.PLAIN
    return ServiceKind.PLAIN


class GatewayService:
    """The gateway of one home as a service of one kind. Every operation has a plan that can be shown first."""

    def __init__(
        self,
        home: HermesHome,
        environ: Mapping[str, str],
        kind: ServiceKind,
        drain_seconds: float,
        *,
        machine_units: Path = Path("/etc/systemd/system"),
    ) -> None:
        self.kind = kind
        self._home = home
        self._environ = environ
        self._drain_seconds = drain_seconds
        user = Path(environ.get("HOME") or "~").expanduser()
        folder = Path(environ.get("XDG_CONFIG_HOME") or user / ".config")
        usual = home.root == user / ".hermes"
        mark = "" if usual else f"-{_hash_path(home.root)}"
        own = f"org.hermes.gateway{mark}" if kind is ServiceKind.LAUNCHD else f"hermes-gateway{mark}.service"
        self._own_file = (
            user / "Library/LaunchAgents" / f"{own}.plist"
            if kind is ServiceKind.LAUNCHD
            else folder / "systemd/user" / own
        )
        self._own_name = own
        self.owner = _find_owner(home)
        """The account that the home belongs to, and that the machine's service runs as."""
        self._machine_file = machine_units / self._name_machine_unit()

    def _name_machine_unit(self) -> str:
        """Return the name of the machine's unit: each account's is another one."""
        usual = self._home.root == Path(self.owner.folder) / ".hermes"
        mark = "" if usual else f"-{_hash_path(self._home.root)}"
        return f"hermes-gateway-{_NOT_IN_UNIT_NAMES.sub('_', self.owner.name)}{mark}.service"

    @property
    def is_machine_service(self) -> bool:
        """Whether the machine's systemd knows it, which only root can ask for something."""
        return self._machine_file.exists()

    @property
    def installed(self) -> bool:
        """Whether a service manager knows it."""
        return self.is_machine_service or (self.kind is not ServiceKind.PLAIN and self._own_file.exists())

    @property
    def name(self) -> str:
        """Its name for the service manager that has it, or would have it."""
        return self._machine_file.name if self.is_machine_service else self._own_name

    @property
    def file(self) -> Path:
        """Its file in the service manager that has it, or would have it."""
        return self._machine_file if self.is_machine_service else self._own_file

    @property
    def stop_seconds(self) -> float:
        """Seconds that its end may take."""
        return self._drain_seconds + MARGIN_SECONDS

    @property
    def spec(self) -> ServiceSpec:
        """The process to run."""
        environ = {"HERMES_HOME": str(self._home.root)}
        return ServiceSpec(
            # -P: nothing that lies in the folder where it runs is taken for a module.
            arguments=(sys.executable, "-P", "-m", "hermes", "gateway", "run"),
            folder=str(self._home.root),
            drain_seconds=self._drain_seconds,
            environ=service_environ(self._environ) | environ | _python_path(self._environ),
            name=self.name,
            log=str(self._home.logs / "gateway.out"),
        )

    def plan_install(self, *, shown_only: bool = False) -> ServicePlan:
        """Plan to start it now, and at every login. Raises NotFoundError without a service manager, unless it is only
        to be shown.
        """
        if self.kind is ServiceKind.PLAIN and not shown_only:
            raise NotFoundError(
                N_("No systemd or launchd of yours can be reached from here."),
                N_(
                    "`hermes gateway install --dry-run` shows the units and what to do; `hermes gateway start` starts "
                    "it until the machine is switched off."
                ),
            )
        if self.kind is ServiceKind.LAUNCHD:
            return ServicePlan(
                writes=((self._own_file, build_launchd_plist(self.spec)),),
                commands=(("-launchctl", "bootout", self._launchd_target), self._bootstrap_command),
            )
        commands = [
            ("systemctl", "--user", "daemon-reload"),
            ("systemctl", "--user", "enable", self._own_name),
            ("systemctl", "--user", "restart", self._own_name),
        ]
        if not (_LINGERING / self.owner.name).exists():
            commands.append(("-loginctl", "enable-linger"))  # without it the service ends with the last login
        ends_at_logout = N_(
            "The gateway ends at your last logout. Root changes that: loginctl enable-linger {user}",
            user=self.owner.name,
        )
        return ServicePlan(
            writes=((self._own_file, build_systemd_unit(self.spec)),),
            commands=tuple(commands),
            losses={"loginctl": ends_at_logout},
        )

    def plan_system_install(self) -> ServicePlan:
        """Plan to start it with the machine, as the owner of its home; only root can carry it out."""
        unit = build_systemd_unit(self.spec, user=self.owner.name)
        name = self._machine_file.name
        return ServicePlan(
            writes=((self._machine_file, unit),),
            commands=(
                ("systemctl", "daemon-reload"),
                ("systemctl", "enable", name),
                ("systemctl", "restart", name),
            ),
        )

    def plan_uninstall(self) -> ServicePlan:
        """Plan to stop it, and to remove it from the service manager."""
        if not self.installed:
            raise NotFoundError(N_("The gateway is not installed as a service."))
        if self.kind is ServiceKind.LAUNCHD:
            commands: tuple[tuple[str, ...], ...] = (("-launchctl", "bootout", self._launchd_target),)
        else:
            commands = ((f"-{self._systemctl[0]}", *self._systemctl[1:], "disable", "--now", self.name),)
        return ServicePlan(removes=(self.file,), commands=commands, commands_first=True)

    def plan_start(self) -> ServicePlan:
        """Plan to start it by the service manager."""
        launchd = (("-launchctl", *self._bootstrap_command[1:]), ("launchctl", "kickstart", self._launchd_target))
        return ServicePlan(
            commands=launchd if self.kind is ServiceKind.LAUNCHD else ((*self._systemctl, "start", self.name),)
        )

    def plan_stop(self) -> ServicePlan:
        """Plan to stop it by the service manager, without a restart."""
        if self.kind is ServiceKind.LAUNCHD:
            return ServicePlan(commands=(("-launchctl", "bootout", self._launchd_target),))
        return ServicePlan(commands=((*self._systemctl, "stop", self.name),))

    @property
    def _systemctl(self) -> tuple[str, ...]:
        return ("systemctl",) if self.is_machine_service else ("systemctl", "--user")

    @property
    def _launchd_target(self) -> str:
        return f"gui/{os.getuid()}/{self.name}"

    @property
    def _bootstrap_command(self) -> tuple[str, ...]:
        return ("launchctl", "bootstrap", f"gui/{os.getuid()}", str(self.file))


def _find_owner(home: HermesHome) -> HomeOwner:
    """Return the account that a home belongs to; the one of this process where there is no home yet."""
    try:
        number = home.root.stat().st_uid
    except OSError:
        number = os.getuid()
    try:
        found = pwd.getpwuid(number)
    except KeyError:  # a container's user may have no name
        return HomeOwner(number, str(number), "/")
    return HomeOwner(number, found.pw_name, found.pw_dir)


def _hash_path(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:8]


def format_plan(plan: ServicePlan) -> list[str]:
    """Format the plan as shell commands, to show it."""
    import shlex

    commands = [shlex.join((command[0].lstrip("-"), *command[1:])) for command in plan.commands]
    files = [line for path, text in plan.writes for line in (f"{path}:", *(f"    {one}" for one in text.splitlines()))]
    files += [f"rm {shlex.quote(str(path))}" for path in plan.removes]
    return commands + files if plan.commands_first else files + commands


def execute_plan(plan: ServicePlan, environ: Mapping[str, str]) -> list[str]:
    """Execute a plan; return what is missing because a command failed that may fail.

    Raises ServiceError with the service manager's output, StoreError when a file cannot be written.
    """
    losses = _run_commands(plan, environ) if plan.commands_first else []
    try:
        for path, text in plan.writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text.encode(), mode=0o600)
        for path in plan.removes:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            N_("{file} cannot be written: {reason}.", file=str(error.filename or ""), reason=error.strerror or "")
        ) from None
    return losses if plan.commands_first else _run_commands(plan, environ)


def _run_commands(plan: ServicePlan, environ: Mapping[str, str]) -> list[str]:
    losses = []
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
            raise ServiceError(N_("`{command}` failed: {said}", command=" ".join(words), said=said or "?"))
        if failed and words[0] in plan.losses:
            losses.append(plan.losses[words[0]])
    return losses


def _python_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the PYTHONPATH of our code, where it is not installed."""
    here = str(Path(hermes.__file__).resolve().parent.parent)
    if here in sysconfig.get_paths().values():
        return {}
    others = environ.get("PYTHONPATH", "").split(os.pathsep)
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([here, *(one for one in others if os.path.isabs(one))]))}


def service_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a service needs from this environment. Keys belong into the home's `.env`."""
    names = [*_PASSED_VARIABLES, *_PROXY_VARIABLES, *(one.upper() for one in _PROXY_VARIABLES)]
    return {name: environ[name] for name in names if environ.get(name)}


_FILTERS = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "SystemCallArchitectures=native",
    "SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap",
)
"""What the gateway and its commands never need, and a user's own systemd can take away, too."""
_SYSTEM_LIMITS = (
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "KeyringMode=private",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectKernelModules=yes",
    "ProtectSystem=full",
)
"""What only the machine's systemd can take away.

Bubblewrap makes namespaces and mounts a fresh /proc, which the kernel refuses where parts of /proc are covered. So
there is no RestrictNamespaces, ProtectKernelTunables, ProtectKernelLogs, ProtectHostname, ProtectProc or ProcSubset,
and no MemoryDenyWriteExecute, since node and others compile while they run.
"""


def build_systemd_unit(spec: ServiceSpec, *, user: str = "") -> str:
    """Build a unit of a user's own systemd, or with `user` one of the machine's: `systemd.service(5)`.

    A configuration error (exit code 78) is not retried, because it would fail again; every other failure is.
    """
    lines = [
        "[Unit]",
        f"Description=Hermes gateway ({_escape_unit_text(spec.folder)})",
        "Documentation=man:systemd.service(5)",
        "After=network-online.target",
        "Wants=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={' '.join(_quote_word(one, command=True) for one in _avoid_odd_executable(spec.arguments))}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"WorkingDirectory={_escape_unit_text(spec.folder)}/",  # a backslash at the end would join the next line
        *(f"Environment={_quote_word(f'{name}={value}')}" for name, value in sorted(spec.environ.items())),
        "Restart=on-failure",
        f"RestartSec={RESTART_SECONDS}",
        "RestartPreventExitStatus=78",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        "TimeoutStartSec=120",
        f"TimeoutStopSec={int(spec.drain_seconds) + MARGIN_SECONDS}",
        "KillMode=mixed",
        "UMask=0077",
        "LimitNOFILE=65536",
        *_FILTERS,
        *(("User=" + _escape_unit_text(user), *_SYSTEM_LIMITS) if user else ()),
        "",
        "[Install]",
        f"WantedBy={'multi-user.target' if user else 'default.target'}",
    ]
    return "\n".join(lines) + "\n"


def build_launchd_plist(spec: ServiceSpec) -> str:
    """Build an agent of a user's own launchd: `launchd.plist(5)`. It is restarted unless it ended well."""
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
        '<plist version="1.0">',
        "<dict>",
        f"  <key>Label</key><string>{escape(spec.name)}</string>",
        "  <key>ProgramArguments</key>",
        "  <array>",
        *(f"    <string>{escape(one)}</string>" for one in spec.arguments),
        "  </array>",
        f"  <key>WorkingDirectory</key><string>{escape(spec.folder)}</string>",
        "  <key>EnvironmentVariables</key>",
        "  <dict>",
        *(
            f"    <key>{escape(name)}</key><string>{escape(value)}</string>"
            for name, value in sorted(spec.environ.items())
        ),
        "  </dict>",
        "  <key>RunAtLoad</key><true/>",
        "  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>",
        f"  <key>ThrottleInterval</key><integer>{RESTART_SECONDS}</integer>",
        f"  <key>ExitTimeOut</key><integer>{int(spec.drain_seconds) + MARGIN_SECONDS}</integer>",
        f"  <key>StandardOutPath</key><string>{escape(spec.log)}</string>",
        f"  <key>StandardErrorPath</key><string>{escape(spec.log)}</string>",
        "  <key>ProcessType</key><string>Background</string>",
        "</dict>",
        "</plist>",
    ]
    return "\n".join(parts) + "\n"


def _avoid_odd_executable(arguments: Sequence[str]) -> Sequence[str]:
    """Return a command that systemd can start: a program's own path may hold none of these characters, even quoted."""
    return ("/bin/sh", "-c", 'exec "$0" "$@"', *arguments) if set("$\"'\\") & set(arguments[0]) else arguments


def _quote_word(text: str, *, command: bool = False) -> str:
    """Quote a word for systemd: `%` begins a specifier, and in a command `$` a variable."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{inner.replace("$", "$$") if command else inner}"'


def _escape_unit_text(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")
