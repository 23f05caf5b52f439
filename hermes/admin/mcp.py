"""Add MCP servers to the settings and remove them. Keys go into `.env`, and the settings name their variables."""

import os
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes.admin.config import change_settings, locate_writable_home
from hermes.config.environment import merge_dotenv, parse_dotenv, set_variables
from hermes.config.home import HermesHome
from hermes.config.load import has_literal_key, load_settings
from hermes.config.settings import McpServerSettings
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.mcp.definitions import to_server_name

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{\w+\}")
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):\s*(\S.*)")
_SECRET_NAME = re.compile(r"auth|cookie|key|token|secret|pass|credential", re.IGNORECASE)
_EXAMPLE = '{"command": "npx", "args": ["-y", "some-server"]}'
AskSecret = Callable[[str], str]


class NewServer(Struct, frozen=True, kw_only=True):
    """A server as it is asked for: a program with its arguments, or an address; with what it is given."""

    name: str
    command: Sequence[str] = ()
    url: str = ""
    env: Sequence[str] = ()
    """`NAME=VALUE`, or `NAME` alone for a variable of the environment or `.env`."""
    headers: Sequence[str] = ()
    """`NAME: VALUE`."""
    cwd: str = ""
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    """The only tools that are offered, and those that are not, by the server's names."""


class _DescribedServer(Struct, frozen=True, forbid_unknown_fields=True):
    """A server as other programs describe it in JSON."""

    type: str = ""
    command: str = ""
    args: Sequence[str] = ()
    url: str = ""
    env: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    cwd: str = ""


def parse_server(name: str, text: str) -> NewServer:
    """Return the server that a text in JSON describes. Raises UsageError."""
    try:
        found = msgspec.json.decode(text.encode("utf-8", "surrogateescape"), type=_DescribedServer)
    except (msgspec.MsgspecError, RecursionError) as error:
        names = _DescribedServer.__struct_fields__
        raise UsageError(
            N_("This describes no server: {why}.", why=str(error).rstrip(".")),
            N_("It may have: {names}. Such as: {example}", names=", ".join(names), example=_EXAMPLE),
        ) from None
    return NewServer(
        name=name,
        command=[found.command, *found.args] if found.command else [],
        url=found.url,
        env=[f"{variable}={value}" if value else variable for variable, value in found.env.items()],
        headers=[f"{field}: {value}" for field, value in found.headers.items()],
        cwd=found.cwd,
    )


class AddedServer(Struct, frozen=True):
    """A server that was added: where, and the variables that were written to `.env`."""

    name: str
    file: str
    variables: tuple[str, ...]


def add_server(environ: Mapping[str, str], new: NewServer, ask_secret: AskSecret) -> AddedServer:
    """Add a server. `ask_secret` is asked for variables that are nowhere set. Raises UsageError, ConfigError."""
    home = locate_writable_home(environ)
    _check_server(home, new)
    entry, secrets = _build_entry(environ, home, new, ask_secret)
    if secrets:
        home.ensure_exists()
        set_variables(home.env_file, secrets)
    change_settings(home, {("mcp_servers", new.name): entry})
    return AddedServer(new.name, str(home.config_file), tuple(secrets))


