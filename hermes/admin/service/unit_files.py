"""Build the files of the gateway for systemd and launchd, as texts."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from msgspec import Struct

WATCHDOG_SECONDS = 60
"""How long the gateway's event loop may be stuck before it is restarted."""
RESTART_SECONDS = 2
MARGIN_SECONDS = 30
"""Seconds that stopping may take beyond the time that running turns have."""
_PASSED_VARIABLES = ("HERMES_HOME", "HERMES_LANGUAGE", "PATH", "LANG", "LC_ALL", "SSL_CERT_FILE")
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


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


def service_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a service needs from this environment. Keys belong into the home's `.env`."""
    names = [*_PASSED_VARIABLES, *_PROXY_VARIABLES, *(one.upper() for one in _PROXY_VARIABLES)]
    return {name: environ[name] for name in names if environ.get(name)}


def build_systemd_unit(spec: ServiceSpec) -> str:
    """Build a unit of a user's own systemd: `systemd.service(5)`.

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
        f"ExecStart={' '.join(_quote_word(one, command=True) for one in spec.arguments)}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"WorkingDirectory={_escape_unit_text(spec.folder)}",
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
        "",
        "[Install]",
        "WantedBy=default.target",
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


def _quote_word(text: str, *, command: bool = False) -> str:
    """Quote a word for systemd: `%` begins a specifier, and in a command `$` a variable."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{inner.replace("$", "$$") if command else inner}"'


def _escape_unit_text(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")
