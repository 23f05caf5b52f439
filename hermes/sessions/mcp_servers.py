"""Open, list and test the MCP servers of the user's settings, and those of other agents that the user has agreed to."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct, structs

from hermes.config.agent_servers import AgentServer, has_server_changed, list_usable_servers
from hermes.config.home import HermesHome
from hermes.config.settings import McpServerSettings, McpTrust, Settings, TokenPlace
from hermes.core.errors import ConfigError, ToolError, TransportError
from hermes.i18n.messages import N_
from hermes.safety.environment import is_secret_variable
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.backend_factory import filter_trusted_path
from hermes.sessions.secrets import secrets_in_url
from hermes.tools.toolsets import ALL_TOOLSETS, MCP_TOOLSET, is_mcp_toolset
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.execution.supervisor import Supervisors
    from hermes.mcp.http_exchanges import McpTokens
    from hermes.mcp.server_spec import McpServerSpec
    from hermes.mcp.servers import McpServers
    from hermes.oauth.requests import SendRequest
    from hermes.oauth.sign_in_flow import SignInPerson
    from hermes.oauth.token_store import TokenStore


_SIGN_IN_SECONDS = 30.0
"""Seconds that each request of a sign-in may take."""
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


class AgreedServers(Struct, frozen=True, kw_only=True):
    """The settings with the MCP servers of other agents' files that the person has agreed to."""

    settings: Settings
    servers: Mapping[str, AgentServer] = {}
    """These servers, by their names in the settings."""
    folder: str = ""
    notices: tuple[str, ...] = ()
    """Lines about servers that wait for a yes."""

    def watch_changes(self, opened: "McpServers", environ: Mapping[str, str]) -> None:
        """Have each of these servers compared with what was agreed to before each of its starts: what a session writes
        may change the program that it would start again.
        """
        for server in opened.servers:
            agreed = self.servers.get(server.spec.name)
            if agreed is not None:
                server.find_change = partial(_describe_change, agreed, environ, self.folder)


def _describe_change(server: AgentServer, environ: Mapping[str, str], folder: str) -> str:
    if not has_server_changed(server, environ, folder):
        return ""
    return N_(
        "it has changed since the person agreed to it: `hermes import {agent} --read-in-place` asks again",
        agent=server.agent,
    )


def add_agent_servers(
    settings: Settings, home: HermesHome, environ: Mapping[str, str], folder: str, trusted_folders: Sequence[str] = ()
) -> AgreedServers:
    """Return the settings with the MCP servers of other agents' files that the person has agreed to. A name counts for
    the settings, then for the person's home, then for the project in `folder`; an empty folder is none. Raises
    ConfigError for a damaged file.
    """
    from hermes.mcp.definitions import to_server_name

    agreed, waiting = list_usable_servers(home, environ, folder, trusted_folders)
    taken, servers = set(map_server_names(settings)), dict[str, AgentServer]()
    for server in agreed:
        name = to_server_name(server.name)
        if name and name not in taken:
            servers.setdefault(name, server)
    lines = []
    for agent in sorted({server.agent for server in waiting}):
        names = ", ".join(server.name for server in waiting if server.agent == agent)
        lines.append(
            N_(
                "MCP servers are not started, since they are new or have changed: {names}. "
                "`hermes import {agent} --read-in-place` asks about them.",
                names=escape_unseen_characters(to_one_line(names, 200)),
                agent=agent,
            )
        )
    found = {**settings.mcp_servers, **{name: server.settings for name, server in servers.items()}}
    return AgreedServers(
        settings=structs.replace(settings, mcp_servers=found) if servers else settings,
        servers=servers,
        folder=folder,
        notices=tuple(lines),
    )


class ServerChoice(Struct, frozen=True):
    """One server by its name, empty for all that are enabled; and who signs in to it again, if it wants that."""

    name: str = ""
    person: "SignInPerson | None" = None
    """None: what is stored is used, and nobody is asked."""


