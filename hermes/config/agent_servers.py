"""The MCP servers that other agents' files name, as settings of Hermes, each with the digest that a person agrees to.

A server runs a program or is sent what a session knows, so each one needs its own yes. The yes is for the definition as
it stands in the file and, in a project, for the content of the files there that it names: when one of them changes,
the server is asked about again, and it is not started before.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes.config.home import HermesHome
from hermes.config.other_agents import (
    AgentPlace,
    FileKind,
    OtherAgent,
    find_agent,
    list_agreed_places,
    list_home_places,
    list_project_places,
)
from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.config.settings import McpServerSettings, McpToolSettings
from hermes.core.encoding import to_json
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.util.file_handles import RefusedPathError, open_read
from hermes.util.loose_json import to_strict_json

_MAX_BYTES = 64 << 20
"""Claude Code keeps its servers in one file with its history."""
_MAX_WRITTEN_BYTES = 1 << 20
"""Of a file that people write by hand."""
_MAX_SERVERS = 100
_MAX_NAMED_BYTES = 20 << 20
_REFERENCE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_OPENCODE_REFERENCE = re.compile(r"\{(env|file):([^}]*)\}")

Table = Mapping[str, object]


class AgentServer(KeyHolder, frozen=True, kw_only=True):
    """An MCP server that another agent's file names."""

    agent: str
    file: str
    name: str
    is_project: bool
    settings: McpServerSettings = McpServerSettings()
    digest: str = ""
    """The digest of its definition, and of the files in the project that this names."""
    variables: tuple[str, ...] = ()
    """The variables of the person that it is given."""
    problem: str = ""
    """Why it cannot be used, as the end of a sentence; empty where it can."""
    left: tuple[str, ...] = ()
    """What of its definition does not carry over."""

    @property
    def consent_key(self) -> str:
        """The key under which the person's yes is kept."""
        return f"mcp:{self.file}:{self.name}"

    @property
    def refusal_key(self) -> str:
        """The key under which the person's no is kept, so that they are not told of it in each session."""
        return f"mcp-refused:{self.file}:{self.name}"


class _Definition(Struct, kw_only=True):
    """A definition on its way to settings."""

    command: Sequence[str] = ()
    url: str = ""
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    cwd: str = ""
    enabled: bool = True
    timeout: float = 0.0
    connect_timeout: float = 0.0
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    problem: str = ""
    left: tuple[str, ...] = ()


def list_agent_servers(
    agent: OtherAgent, environ: Mapping[str, str], folder: str, *, has_project: bool
) -> list[AgentServer]:
    """Return the servers of an agent's files in the person's home and, with `has_project`, of the project in `folder`,
    whether they were agreed to or not. A file that cannot be read names none.
    """
    places = list_home_places(agent, FileKind.SERVERS, environ)
    places += list_project_places(agent, FileKind.SERVERS, folder) if has_project else []
    return [server for place in places for server in _read_servers(place, environ, folder)]


def list_usable_servers(
    home: HermesHome, environ: Mapping[str, str], folder: str, trusted_folders: Sequence[str] = ()
) -> tuple[list[AgentServer], list[AgentServer]]:
    """Return the servers that the person has agreed to as they are now, and those that wait for an answer. Those of the
    project in `folder` count where it is trusted; an empty one is none. Raises ConfigError for a damaged file.
    """
    places = list_agreed_places(FileKind.SERVERS, home, environ, folder, trusted_folders)
    if not places:
        return [], []
    consents = PluginConsents(home.consent_file).list_all()
    agreed, waiting = [], []
    for server in (server for place in places for server in _read_servers(place, environ, folder)):
        if server.problem or not server.settings.enabled:
            continue
        if _has_digest(consents, server.consent_key, server):
            agreed.append(server)
        elif not _has_digest(consents, server.refusal_key, server):
            waiting.append(server)
    return agreed, waiting


