"""The MCP servers of the person's settings."""

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.app.backends import trusted_path
from hermes.app.openai_form import Plain
from hermes.app.secrets import in_address, redactor_for
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import McpServerSettings, McpTrust, Settings
from hermes.core.errors import ConfigError, NotFoundError, ToolError
from hermes.safety.environment import holds_secret
from hermes.safety.secrets import Redactor

if TYPE_CHECKING:
    from hermes.tools.backends.wardens import Wardens
    from hermes.tools.mcp.server import Spec
    from hermes.tools.mcp.servers import Servers

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
    from hermes.tools.mcp.servers import Servers, Surroundings

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


def listed(environ: Mapping[str, str]) -> list[Plain]:
    """The servers of the settings: name, whether it is on, how it is reached, whether its tools ask."""
    settings = load_settings(locate_home(environ)).settings
    return [
        {
            "name": name,
            "enabled": server.enabled,
            "transport": "stdio" if server.command else "http",
            "target": " ".join((server.command, *server.args)) if server.command else server.url,
            "trust": str(server.trust),
        }
        for name, server in ((name, settings.mcp_servers[given]) for name, given in _names(settings).items())
    ]


async def tried(environ: Mapping[str, str], name: str) -> Plain:
    """What came of starting a server and asking it for its tools: seconds, the tools, or what is wrong.

    Raises NotFoundError.
    """
    from hermes.tools.backends.wardens import Wardens

    home = locate_home(environ)
    settings = load_settings(home).settings
    environ = with_dotenv(environ, home.env_file)
    wardens = Wardens(environ)
    found = open_servers(
        settings, environ, home, wardens, redactor_for(environ, home, settings), workspace=os.getcwd(), only=name
    )
    if not found.servers:
        raise NotFoundError(f"There is no MCP server {name!r}.", "`hermes mcp list` shows those of config.yaml.")
    (server,) = found.servers
    began = time.monotonic()
    try:
        with contextlib.suppress(ToolError):
            await server.connect()
        return {
            "name": server.spec.name,
            "problem": server.problem,
            "seconds": round(time.monotonic() - began, 3),
            "tools": [
                {"name": one.name, "digest": one.digest, "reads_only": one.reads_only, "description": one.description}
                for one in server.tools
            ],
        }
    finally:
        await found.close()
        await wardens.close()


def _names(settings: Settings) -> dict[str, str]:
    """The servers' names as they stand in tool names, sorted, with those of the settings."""
    from hermes.tools.mcp.definitions import server_name

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
    from hermes.tools.mcp.server import Spec

    try:
        return _filled(given, name, server, environ)
    except ConfigError as error:
        return Spec(name=name, broken=error.message.rstrip("."))


def _filled(given: str, name: str, server: McpServerSettings, environ: Mapping[str, str]) -> "Spec":
    from hermes.tools.mcp.server import Spec

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