def open_servers(
    settings: Settings,
    environ: Mapping[str, str],
    home: HermesHome,
    supervisors: "Supervisors",
    redactor: Redactor,
    *,
    workspace: str,
    choice: ServerChoice = ServerChoice(),  # noqa: B008 - a frozen value
) -> "McpServers":
    """Prepare the enabled servers, or the chosen one, without starting them.

    A server with wrong settings reports that when it is started.
    """
    from hermes.mcp.servers import McpEnvironment, McpServers

    environ = {**environ, "PATH": filter_trusted_path(environ.get("PATH", ""), os.path.realpath(workspace))}
    specs = [
        _spec_or_broken(given, name, settings.mcp_servers[given], environ)
        for name, given in map_server_names(settings).items()
        if (choice.name in (name, given) if choice.name else settings.mcp_servers[given].enabled)
    ]
    for spec in specs:
        _redact_spec_secrets(spec, redactor)

    def open_authorization(spec: "McpServerSpec") -> "McpTokens | None":
        if "authorization" in spec.headers:
            return None
        store = open_token_store(home, redactor, settings)
        return _open_authorization(spec, settings, environ, store, choice.person)

    around = McpEnvironment(
        environ=environ,
        supervisors=supervisors,
        logs=home.logs,
        known_file=home.cache / "mcp_tools.json",
        ca_file=settings.model.ca_bundle,
        patience=settings.mcp_discovery_timeout,
        redact=redactor.redact,
        open_authorization=open_authorization,
    )
    return McpServers(specs, around)


def open_token_store(home: HermesHome, redactor: Redactor, settings: Settings) -> "TokenStore":
    """Return the store of sign-ins; the redactor learns each token that is read or written."""
    from hermes.oauth.token_store import TokenStore

    return TokenStore(
        home.oauth_file,
        home.locks,
        lambda secret: redactor.add_secret("oauth", secret),
        prefers_keyring=settings.token_store is TokenPlace.KEYRING,
    )


def _open_authorization(
    spec: "McpServerSpec",
    settings: Settings,
    environ: Mapping[str, str],
    store: "TokenStore",
    person: "SignInPerson | None",
) -> "McpTokens":
    """Return the tokens of a server. What it names as places of its sign-in is fetched as pages are: guarded."""
    from hermes.mcp.authorization import McpAuthorization, McpAuthorizationDeps, McpSignInSettings

    client = McpSignInSettings(
        client_id=spec.oauth.client_id,
        client_secret=spec.oauth.client_secret,
        metadata_url=spec.oauth.client_metadata_url,
        issuer=spec.oauth.issuer,
        scope=spec.oauth.scope,
        redirect_port=spec.oauth.redirect_port,
    )
    deps = McpAuthorizationDeps(
        store=store,
        send=make_oauth_sender(environ, settings, spec.url),
        person=person,
        signs_in_again=person is not None,
    )
    return McpAuthorization(spec.name, spec.url, client, deps)


def make_oauth_sender(environ: Mapping[str, str], settings: Settings, server_url: str) -> "SendRequest":
    """Return what sends the requests of a sign-in. The host of the server itself is open, since the person named it; of
    private networks only what they have opened is.
    """
    from hermes.oauth.requests import MAX_DOCUMENT_BYTES, HttpAnswer
    from hermes.safety.urls import UrlPolicy
    from hermes.web.fetch import FetchLimits, WebFetcher

    host = urlsplit(server_url).hostname or ""
    opened = (*settings.security.allow_private_urls, *([host] if host else []))

    async def send(method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        limits = FetchLimits(seconds=_SIGN_IN_SECONDS, bytes=MAX_DOCUMENT_BYTES)
        policy, ca_file = UrlPolicy(private=opened), settings.model.ca_bundle
        try:
            async with WebFetcher(environ, policy=policy, limits=limits, ca_file=ca_file) as fetcher:
                page = await fetcher.send_request(method, url, headers=headers, body=body)
        except ToolError as error:
            # A network that is away ends no sign-in, so whoever asks has to be able to tell.
            raise error.__cause__ if isinstance(error.__cause__, TransportError) else error from None
        return HttpAnswer(page.status, page.headers, page.body)

    return send


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
    from hermes.mcp.server_spec import McpServerSpec

    try:
        return _build_spec(given, name, server, environ)
    except ConfigError as error:
        return McpServerSpec(name=name, settings_problem=error.message.rstrip("."))


def _build_spec(given: str, name: str, server: McpServerSettings, environ: Mapping[str, str]) -> "McpServerSpec":
    from hermes.mcp.server_spec import McpServerSpec

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
        protocol=_check_protocol(given, server.protocol),
        oauth=structs.replace(
            server.oauth,
            client_id=expand_variables(server.oauth.client_id),
            client_secret=expand_variables(server.oauth.client_secret),
        ),
    )


def _check_protocol(given: str, version: str) -> str:
    from hermes.mcp.revisions import PROTOCOL_VERSIONS

    if version and version not in PROTOCOL_VERSIONS:
        raise ConfigError(
            N_("mcp_servers.{given}: there is no protocol {version}.", given=given, version=repr(version)),
            N_("Versions are: {names}.", names=", ".join(PROTOCOL_VERSIONS)),
        )
    return version


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
    if spec.oauth.client_secret:
        redactor.add_secret(f"mcp.{spec.name}.client_secret", spec.oauth.client_secret)
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