def list_unread_keys(agent: OtherAgent, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what an agent's files in the person's home hold beside servers and is not read, with the reasons."""
    found: dict[str, str] = {}
    for place in list_home_places(agent, FileKind.SERVERS, environ) if agent.unread_keys else ():
        keys = _read_document(place.path, "", wanted=tuple(agent.unread_keys))
        found |= {f"{os.path.basename(place.path)}: {key}": agent.unread_keys[key] for key in keys}
    return list(found.items())


def agree_to_server(home: HermesHome, server: AgentServer) -> None:
    """Keep the person's yes to a server as it is now. Raises ConfigError."""
    consents = PluginConsents(home.consent_file)
    consents.enable(server.consent_key, PluginConsent("", server.digest))
    consents.disable(server.refusal_key)


def refuse_server(home: HermesHome, server: AgentServer) -> None:
    """Keep the person's no to a server as it is now. Raises ConfigError."""
    consents = PluginConsents(home.consent_file)
    consents.enable(server.refusal_key, PluginConsent("", server.digest))
    consents.disable(server.consent_key)


def forget_server(home: HermesHome, server: AgentServer) -> None:
    """Forget the person's answer about a server. Raises ConfigError."""
    consents = PluginConsents(home.consent_file)
    consents.disable(server.consent_key)
    consents.disable(server.refusal_key)


def is_agreed_server(home: HermesHome, server: AgentServer) -> bool:
    """Return whether the person has said yes to a server as it is now. Raises ConfigError."""
    return _has_digest(PluginConsents(home.consent_file).list_all(), server.consent_key, server)


def _has_digest(consents: Mapping[str, PluginConsent], key: str, server: AgentServer) -> bool:
    return key in consents and consents[key].digest == server.digest


def has_server_changed(server: AgentServer, environ: Mapping[str, str], folder: str) -> bool:
    """Return whether a server is another one now than the person has said yes to: its definition, or a file of the
    project that it names. It reads these files.
    """
    agent = find_agent(server.agent)
    if agent is None:
        return True
    place = AgentPlace(agent, FileKind.SERVERS, server.file, server.is_project)
    now = next((one for one in _read_servers(place, environ, folder) if one.name == server.name), None)
    return now is None or now.digest != server.digest


def _read_servers(place: AgentPlace, environ: Mapping[str, str], folder: str) -> Iterator[AgentServer]:
    """Yield the servers of a file by name."""
    document = _read_document(place.path, folder)
    convert, tables = _FORMATS[place.agent.name]
    given = {name: table for one in tables(document, folder) for name, table in one.items()}
    for name in sorted(given)[:_MAX_SERVERS]:
        table = given[name]
        if isinstance(table, dict):
            yield _build_server(place, name, table, convert(table), environ, folder)


def _read_document(path: str, folder: str, wanted: Sequence[str] = ("mcpServers", "mcp")) -> Table:
    """Return what can name servers in a JSON or TOML file; empty where it cannot be read."""
    try:
        with open(open_read(path), "rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            return {}
        if path.endswith(".toml"):
            import tomllib

            return tomllib.loads(raw.decode()) if len(raw) <= _MAX_WRITTEN_BYTES else {}
        return _decode_json(raw, folder, wanted)
    except (OSError, RefusedPathError, ValueError, RecursionError):
        return {}


def _decode_json(raw: bytes, folder: str, wanted: Sequence[str]) -> Table:
    """Return the wanted keys of a document; of what it has by project only what is for `folder`: Claude Code keeps its
    history in that file, too.
    """
    try:
        parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        if len(raw) > _MAX_WRITTEN_BYTES:
            raise
        strict = to_strict_json(raw.decode("utf-8-sig")).encode()
        parts = msgspec.json.decode(strict, type=dict[str, msgspec.Raw])
    found: dict[str, object] = {key: msgspec.json.decode(parts[key]) for key in wanted if key in parts}
    if folder and "projects" in parts:
        projects = msgspec.json.decode(parts["projects"], type=dict[str, msgspec.Raw])
        found["projects"] = {folder: msgspec.json.decode(projects[folder])} if folder in projects else {}
    return found


def _build_server(
    place: AgentPlace, name: str, table: Table, made: _Definition, environ: Mapping[str, str], folder: str
) -> AgentServer:
    """Return a server as settings, with its variables filled in where Hermes does not fill them in later."""
    project = folder if place.is_project else ""
    cwd = os.path.join(project or environ.get("HOME", "/"), os.path.expanduser(made.cwd)) if made.cwd else project
    known = {**environ, "CLAUDE_PROJECT_DIR": folder} if folder else environ
    missing: list[str] = []
    words = [_fill_in(word, known, missing) for word in made.command]
    settings = McpServerSettings(
        command=_locate_program(words[0], cwd) if words else "",
        args=tuple(words[1:]),
        env={key: _settle_defaults(value, known) for key, value in made.env.items()},
        cwd=cwd,
        url=_settle_defaults(made.url, known),
        headers={key: _settle_defaults(value, known) for key, value in made.headers.items()},
        timeout=_limit_seconds(made.timeout, 300.0),
        connect_timeout=_limit_seconds(made.connect_timeout, 60.0),
        enabled=made.enabled,
        tools=McpToolSettings(include=tuple(made.include), exclude=tuple(made.exclude)),
    )
    digest, unread = _digest_server(table, words, cwd, project)
    return AgentServer(
        agent=place.agent.name,
        file=place.path,
        name=name,
        is_project=place.is_project,
        settings=settings,
        digest=digest,
        variables=_list_variables(settings),
        problem=made.problem or _find_problem(settings, missing, unread),
        left=made.left,
    )


def _list_variables(settings: McpServerSettings) -> tuple[str, ...]:
    """Return the variables whose values a server is given."""
    texts = (settings.url, *settings.env.values(), *settings.headers.values())
    return tuple(sorted({match[1] for text in texts for match in _REFERENCE.finditer(text)}))


def _find_problem(settings: McpServerSettings, missing: Sequence[str], unread: str) -> str:
    """Return why a server cannot be used; empty where it can."""
    if missing:
        return N_("it names the variable {name}, which is not set", name=missing[0])
    if bool(settings.command) == bool(settings.url):
        return N_("it names neither a program nor an address, or both")
    return N_("the file {file} that it names is too large", file=unread) if unread else ""


def _limit_seconds(value: float, usual: float) -> float:
    return value if 0 < value < 86_400 else usual


def _locate_program(word: str, cwd: str) -> str:
    """Return a program as it is started: a path with a folder in it is one below the server's folder."""
    is_relative = "/" in word and not word.startswith(("/", "~"))
    return os.path.normpath(os.path.join(cwd or "/", word)) if is_relative else word


def _fill_in(text: str, environ: Mapping[str, str], missing: list[str]) -> str:
    """Return a text with its variables filled in; those that are not set are added to `missing`."""

    def find_value(match: re.Match[str]) -> str:
        value = environ.get(match[1]) or match[2]
        if value is None:
            missing.append(match[1])
        return value or ""

    return _REFERENCE.sub(find_value, text)


def _settle_defaults(text: str, environ: Mapping[str, str]) -> str:
    """Return a text whose `${NAME:-DEFAULT}` are `${NAME}` where that is set, and the default where it is not."""

    def settle(match: re.Match[str]) -> str:
        if match[1] == "CLAUDE_PROJECT_DIR" and match[1] in environ:
            return environ[match[1]]
        return match[0] if match[2] is None else f"${{{match[1]}}}" if environ.get(match[1]) else match[2]

    return _REFERENCE.sub(settle, text)


def _digest_server(table: Table, words: Sequence[str], cwd: str, project: str) -> tuple[str, str]:
    """Return the digest of a definition and of the regular files of the project that its words name, and a file that
    is too large for one.
    """
    digest = hashlib.sha256(to_json({"definition": table, "folder": project}, is_sorted=True))
    real = os.path.realpath(project) if project else ""
    for word in words if real else ():
        path = os.path.realpath(os.path.join(cwd, os.path.expanduser(word)))
        if not path.startswith(real.rstrip("/") + "/"):
            continue
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                continue
            if status.st_size > _MAX_NAMED_BYTES:
                return digest.hexdigest(), word
            with open(open_read(path), "rb") as file:
                content = file.read()
        except (OSError, RefusedPathError, ValueError):
            continue
        digest.update(b"\0" + path.encode("utf-8", "surrogateescape") + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest(), ""


def _get_text(table: Table, name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) else ""


def _get_texts(table: Table, name: str) -> list[str]:
    value = table.get(name)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _get_table(table: Table, name: str) -> dict[str, object]:
    value = table.get(name)
    return value if isinstance(value, dict) else {}


def _get_variables(table: Table, name: str) -> dict[str, str]:
    """Return a table of texts; numbers count as texts, as they do in an environment."""
    return {
        key: value if isinstance(value, str) else str(value)
        for key, value in _get_table(table, name).items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }


def _get_seconds(table: Table, name: str, unit: float = 1.0) -> float:
    value = table.get(name)
    return value * unit if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _list_left(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if table.get(name))


def _convert_claude(table: Table) -> _Definition:
    kind = _get_text(table, "type").lower().replace("_", "-")
    problems = {"ws": N_("WebSocket is not spoken"), "sdk": N_("it lives in that program")}
    problem = problems.get(kind, "")
    if table.get("headersHelper"):
        problem = N_("a program of its own makes its header fields (headersHelper)")
    url = _get_text(table, "url")
    return _Definition(
        command=[_get_text(table, "command"), *_get_texts(table, "args")] if not url else (),
        url=url,
        env=_get_variables(table, "env") if not url else {},
        headers=_get_variables(table, "headers"),
        cwd=_get_text(table, "cwd"),
        timeout=_get_seconds(table, "timeout", 0.001),
        problem=problem,
        left=_list_left(table, ("oauth", "alwaysLoad")),
    )


def _convert_codex(table: Table) -> _Definition:
    url = _get_text(table, "url")
    where = _get_text(table, "environment_id") or _get_text(table, "experimental_environment")
    return _Definition(
        command=[_get_text(table, "command"), *_get_texts(table, "args")] if not url else (),
        url=url,
        env=_get_codex_variables(table) if not url else {},
        headers=_get_codex_headers(table) if url else {},
        cwd=_get_text(table, "cwd"),
        enabled=table.get("enabled") is not False,
        timeout=_get_seconds(table, "tool_timeout_sec"),
        connect_timeout=_get_seconds(table, "startup_timeout_sec") or _get_seconds(table, "startup_timeout_ms", 0.001),
        include=_get_texts(table, "enabled_tools"),
        exclude=_get_texts(table, "disabled_tools"),
        problem=N_("it runs elsewhere than on this machine") if where not in ("", "local") else "",
        left=_list_left(table, ("oauth", "scopes", "default_tools_approval_mode", "tools", "required")),
    )


def _get_codex_variables(table: Table) -> dict[str, str]:
    """Return the variables of a program: those that it is handed on, and those that have a value."""
    given = table.get("env_vars")
    names = [one.get("name") if isinstance(one, dict) else one for one in given] if isinstance(given, list) else []
    return {name: f"${{{name}:-}}" for name in names if isinstance(name, str)} | _get_variables(table, "env")


def _get_codex_headers(table: Table) -> dict[str, str]:
    token = _get_text(table, "bearer_token_env_var")
    headers = {key: f"${{{name}}}" for key, name in _get_variables(table, "env_http_headers").items()}
    headers |= _get_variables(table, "http_headers")
    return headers | ({"Authorization": f"Bearer ${{{token}}}"} if token else {})


def _convert_opencode(table: Table) -> _Definition:
    texts = [*_get_texts(table, "command"), _get_text(table, "url")]
    texts += [*_get_variables(table, "environment").values(), *_get_variables(table, "headers").values()]
    has_file = any(match[1] == "file" for text in texts for match in _OPENCODE_REFERENCE.finditer(text))

    def translate(text: str) -> str:
        return _OPENCODE_REFERENCE.sub(lambda match: f"${{{match[2].strip()}:-}}", text)

    url = translate(_get_text(table, "url"))
    timeout = _get_seconds(table, "timeout", 0.001)
    return _Definition(
        command=[*map(translate, _get_texts(table, "command"))] if not url else (),
        url=url,
        env={key: translate(value) for key, value in _get_variables(table, "environment").items()} if not url else {},
        headers={key: translate(value) for key, value in _get_variables(table, "headers").items()} if url else {},
        cwd=_get_text(table, "cwd"),
        enabled=table.get("enabled") is not False and table.get("disabled") is not True,
        connect_timeout=timeout,
        problem=N_("it takes a value from a file, by `file:`") if has_file else "",
        left=_list_left(table, ("oauth",)),
    )


def _list_claude_tables(document: Table, folder: str) -> list[dict[str, object]]:
    """Return the tables of servers: those of all projects, and those that the person has for this one."""
    project = _get_table(_get_table(document, "projects"), folder) if folder else {}
    servers = _get_table(project, "mcpServers").items()
    # Those of a project start in its folder, so that relative words of theirs mean its files.
    mine: dict[str, object] = {name: {"cwd": folder, **one} for name, one in servers if isinstance(one, dict)}
    return [_get_table(document, "mcpServers"), mine]


def _list_codex_tables(document: Table, _folder: str) -> list[dict[str, object]]:
    return [_get_table(document, "mcp_servers")]


def _list_opencode_tables(document: Table, _folder: str) -> list[dict[str, object]]:
    """Return the tables of servers: beside each other in version 1, below `servers` in version 2."""
    found = _get_table(document, "mcp")
    nested = _get_table(found, "servers")
    plain: dict[str, object] = {
        name: one for name, one in found.items() if isinstance(one, dict) and ("type" in one or "url" in one)
    }
    return [plain, nested if "type" not in nested else {}]


_FORMATS: Mapping[str, tuple[Callable[[Table], _Definition], Callable[[Table, str], list[dict[str, object]]]]] = {
    "claude": (_convert_claude, _list_claude_tables),
    "codex": (_convert_codex, _list_codex_tables),
    "opencode": (_convert_opencode, _list_opencode_tables),
}
"""How the servers of each agent are written: one definition, and the tables of a document that hold them."""
