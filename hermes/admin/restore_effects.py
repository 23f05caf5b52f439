"""What a backup includes that starts a program, lets somebody in, or changes what is asked.

A backup may be anybody's. Before the yes a person is told what differs from their home in this. Only settings that are
known to start and open nothing are left out, so that a setting of tomorrow is named without a word here.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw
from msgspec import structs

from hermes.config.auth_file import AuthEntry, read_entries
from hermes.config.environment import parse_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import parse_document, select_known_keys
from hermes.config.trusted_folders import read_trusted_folders
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_, tr
from hermes.safety.environment import is_secret_variable
from hermes.safety.secrets.redactor import Redactor

_HARMLESS_SETTINGS = frozenset(
    {
        "context_file_max_chars", "tool_output", "mcp_discovery_timeout", "prompt_caching",
        "tool_loop_guardrails", "compression", "context", "checkpoints", "display",
    }
)  # fmt: skip
"""Sections about how much, how long and how it looks, not about what runs, who may, or what it may cost."""
ACTING_ROWS = {
    "job": "SELECT name || ': ' || schedule || ' (' || zone || ') ' || CAST(spec AS TEXT) FROM jobs "
    "WHERE state <> 'done' OR id IN (SELECT job_id FROM job_instants WHERE state IN ('due', 'claimed'))",
    "output of a job to be sent": "SELECT name || ': ' || output || ' ' || CAST(spec AS TEXT) FROM job_instants "
    "JOIN jobs ON jobs.id = job_id WHERE delivery = 'owed'",
    "person": "SELECT person_id || ' (' || role || '): ' || platform || ' ' || account FROM people "
    "JOIN handles ON handles.person_id = people.id",
    "pairing code": "SELECT role || ' ' || platform || ' ' || name FROM pairing_codes",
    "goal": "SELECT text FROM goals WHERE state = 'active'",
    "unfinished turn": "SELECT text FROM turns WHERE ended_at IS NULL",
    "unfinished call": "SELECT tool || ': ' || arguments FROM effects JOIN turns ON turns.id = turn_id "
    "WHERE turns.ended_at IS NULL AND done_at IS NULL",
    "answered question": "SELECT scope || ' ' || tool || ': ' || subject FROM approvals WHERE state = 'answered'",
    "unfinished sub-agent": "SELECT CAST(spec AS TEXT) FROM sub_agents "
    "WHERE ended_at IS NULL OR delivery IN ('inbox', 'person')",
    "waiting message": "SELECT CAST(body AS TEXT) FROM inbox",
    "unread message": "SELECT platform || ': ' || CAST(body AS TEXT) FROM arrivals WHERE state IN ('new', 'begun')",
    "unfinished run": "SELECT owner || ': ' || CAST(wish AS TEXT) FROM api_runs WHERE ended_at IS NULL",
    "unfinished change": "SELECT kind || ' ' || name || ': ' || coalesce(CAST(after AS TEXT), '') FROM revisions "
    "WHERE state = 'applying'",
    "unsent message": "SELECT platform || ': ' || CAST(body AS TEXT) FROM deliveries "
    "WHERE state IN ('open', 'pending', 'attempting')",
    "background session": "SELECT CAST(place AS TEXT) || ': ' || prompt FROM background_sessions",
}
"""The rows of the database that act by themselves, or let somebody in, by what they are."""
PASSIVE_TABLES = frozenset(
    {
        "meta", "sessions", "epochs", "messages", "changes", "compactions", "undos", "spend",
        "checkpoints", "checkpoint_files", "checkpoint_folders", "key_cooldowns", "key_uses", "usefulness", "audit",
        "marked_files", "chat_cursors", "chat_sessions", "pairing_failures", "api_sessions", "api_responses",
        "todo_lists", "pairing_requests", "pairing_questions", "direct_chats", "code_runs", "chat_voices",
    }
)  # fmt: skip
"""Tables whose rows do nothing before a person, or a row of those above, goes on with them."""
_PROGRAMS = ("scripts/", "commands/", "plugins/")
"""Folders of what a session, a job or a person runs by name."""
_INSTRUCTIONS = ("SOUL.md", "memories/", "memory/")
"""Files that a model is told in every session."""

_Listing = Mapping[str, object]
"""Lines, each with what it stands for: a line is news where that differs, too."""


def list_restore_effects(incoming: HermesHome, home: HermesHome, hashes: Mapping[str, str]) -> list[str]:
    """Return a line for all of a backup that starts or opens something and is not so in the home now.

    `incoming` holds the backup's settings, keys, trust and database; `hashes` are those of all its files by name.
    """
    found: list[str] = []
    for name, list_lines in _LISTINGS.items():
        if name not in hashes:
            continue
        try:
            given = list_lines(incoming)
        except ConfigError as error:
            found.append(str(error))
            continue
        known = _list_current(list_lines, home)
        found += [line for line, value in given.items() if line not in known or known[line] != value]
        if list_lines is _list_settings:
            found += [N_("removed: {what}", what=line) for line in known if line not in given]
    return found + _list_instructions(home, hashes)


def _list_current(list_lines: Callable[[HermesHome], _Listing], home: HermesHome) -> _Listing:
    try:
        return list_lines(home)
    except ConfigError:
        return {}  # a damaged file is what a restore is for


def _list_settings(home: HermesHome) -> _Listing:
    document = select_known_keys(parse_document(_read(home.config_file), home.config_file))
    kept = {name: value for name, value in document.items() if name not in _HARMLESS_SETTINGS}
    redact = Redactor().redact
    found: dict[str, object] = {}
    for key, value in _iter_leaves(kept, ""):
        words = value if isinstance(value, str) else to_json(value).decode()
        name = key.rpartition(".")[2]
        hidden = is_secret_variable(name) and not name.endswith("_endpoint")  # it says where tokens are sent
        shown = tr("(set; not shown)") if hidden else redact(words)  # of a command only the key in it is left out
        found[N_("setting {key} = {value}", key=key, value=shown)] = words
    return found


def _iter_leaves(value: object, key: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _iter_leaves(inner, f"{key}.{name}" if key else str(name))
    elif key:
        yield key, value


def _list_variables(home: HermesHome) -> _Listing:
    values = parse_dotenv(_read(home.env_file).decode("utf-8", "replace"))
    return {N_("variable {name}", name=name): value for name, value in values.items()}


def _list_keys(home: HermesHome) -> _Listing:
    return {
        _describe_key(provider, entry): structs.replace(entry, id="")
        for provider, entries in read_entries(home).items()
        for entry in entries
    }


def _describe_key(provider: str, entry: AuthEntry) -> str:
    if entry.command:
        return N_("key of {provider} by the command: {command}", provider=provider, command=entry.command)
    return N_("key of {provider}: {label}", provider=provider, label=f"{entry.kind} {entry.label}".strip())


def _list_trust(home: HermesHome) -> _Listing:
    return {N_("trusted folder {folder}", folder=one): one for one in read_trusted_folders(home.trust_file)}


def _list_rows(home: HermesHome) -> _Listing:
    """List the rows that act by themselves; none of a database that is missing, damaged, or older than their table."""
    found: dict[str, object] = {}
    redact = Redactor().redact
    with contextlib.suppress(apsw.Error), contextlib.closing(_open_read_only(home.database)) as connection:
        for kind, query in ACTING_ROWS.items():
            with contextlib.suppress(apsw.SQLError):
                for (text,) in connection.execute(query):
                    found[f"{kind} {redact(str(text))}"] = text
    return found


def _open_read_only(database: Path) -> apsw.Connection:
    return apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)


def _list_routes(home: HermesHome) -> _Listing:
    from hermes.admin.webhooks import WebhookRouteFile

    return {
        N_("webhook {name}, with the rights of {role}", name=name, role=route.role): to_json(route)
        for name, route in WebhookRouteFile(home).read_routes().items()
    }


def _list_enabled_code(home: HermesHome) -> _Listing:
    from hermes.config.plugin_consents import PluginConsents

    enabled = PluginConsents(home.consent_file).list_all()
    return {N_("other people's code is enabled: {name}", name=name): to_json(one) for name, one in enabled.items()}


_LISTINGS: dict[str, Callable[[HermesHome], _Listing]] = {
    "config.yaml": _list_settings,
    ".env": _list_variables,
    "auth.json": _list_keys,
    "trust.json": _list_trust,
    "plugins.json": _list_enabled_code,
    "webhooks.json": _list_routes,
    "hermes.db": _list_rows,
}


def _list_instructions(home: HermesHome, hashes: Mapping[str, str]) -> list[str]:
    """Return a line for each skill, and each file of instructions, of which the home does not hold the same."""
    changed = sorted(
        name
        for name, digest in hashes.items()
        if name.startswith(("skills/", *_PROGRAMS, *_INSTRUCTIONS))
        and hashlib.sha256(_read(home.root / name)).hexdigest() != digest
    )
    skills = dict.fromkeys(
        one.split("/")[1] if one.count("/") > 1 else one for one in changed if one.startswith("skills/")
    )
    told = [N_("instructions in {name}", name=one) for one in changed if one.startswith(_INSTRUCTIONS)]
    programs = [N_("script {name}", name=one) for one in changed if one.startswith(_PROGRAMS)]
    return [*told, *programs, *(N_("skill {name}", name=one) for one in skills)]


def _read(file: Path) -> bytes:
    """Return a file's content; nothing where it cannot be read."""
    with contextlib.suppress(OSError):
        return file.read_bytes()
    return b""