def _build_entry(
    environ: Mapping[str, str], home: HermesHome, new: NewServer, ask_secret: AskSecret
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the entry for the settings, and the variables for `.env`."""
    secrets: dict[str, str] = {}
    entry: dict[str, object] = {"url": new.url} if new.url else _describe_program(new)
    env = {name: _keep_value(new, name, value, secrets) for name, value in map(_split_variable, new.env)}
    headers = {name: _keep_value(new, name, value, secrets) for name, value in map(_split_header, new.headers)}
    if has_literal_key({one: entry.get(one, "") for one in ("url", "args")}):
        raise UsageError(
            N_("A key in an address or an argument would stand in config.yaml."),
            N_("Give it by --env or --header, or write ${NAME} and put NAME into .env."),
        )
    secrets |= _ask_unset_variables(environ, home, env, ask_secret)
    env = {name: value or f"${{{name}}}" for name, value in env.items()}
    entry |= _describe_tools(new)
    if env or headers:
        entry |= {"env": env} if env else {"headers": headers}  # a program takes the first, an address the second
    return entry, secrets


def _describe_tools(new: NewServer) -> dict[str, object]:
    """Return the part of the entry that says which tools are offered."""
    tools = {key: list(names) for key, names in (("include", new.include), ("exclude", new.exclude)) if names}
    return {"tools": tools} if tools else {}


def _ask_unset_variables(
    environ: Mapping[str, str], home: HermesHome, env: Mapping[str, str], ask_secret: AskSecret
) -> dict[str, str]:
    """Ask for each variable that was named without a value and is nowhere set; return what was answered."""
    known = merge_dotenv(environ, home.env_file)
    asked = {name: ask_secret(name) for name, value in env.items() if not value and not known.get(name)}
    return {name: value for name, value in asked.items() if value}


def remove_server(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Remove a server from the settings; return the variables of `.env` that it named, which stay there.

    Raises NotFoundError, ConfigError.
    """
    home = locate_writable_home(environ)
    server = load_settings(home).settings.mcp_servers.get(name)
    if server is None:
        raise NotFoundError(N_("There is no MCP server {name}.", name=repr(name)), "`hermes mcp list` shows them.")
    change_settings(home, {}, [("mcp_servers", name)])
    _delete_tokens(home, name)
    named = set(re.findall(r"\$\{(\w+)\}", " ".join((server.url, *server.env.values(), *server.headers.values()))))
    try:
        known = parse_dotenv(home.env_file.read_text("utf-8", "replace"))
    except OSError:
        return ()
    return tuple(sorted(named & set(known)))


def check_sign_in(environ: Mapping[str, str], name: str) -> None:
    """Raise UsageError where a server cannot be signed in to, NotFoundError where there is none of that name."""
    server = _find_server(locate_writable_home(environ), name)
    if not server.url:
        raise UsageError(
            N_("{name} is a program: it is given its keys, and not signed in to.", name=name),
            N_("`hermes mcp add` takes them by --env."),
        )
    if any(one.lower() == "authorization" for one in server.headers):
        raise UsageError(
            N_("{name} is given its token in `headers`, which takes precedence.", name=name),
            N_("Remove the field Authorization in config.yaml first."),
        )


def delete_sign_in(environ: Mapping[str, str], name: str) -> bool:
    """Delete the tokens of a server, one that is gone from the settings, too; return whether there were any.

    Raises ConfigError, BusyError, StoreError, NotFoundError.
    """
    home = locate_writable_home(environ)
    if _delete_tokens(home, name):
        return True
    _find_server(home, name)
    return False


def find_token_fallback(environ: Mapping[str, str], name: str) -> str:
    """Return why a server's tokens are in the file although the person wants them in the keyring; empty otherwise."""
    home = locate_writable_home(environ)
    if not os.path.lexists(home.oauth_file):
        return ""
    from hermes.mcp.authorization import name_sign_in
    from hermes.oauth.token_store import TokenStore

    return TokenStore(home.oauth_file, home.locks).list_fallbacks().get(name_sign_in(to_server_name(name)), "")


def _delete_tokens(home: HermesHome, name: str) -> bool:
    """Delete what is stored of a sign-in to a server; return whether there was something."""
    if not os.path.lexists(home.oauth_file):
        return False
    from hermes.mcp.authorization import name_sign_in
    from hermes.oauth.token_store import TokenStore

    store = TokenStore(home.oauth_file, home.locks)
    return store.delete(name_sign_in(to_server_name(name)))


def _find_server(home: HermesHome, name: str) -> McpServerSettings:
    servers = load_settings(home).settings.mcp_servers
    found = servers.get(name) or next((one for given, one in servers.items() if to_server_name(given) == name), None)
    if found is None:
        raise NotFoundError(N_("There is no MCP server {name}.", name=repr(name)), "`hermes mcp list` shows them.")
    return found


def _check_server(home: HermesHome, new: NewServer) -> None:
    if to_server_name(new.name) != new.name or not new.name:
        raise UsageError(
            N_("{name} cannot be a server's name.", name=repr(new.name[:80])),
            N_("Use up to 24 letters, digits, `_` and `-`."),
        )
    if new.name in load_settings(home).settings.mcp_servers:
        raise UsageError(
            N_("There is an MCP server {name} already.", name=repr(new.name)),
            N_("`hermes mcp remove {name}` removes it.", name=new.name),
        )
    if bool(new.url) == bool(new.command):
        raise UsageError(
            N_("A server is a program or an address."),
            N_("hermes mcp add NAME -- PROGRAM ARGUMENTS, or hermes mcp add NAME ADDRESS"),
        )
    if new.url and not new.url.startswith(("https://", "http://", "${")):
        raise UsageError(N_("An address begins with https:// or http://."))
    if new.url and new.env:
        raise UsageError(N_("Variables are for programs; a server at an address takes --header."))
    if new.command and new.headers:
        raise UsageError(N_("Header fields are for servers at an address; a program takes --env."))


def _describe_program(new: NewServer) -> dict[str, object]:
    """Return the program's part of the entry. A path in its words means the folder that it was typed in."""
    program, *words = new.command
    if "/" in program:
        program = os.path.abspath(os.path.expanduser(program))
    entry: dict[str, object] = {"command": program}
    if words:
        entry["args"] = words
    is_relative = any(word in (".", "..") or word.startswith(("./", "../")) for word in words)
    if new.cwd or is_relative:
        entry["cwd"] = os.path.abspath(os.path.expanduser(new.cwd or "."))
    return entry


def _split_variable(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not _VARIABLE.fullmatch(name) or (equals and not value):
        raise UsageError(N_("--env takes NAME=VALUE, or NAME for a variable of .env or the environment."))
    return name, value


def _split_header(given: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(given.strip())
    if found is None:
        raise UsageError(N_('--header takes "NAME: VALUE".'))
    return found[1], found[2]


def _keep_value(new: NewServer, name: str, value: str, secrets: dict[str, str]) -> str:
    """Return what stands in the settings for a value: itself, or the variable of `.env` that holds it."""
    is_secret = _SECRET_NAME.search(name) is not None or has_literal_key({name: value})
    if not value or _REFERENCE.search(value) or not is_secret:
        return value
    variable = re.sub(r"\W", "_", f"MCP_{new.name}_{name}").upper()
    secrets[variable] = value
    return f"${{{variable}}}"
