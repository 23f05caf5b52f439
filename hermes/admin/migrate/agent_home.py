"""A home of hermes-agent: `state.db`, `config.yaml`, `.env`, `SOUL.md`, `memories/`, `skills/`.

The layout is that of its documentation (developer guide, Session Storage). Its database is opened read-only by SQLite
and copied at once: everything is read from the copy.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import apsw

from hermes.admin.migrate.foreign_home import (
    ForeignHome,
    HomeContents,
    SkippedItem,
    check_session_id,
    convert_messages,
    decode_json,
    find_skill_folders,
    is_link,
    read_text_below,
    skip_links,
)
from hermes.config.environment import parse_dotenv
from hermes.config.load import parse_document, select_known_keys
from hermes.config.settings import Settings
from hermes.config.validation import find_type_faults
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, StoreError
from hermes.core.usage import Usage
from hermes.i18n.messages import N_, tr, tr_plural
from hermes.memory.files import split_entries
from hermes.providers.records import ALIASES, KEY_VARIABLES, list_provider_names
from hermes.store.imported_sessions import ImportedSession
from hermes.store.records import NewSession
from hermes.util.text import to_one_line

SOURCE = "hermes-agent"
_IMPORTED_SETTINGS = re.compile(
    r"model\.(?:default|provider|base_url|context_length|max_tokens|temperature)"
    r"|agent\.(?:max_turns|api_max_retries|tool_delay|reasoning_effort|personality|image_input_mode)"
    r"|personalities(?:\..*)?|display\..*|compression\..*|prompt_caching\..*|credential_pool_strategies(?:\..*)?"
    r"|memory\.(?:enabled|user_profile_enabled|write_approval|memory_char_limit|user_char_limit|nudge_interval)"
    r"|skills\.(?:write_approval|creation_nudge_interval|disabled)"
    r"|context_file_max_chars|tool_output\.max_chars|goals\.max_turns|web\.(?:search|extract)_backend|image_gen\.(?:provider|model)|mcp_servers\..*",
    re.DOTALL,
)
"""The settings that are imported. All others may loosen what holds the agent, or lead elsewhere."""
_SERVER_KEYS = ("command", "args", "env", "cwd", "url", "headers", "timeout", "connect_timeout", "tools")
_OTHER_VARIABLES = re.compile(
    r"CUSTOM_API_KEY|BRAVE_\w*KEY|(?:TAVILY|EXA|FIRECRAWL|PARALLEL)_API_KEY|FAL_KEY|HASS_TOKEN"
)
_ADDRESS = re.compile(r"\w+_(?:URL|HOST|ENDPOINT)|\w*PROXY", re.IGNORECASE)
_MESSAGE_COLUMNS = ("id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "reasoning")


class AgentHome(ForeignHome):
    """A home of hermes-agent; `same` says that Hermes uses the same folder."""

    title = "hermes-agent"
    source = SOURCE

    def __init__(self, root: Path, *, same: bool) -> None:
        self.root = root
        self.same = same

    def read_contents(self) -> HomeContents:
        """Read the contents of the home; in a shared home only the sessions need importing."""
        skipped: list[SkippedItem] = []
        count = messages = size = 0
        file = self.root / "state.db"
        try:
            with _open_source(file) as database:
                count, messages = _count_messages(database)
                size = file.stat().st_size
        except StoreError as error:
            skipped.append(SkippedItem("state.db", str(error)))
        if self.same:
            what = tr("config.yaml, .env, SOUL.md, memories and skills")
            skipped.append(SkippedItem(what, tr("they are in this folder already and are used unchanged")))
            return HomeContents(
                title=self.title,
                root=self.root,
                sessions=count,
                messages=messages,
                bytes=size,
                skipped=tuple(skipped),
            )
        skills, own = _find_own_skills(self.root, skipped)
        if own:
            skipped.append(SkippedItem(tr_plural("{n} skill", "{n} skills", own), tr("they came with that program")))
        return HomeContents(
            title=self.title,
            root=self.root,
            settings=self._read_settings(skipped),
            env=self._read_env(skipped),
            identity=read_text_below(self.root, "SOUL.md", skipped),
            memory=split_entries(read_text_below(self.root, "memories/MEMORY.md", skipped)),
            user=split_entries(read_text_below(self.root, "memories/USER.md", skipped)),
            skills=tuple(skills),
            sessions=count,
            messages=messages,
            bytes=size,
            skipped=(*skipped, *self._list_others()),
        )

    def iterate_sessions(self) -> Iterator[ImportedSession]:
        """Yield all sessions with messages, oldest first."""
        with _open_copy(self.root / "state.db") as database:
            known = _list_columns(database, "sessions")
            rows = list(database.execute("SELECT * FROM sessions ORDER BY started_at, id")) if known else []
            for row in rows:
                old = _convert_session(database, dict(zip(known, row, strict=True)))
                if old is not None:
                    yield old

    def _read_settings(self, skipped: list[SkippedItem]) -> dict[tuple[str, ...], object]:
        file = self.root / "config.yaml"
        try:
            document = parse_document(read_text_below(self.root, file.name, skipped).encode(), file)
        except ConfigError as error:
            skipped.append(SkippedItem("config.yaml", str(error)))
            return {}
        known = select_known_keys(document)
        strange = [name for name in document if name not in Settings.__struct_fields__]
        if strange:
            skipped.append(SkippedItem("config.yaml: " + ", ".join(strange), tr("this version does not act on it")))
        for fault in find_type_faults(known):
            skipped.append(SkippedItem(f"config.yaml: {fault.key}", fault.message))
            _remove_step(known, re.split(r"[.\[]", fault.key))
        servers = known.pop("mcp_servers", None)
        found = dict(_iterate_leaves((), known, Settings)) | _convert_servers(servers)
        _drop_unknown_provider(found, skipped)
        taken = {path: value for path, value in found.items() if _IMPORTED_SETTINGS.fullmatch(".".join(path))}
        if len(taken) < len(found):
            names = ", ".join(".".join(path) for path in found if path not in taken)
            skipped.append(
                SkippedItem(
                    "config.yaml: " + names, tr("permissions and destinations are not taken over: set them here again")
                )
            )
        return taken

    def _read_env(self, skipped: list[SkippedItem]) -> dict[str, str]:
        found = parse_dotenv(read_text_below(self.root, ".env", skipped))
        addresses = [name for name in found if _ADDRESS.fullmatch(name)]
        if addresses:
            names = ", ".join(addresses)
            skipped.append(
                SkippedItem(f".env: {names}", tr("an address decides where keys and messages go: enter it again"))
            )
        used = {name: value for name, value in found.items() if name not in addresses and _is_used(name)}
        others = len(found) - len(used) - len(addresses)
        if others:
            what = tr_plural("{n} variable of .env", "{n} variables of .env", others)
            skipped.append(SkippedItem(what, tr("Hermes does not read them")))
        return used

    def _list_others(self) -> Iterator[SkippedItem]:
        if (self.root / "sessions").is_dir():
            yield SkippedItem("sessions/", tr("conversations are in state.db"))
        if (self.root / "auth.json").exists():
            yield SkippedItem("auth.json", tr("sign-ins belong to that program; add keys with `hermes auth add`"))
        if (self.root / "cron").is_dir():
            yield SkippedItem("cron/", tr("jobs are not taken over: create them again with `hermes cron add`"))


@contextlib.contextmanager
def _open_source(file: Path) -> Iterator[apsw.Connection]:
    """Open the database for reading. Raises StoreError.

    With a log beside it another process may be writing: then SQLite's own locks are used. Without one nothing but the
    file itself is touched.
    """
    if not file.exists():
        raise StoreError(N_("There is no {file}.", file=file))
    if any(is_link(file.parent, Path(f"{file}{end}")) for end in ("", "-wal", "-shm")):
        raise StoreError(N_("{file} is a link, and links are not followed.", file=file))
    source: apsw.Connection | None = None
    try:
        quiet = "" if os.path.exists(f"{file}-wal") else "&immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        source = apsw.Connection(f"file:{quote(str(file))}?mode=ro{quiet}", flags=flags)
        source.set_busy_timeout(5_000)
        yield source
    except apsw.Error as error:
        raise StoreError(N_("{file} cannot be read: {why}.", file=file, why=to_one_line(str(error)))) from None
    finally:
        if source is not None:
            source.close()


@contextlib.contextmanager
def _open_copy(file: Path) -> Iterator[apsw.Connection]:
    """Open a copy of the database in a temporary folder that is deleted at the end. Raises StoreError."""
    folder = tempfile.mkdtemp(prefix="hermes-copy-")
    copy = apsw.Connection(os.path.join(folder, "copy.db"))
    try:
        with _open_source(file) as source, copy.backup("main", source, "main") as backup:
            backup.step(-1)
        if _list_columns(copy, "messages"):
            copy.execute("CREATE INDEX IF NOT EXISTS by_session ON messages (session_id)").fetchall()
        yield copy
    finally:
        copy.close()
        shutil.rmtree(folder, ignore_errors=True)


def _list_columns(database: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]  # a name of our own


def _count_messages(database: apsw.Connection) -> tuple[int, int]:
    spoken = "role IN ('user', 'assistant', 'tool')"
    row = database.execute(f"SELECT count(DISTINCT session_id), count(*) FROM messages WHERE {spoken}").fetchone()  # noqa: S608
    return (int(row[0]), int(row[1])) if row else (0, 0)


def _convert_session(database: apsw.Connection, row: Mapping[str, object]) -> ImportedSession | None:
    name = check_session_id(_column_text(row, "id"))
    began = _to_timestamp(row.get("started_at"))
    messages = convert_messages(list(_read_messages(database, row.get("id"), began)))
    if not name or not messages:
        return None
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return ImportedSession(
        session=NewSession(
            id=name,
            source=f"{SOURCE}/{to_one_line(_column_text(row, 'source') or 'cli', 40)}",
            title=to_one_line(_column_text(row, "title"), 120),
            model=_column_text(row, "model"),
            cwd=_column_text(row, "cwd"),
        ),
        began_at=began or messages[0].at,
        ended_at=_to_timestamp(row.get("ended_at")) or messages[-1].at,
        usage=Usage(*(_to_integer(row.get(column)) for column in tokens)).clamp_counts(),
        messages=messages,
    )


def _read_messages(database: apsw.Connection, session_id: object, began: float) -> Iterator[tuple[float, Plain]]:
    """Yield the active messages of a session with their times."""
    columns = _list_columns(database, "messages")
    wanted = [column for column in _MESSAGE_COLUMNS if column in columns]
    active = " AND active = 1" if "active" in columns else ""
    query = f"SELECT {', '.join(wanted)} FROM messages WHERE session_id = ?{active} ORDER BY id"  # noqa: S608 - names of our own
    for values in database.execute(query, (session_id,)):
        row = dict(zip(wanted, values, strict=True))
        if row.get("role") in ("user", "assistant", "tool"):
            yield _to_timestamp(row.get("timestamp")) or began, _to_chat_message(row)


def _to_chat_message(row: Mapping[str, object]) -> Plain:
    """Convert a row to a chat message; content that is a list is stored as JSON."""
    content = row.get("content")
    text = content if isinstance(content, str) else ""
    parts = decode_json(text) if text.startswith('[{"') else None
    message: Plain = {"role": row.get("role"), "content": parts if isinstance(parts, list) else text}
    calls = decode_json(row.get("tool_calls"))
    if isinstance(calls, list):
        message["tool_calls"] = calls
    if row.get("tool_call_id"):
        message["tool_call_id"] = row["tool_call_id"]
        message["content"] = text
    if row.get("reasoning"):
        message["reasoning"] = row["reasoning"]
    return message


def _convert_servers(servers: object) -> dict[tuple[str, ...], object]:
    """Convert MCP servers: each is off until the person switches it on, and each tool asks first."""
    return {
        ("mcp_servers", str(name)): {key: server[key] for key in _SERVER_KEYS if key in server}
        | {"enabled": False, "trust": "ask"}
        for name, server in (servers.items() if isinstance(servers, dict) else ())
        if isinstance(server, dict)
    }


def _drop_unknown_provider(found: dict[tuple[str, ...], object], skipped: list[SkippedItem]) -> None:
    """Remove the whole model when its provider is unknown here."""
    named = str(found.get(("model", "provider")) or "")
    if not named or ALIASES.get(named.lower(), named.lower()) in list_provider_names():
        return
    model = to_one_line(str(found.get(("model", "default")) or named), 80)
    skipped.append(SkippedItem(tr("the model {name}", name=model), tr("its provider is not known here")))
    for path in [path for path in found if path[0] == "model"]:
        del found[path]


def _find_own_skills(home: Path, skipped: list[SkippedItem]) -> tuple[list[Path], int]:
    """Return the person's own skills, and how many came with the program (its list names them)."""
    manifest = read_text_below(home, "skills/.bundled_manifest", skipped)
    bundled = {line.partition(":")[0].strip() for line in manifest.splitlines()}
    folders = skip_links(home, find_skill_folders(home / "skills"), skipped)
    own = [folder for folder in folders if folder.name not in bundled]
    return own, len(folders) - len(own)


def _iterate_leaves(path: tuple[str, ...], value: object, typed: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the single settings of a document that have a type here, with lists and named entries whole."""
    from hermes.config.keys import type_members

    below = type_members(typed)
    if not isinstance(value, dict) or below is None or "*" in below or not value:
        if value not in (None, "", {}, []):
            yield path, value
        return
    for name, inner in value.items():
        if name in below:
            yield from _iterate_leaves((*path, name), inner, below[name])


def _remove_step(document: dict[str, object], steps: list[str]) -> None:
    """Remove what is at a place, or as much above it as is a mapping."""
    inner: object = document
    for step in steps[:-1]:
        below = inner.get(step) if isinstance(inner, dict) else None
        if not isinstance(below, dict):
            break
        inner = below
    else:
        step = steps[-1]
    if isinstance(inner, dict):
        inner.pop(step, None)


def _is_used(name: str) -> bool:
    base = re.sub(r"_\d+$|S$", "", name)
    return (
        any(base in names or name in names for names in KEY_VARIABLES.values())
        or _OTHER_VARIABLES.fullmatch(name) is not None
    )


def _to_timestamp(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else 0.0


def _to_integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _column_text(row: Mapping[str, object], name: str) -> str:
    return str(row.get(name) or "")
