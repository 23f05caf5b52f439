"""The files by which a system's service manager knows the gateway, as texts."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from msgspec import Struct

WATCHDOG_SECONDS = 60
"""How long the gateway's loop may be stuck before it is started anew."""
RESTART_SECONDS = 2
MARGIN_SECONDS = 30
"""What the end may take beyond the time that running turns have."""
_PASSED = ("HERMES_HOME", "HERMES_LANGUAGE", "PATH", "LANG", "LC_ALL", "SSL_CERT_FILE")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Wish(Struct, frozen=True, kw_only=True):
    """What is to run."""

    arguments: Sequence[str]
    folder: str
    """Where it runs: the home."""
    drain_seconds: float
    environ: Mapping[str, str]
    """What it is given; see `passed`."""
    name: str
    log: str
    """The file into which goes what it prints, where nobody else keeps that."""


def passed(environ: Mapping[str, str]) -> dict[str, str]:
    """Of the environment in which it is installed, what a service needs. Keys belong into the home's `.env`."""
    names = [*_PASSED, *_PROXIES, *(one.upper() for one in _PROXIES)]
    return {name: environ[name] for name in names if environ.get(name)}


def systemd_unit(wish: Wish) -> str:
    """A unit of a person's own systemd: `systemd.service(5)`.

    A configuration that cannot be used (78) would fail again, so it is not tried again; everything else is.
    """
    lines = [
        "[Unit]",
        f"Description=Hermes gateway ({_unit_text(wish.folder)})",
        "Documentation=man:systemd.service(5)",
        "After=network-online.target",
        "Wants=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"ExecStart={' '.join(_quoted(one, command=True) for one in wish.arguments)}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"WorkingDirectory={_unit_text(wish.folder)}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in sorted(wish.environ.items())),
        "Restart=on-failure",
        f"RestartSec={RESTART_SECONDS}",
        "RestartPreventExitStatus=78",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        "TimeoutStartSec=120",
        f"TimeoutStopSec={int(wish.drain_seconds) + MARGIN_SECONDS}",
        "KillMode=mixed",
        "UMask=0077",
        "LimitNOFILE=65536",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def launchd_plist(wish: Wish) -> str:
    """An agent of a person's own launchd: `launchd.plist(5)`. It is started anew unless it ended well."""
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
        '<plist version="1.0">',
        "<dict>",
        f"  <key>Label</key><string>{escape(wish.name)}</string>",
        "  <key>ProgramArguments</key>",
        "  <array>",
        *(f"    <string>{escape(one)}</string>" for one in wish.arguments),
        "  </array>",
        f"  <key>WorkingDirectory</key><string>{escape(wish.folder)}</string>",
        "  <key>EnvironmentVariables</key>",
        "  <dict>",
        *(
            f"    <key>{escape(name)}</key><string>{escape(value)}</string>"
            for name, value in sorted(wish.environ.items())
        ),
        "  </dict>",
        "  <key>RunAtLoad</key><true/>",
        "  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>",
        f"  <key>ThrottleInterval</key><integer>{RESTART_SECONDS}</integer>",
        f"  <key>ExitTimeOut</key><integer>{int(wish.drain_seconds) + MARGIN_SECONDS}</integer>",
        f"  <key>StandardOutPath</key><string>{escape(wish.log)}</string>",
        f"  <key>StandardErrorPath</key><string>{escape(wish.log)}</string>",
        "  <key>ProcessType</key><string>Background</string>",
        "</dict>",
        "</plist>",
    ]
    return "\n".join(parts) + "\n"


def _quoted(text: str, *, command: bool = False) -> str:
    """A word as systemd reads it: `%` begins a specifier, and in a command `$` a variable."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{inner.replace("$", "$$") if command else inner}"'


def _unit_text(text: str) -> str:
    return text.replace("%", "%%").replace("\n", " ")
