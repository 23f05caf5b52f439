"""Open, list and test the MCP servers of the user's settings."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.config.home import HermesHome
from hermes.config.settings import McpServerSettings, McpTrust, Settings
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.safety.environment import is_secret_variable
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.backend_factory import filter_trusted_path
from hermes.sessions.secrets import secrets_in_url
from hermes.tools.toolsets import ALL_TOOLSETS, MCP_TOOLSET, is_mcp_toolset

if TYPE_CHECKING:
    from hermes.execution.supervisor import Supervisors
    from hermes.mcp.server import McpServerSpec
    from hermes.mcp.servers import McpServers


_VARIABLE_PATTERN = re.compile(r"\$\{(\w+)\}")


def select_servers(settings: Settings, requested: Sequence[str] | None, disabled: Sequence[str]) -> tuple[str, ...]:
    """Return the servers of a session, as they are named in tool names.

    All enabled servers are used unless tool sets were asked for. Raises ConfigError for the tool set of a
    server that does not exist.
    """
    names = map_server_names(settings)
    _check_mcp_toolsets((*(requested or ()), *disabled), list(names))
    every = requested is None or not {MCP_TOOLSET, *ALL_TOOLSETS}.isdisjoint(requested)
    enabled = [name for name, given in names.items() if settings.mcp_servers[given].enabled]
    wanted = [name for name in enabled if every or f"{MCP_TOOLSET}-{name}" in (requested or ())]
    return tuple(name for name in wanted if {MCP_TOOLSET, f"{MCP_TOOLSET}-{name}"}.isdisjoint(disabled))


def _check_mcp_toolsets(toolset_names: Sequence[str], names: Sequence[str]) -> None:
    for one in toolset_names:
        if is_mcp_toolset(one) and one != MCP_TOOLSET and one.removeprefix(f"{MCP_TOOLSET}-") not in names:
            raise ConfigError(
                N_("There is no toolset {one}.", one=repr(one)),
                N_("MCP servers are: {names} (`mcp_servers`).", names=", ".join(names) or "none"),
            )


def open_servers(
    settings: Settings,
    environ: Mapping[str, str],
    home: HermesHome,
    supervisors: "Supervisors",
    redactor: Redactor,
    *,
    workspace: str,
    only: str = "",
) -> "McpServers":
    """Prepare the enabled servers, or `only` that one, without starting them.

    A server with wrong settings reports that when it is started.
    """
    from hermes.mcp.servers import McpEnvironment, McpServers

    environ = {**environ, "PATH": filter_trusted_path(environ.get("PATH", ""), os.path.realpath(workspace))}
    specs = [
        _spec_or_broken(given, name, settings.mcp_servers[given], environ)
        for name, given in map_server_names(settings).items()
        if (only in (name, given) if only else settings.mcp_servers[given].enabled)
    ]
    for spec in specs:
        _redact_spec_secrets(spec, redactor)
    around = McpEnvironment(
        environ=environ,
        supervisors=supervisors,
        logs=home.logs,
        known_file=home.cache / "mcp_tools.json",
        ca_file=settings.model.ca_bundle,
        patience=settings.mcp_discovery_timeout,
        redact=redactor.redact,
    )
    return McpServers(specs, around)


def map_server_names(settings: Settings) -> dict[str, str]:
    """Map the servers' names in tool names, sorted, to their names in the settings."""
    from hermes.mcp.definitions import to_server_name

    found: dict[str, str] = {}
    for given in sorted(settings.mcp_servers):
        name = to_server_name(given)
        if not name or name in found:
            other = f" beside {found[name]!r}" if name else ""
            raise ConfigError(
                N_("mcp_servers: {given} cannot be a server's name{other}.", given=repr(given), other=other),
                "Use up to 24 letters, digits, `_` and `-`, different from the others'.",
            )
        found[name] = given
    return found


def _spec_or_broken(given: str, name: str, server: McpServerSettings, environ: Mapping[str, str]) -> "McpServerSpec":
    from hermes.mcp.server import McpServerSpec

    try:
        return _build_spec(given, name, server, environ)
    except ConfigError as error:
        return McpServerSpec(name=name, settings_problem=error.message.rstrip("."))


def _build_spec(given: str, name: str, server: McpServerSettings, environ: Mapping[str, str]) -> "McpServerSpec":
    from hermes.mcp.server import McpServerSpec

    if bool(server.command) == bool(server.url):
        raise ConfigError(
            N_("mcp_servers.{given} needs a `command` or a `url`, one of them.", given=given), "Fix it in config.yaml."
        )

    def expand_variables(text: str) -> str:
        return _VARIABLE_PATTERN.sub(lambda match: _variable_value(match[1], given, environ), text)

    home = environ.get("HOME") or "/"
    return McpServerSpec(
        name=name,
        command=_expand_home(server.command, home),
        args=server.args,
        env={key: expand_variables(value) for key, value in server.env.items()},
        folder=str(Path(_expand_home(server.cwd, home)) if server.cwd else Path(home)),
        url=expand_variables(server.url),
        headers={key.lower(): expand_variables(value) for key, value in server.headers.items()},
        timeout=server.timeout,
        connect_timeout=server.connect_timeout,
        include=server.tools.include,
        exclude=server.tools.exclude,
        asks_approval=server.trust is not McpTrust.ALWAYS,
    )


def explain_missing_program(settings: Settings, environ: Mapping[str, str], name: str) -> str:
    """Return why the server of that name in tool names cannot be started, for a person; empty where nothing is seen
    that is missing. Nothing is started for that.
    """
    given = map_server_names(settings)[name]
    try:
        spec = _build_spec(given, name, settings.mcp_servers[given], environ)
    except ConfigError as error:
        return error.message.rstrip(".")
    if not spec.command:
        return ""
    program = os.path.join(spec.folder, spec.command) if os.path.dirname(spec.command) else spec.command
    if shutil.which(program, path=spec.env.get("PATH", environ.get("PATH", ""))):
        return ""
    return N_("its program {program} is not found", program=spec.command)


def _redact_spec_secrets(spec: "McpServerSpec", redactor: Redactor) -> None:
    """Teach the redactor every secret that a server is given."""
    for name, value in spec.env.items():
        if is_secret_variable(name):
            redactor.add_secret(f"mcp.{spec.name}.{name}", value)
    for name, value in spec.headers.items():
        redactor.add_secret(f"mcp.{spec.name}.{name}", value.rpartition(" ")[2])  # without the scheme, `Bearer`
    for name, value in secrets_in_url(f"mcp.{spec.name}.url", spec.url):
        redactor.add_secret(name, value)


def _expand_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _variable_value(name: str, server: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if value is None:
        raise ConfigError(
            N_("mcp_servers.{server} names the variable {name}, which is not set.", server=server, name=name),
            N_("Set {name}.", name=name),
        )
    return value
