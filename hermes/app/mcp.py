"""The MCP servers of the person's settings."""

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hermes
from hermes.app.openai_form import Plain
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import McpServerSettings, McpTrust, Settings
from hermes.core.errors import ConfigError, NotFoundError, ToolError

if TYPE_CHECKING:
    from hermes.tools.backends.wardens import Wardens
    from hermes.tools.mcp.server import Spec
    from hermes.tools.mcp.servers import Servers

SET = "mcp"
"""The tool set that stands for all servers; `mcp-NAME` is one server's."""
_EVERYTHING = ("all", "*")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def is_set(name: str) -> bool:
    """Whether a tool set is one of MCP servers."""
    return name == SET or name.startswith(f"{SET}-")


def chosen(settings: Settings, asked: Sequence[str] | None, disabled: Sequence[str]) -> tuple[str, ...]:
    """The servers of a session, as they are named in tool names: all that are enabled, unless tool sets were asked for.

    Raises ConfigError for a set of a server that does not exist.
    """
    names = {name: settings.mcp_servers[given].enabled for name, given in _names(settings).items()}
    for one in (*(asked or ()), *disabled):
        if is_set(one) and one != SET and one.removeprefix(f"{SET}-") not in names:
            raise ConfigError(
                f"There is no toolset {one!r}.", f"MCP servers are: {', '.join(names) or 'none'} (`mcp_servers`)."
            )
    every = asked is None or SET in asked or any(one in asked for one in _EVERYTHING)
    off = {one.removeprefix(f"{SET}-") for one in disabled if is_set(one)}
    return tuple(
        name
        for name, enabled in names.items()
        if enabled and (every or f"{SET}-{name}" in (asked or ())) and SET not in disabled and name not in off
    )


def open_servers(
    settings: Settings, environ: Mapping[str, str], home: Home, wardens: "Wardens", *, only: str = ""
) -> "Servers":
    """The enabled servers, or `only` that one, not started yet; one that is set up wrongly says so then."""
    from hermes.tools.mcp.servers import Servers, Surroundings

    specs = [
        _spec(given, name, settings.mcp_servers[given], environ)
        for name, given in _names(settings).items()
        if (only in (name, given) if only else settings.mcp_servers[given].enabled)
    ]
    around = Surroundings(
        environ=environ,
        wardens=wardens,
        logs=home.logs,
        known=home.cache / "mcp_tools.json",
        ca_file=settings.model.ca_bundle,
        patience=settings.mcp_discovery_timeout,
        version=hermes.__version__,
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
    found = open_servers(settings, environ, home, wardens, only=name)
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


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _value(name: str, server: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None:
        raise ConfigError(f"mcp_servers.{server} names the variable {name}, which is not set.", f"Set {name}.")
    return value
