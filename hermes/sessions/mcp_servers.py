"""The MCP servers of a session, from the person's settings."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.config.home import Home
from hermes.config.settings import McpServerSettings, McpTrust, Settings
from hermes.core.errors import ConfigError
from hermes.safety.environment import holds_secret
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.backend_factory import trusted_path
from hermes.sessions.secrets import in_address

if TYPE_CHECKING:
    from hermes.execution.supervisor import Wardens
    from hermes.mcp.server import Spec
    from hermes.mcp.servers import Servers


SET = "mcp"
"""The tool set that stands for all servers; `mcp-NAME` is one server's."""


_EVERYTHING = ("all", "*")


_VARIABLE = re.compile(r"\$\{(\w+)\}")


def others(names: Sequence[str]) -> list[str]:
    """The tool sets that are not those of MCP servers."""
    return [name for name in names if not _is_set(name)]


def _is_set(name: str) -> bool:
    return name == SET or name.startswith(f"{SET}-")


def chosen(settings: Settings, asked: Sequence[str] | None, disabled: Sequence[str]) -> tuple[str, ...]:
    """The servers of a session, as they are named in tool names: all that are enabled, unless tool sets were asked for.

    Raises ConfigError for a set of a server that does not exist.
    """
    names = _names(settings)
    _check_sets((*(asked or ()), *disabled), list(names))
    every = asked is None or not {SET, *_EVERYTHING}.isdisjoint(asked)
    enabled = [name for name, given in names.items() if settings.mcp_servers[given].enabled]
    wanted = [name for name in enabled if every or f"{SET}-{name}" in (asked or ())]
    return tuple(name for name in wanted if {SET, f"{SET}-{name}"}.isdisjoint(disabled))


def _check_sets(sets: Sequence[str], names: Sequence[str]) -> None:
    for one in sets:
        if _is_set(one) and one != SET and one.removeprefix(f"{SET}-") not in names:
            raise ConfigError(
                f"There is no toolset {one!r}.", f"MCP servers are: {', '.join(names) or 'none'} (`mcp_servers`)."
            )


def open_servers(
    settings: Settings,
    environ: Mapping[str, str],
    home: Home,
    wardens: "Wardens",
    redactor: Redactor,
    *,
    workspace: str,
    only: str = "",
) -> "Servers":
    """The enabled servers, or `only` that one, not started yet; one that is set up wrongly says so then."""
    from hermes.mcp.servers import Servers, Surroundings

    environ = {**environ, "PATH": trusted_path(environ.get("PATH", ""), os.path.realpath(workspace))}
    specs = [
        _spec(given, name, settings.mcp_servers[given], environ)
        for name, given in _names(settings).items()
        if (only in (name, given) if only else settings.mcp_servers[given].enabled)
    ]
    for spec in specs:
        _learn(spec, redactor)
    around = Surroundings(
        environ=environ,
        wardens=wardens,
        logs=home.logs,
        known=home.cache / "mcp_tools.json",
        ca_file=settings.model.ca_bundle,
        patience=settings.mcp_discovery_timeout,
        redact=redactor.redact,
    )
    return Servers(specs, around)


def _names(settings: Settings) -> dict[str, str]:
    """The servers' names as they stand in tool names, sorted, with those of the settings."""
    from hermes.mcp.definitions import server_name

    found: dict[str, str] = {}
    for given in sorted(settings.mcp_servers):
        name = server_name(given)
        if not name or name in found:
            other = f" beside {found[name]!r}" if name else ""
            raise ConfigError(
                f"mcp_servers: {given!r} cannot be a server's name{other}.",
                "Use up to 24 letters, digits, `_` and `-`, different from the others'.",
            )
        found[name] = given
    return found


def _spec(given: str, name: str, server: McpServerSettings, environ: Mapping[str, str]) -> "Spec":
    from hermes.mcp.server import Spec

    try:
        return _filled(given, name, server, environ)
    except ConfigError as error:
        return Spec(name=name, broken=error.message.rstrip("."))


def _filled(given: str, name: str, server: McpServerSettings, environ: Mapping[str, str]) -> "Spec":
    from hermes.mcp.server import Spec

    if bool(server.command) == bool(server.url):
        raise ConfigError(f"mcp_servers.{given} needs a `command` or a `url`, one of them.", "Mend it in config.yaml.")

    def filled(text: str) -> str:
        return _VARIABLE.sub(lambda match: _value(match[1], given, environ), text)

    home = environ.get("HOME") or "/"
    return Spec(
        name=name,
        command=_expanded(server.command, home),
        args=server.args,
        env={key: filled(value) for key, value in server.env.items()},
        folder=str(Path(_expanded(server.cwd, home)) if server.cwd else Path(home)),
        url=filled(server.url),
        headers={key.lower(): filled(value) for key, value in server.headers.items()},
        timeout=server.timeout,
        connect_timeout=server.connect_timeout,
        include=server.tools.include,
        exclude=server.tools.exclude,
        asks=server.trust is not McpTrust.ALWAYS,
    )


def _learn(spec: "Spec", redactor: Redactor) -> None:
    """Have what a server is given as a secret taken out of everything, whatever it does with it."""
    for name, value in spec.env.items():
        if holds_secret(name):
            redactor.learn(f"mcp.{spec.name}.{name}", value)
    for name, value in spec.headers.items():
        redactor.learn(f"mcp.{spec.name}.{name}", value.rpartition(" ")[2])  # without the scheme, `Bearer`
    for name, value in in_address(f"mcp.{spec.name}.url", spec.url):
        redactor.learn(name, value)


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _value(name: str, server: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None:
        raise ConfigError(f"mcp_servers.{server} names the variable {name}, which is not set.", f"Set {name}.")
    return value
