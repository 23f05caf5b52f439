"""A home of hermes-agent: `state.db`, `config.yaml`, `.env`, `SOUL.md`, `memories/`, `skills/`.

The layout is that of its documentation (developer guide, Session Storage). Its database is opened by SQLite alone, for
reading, and copied at once: everything is read from the copy.
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

from hermes.app.homes.old import (
    Holdings,
    Left,
    OldHome,
    decoded,
    read_text,
    skill_folders,
    sound_id,
    typed_messages,
)
from hermes.app.openai_form import Plain
from hermes.config.environment import parse_dotenv
from hermes.config.faults import type_faults
from hermes.config.load import known_part, parse_document
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, StoreError
from hermes.core.usage import Usage
from hermes.memory.files import parted
from hermes.providers.records import KEYS
from hermes.store.rows import NewSession
from hermes.store.taken import OldSession
from hermes.util.say import phrase, say, say_many
from hermes.util.text import one_line

SOURCE = "hermes-agent"
_NOT_TAKEN = ("approvals", "command_allowlist", "security", "terminal", "toolsets", "disabled_toolsets")
"""What may be done without a question, and what holds commands back, is said anew; the tool sets are others."""
_VARIABLES = re.compile(
    r"(?:OPENAI|OLLAMA|OPENROUTER|ANTHROPIC|CUSTOM)_BASE_URL|CUSTOM_API_KEY|SEARXNG_URL|BRAVE_\w*KEY|TAVILY_API_KEY"
)
_WANTED = ("id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "reasoning")


class AgentHome(OldHome):
    """One of them; `same` says that Hermes lives in it too."""

    title = "hermes-agent"

    def __init__(self, root: Path, *, same: bool) -> None:
        self.root = root
        self.same = same

    def holdings(self) -> Holdings:
        """What is in it; where Hermes lives too, only the sessions have to be taken."""
        left: list[Left] = []
        count = messages = 0
        file = self.root / "state.db"
        try:
            with _source(file) as database:
                count, messages = _counted(database)
        except StoreError as error:
            left.append(Left("state.db", str(error)))
        size = file.stat().st_size if file.exists() else 0
        if self.same:
            what = say("config.yaml, .env, SOUL.md, memories and skills")
            left.append(Left(what, say("they stand in this folder and are used as they are")))
            return Holdings(
                title=self.title,
                root=self.root,
                sessions=count,
                messages=messages,
                bytes=size,
                left=tuple(left),
            )
        skills, own = _skills(self.root / "skills")
        if own:
            left.append(Left(say_many("{n} skill", "{n} skills", own), say("they came with that program")))
        memories = self.root / "memories"
        return Holdings(
            title=self.title,
            root=self.root,
            settings=self._settings(left),
            env=self._env(left),
            identity=read_text(self.root / "SOUL.md"),
            memory=parted(read_text(memories / "MEMORY.md")),
            user=parted(read_text(memories / "USER.md")),
            skills=tuple(skills),
            sessions=count,
            messages=messages,
            bytes=size,
            left=(*left, *self._others()),
        )

    def sessions(self) -> Iterator[OldSession]:
        """All sessions in which something was said, oldest first."""
        with _copied(self.root / "state.db") as database:
            known = _columns(database, "sessions")
            rows = list(database.execute("SELECT * FROM sessions ORDER BY started_at, id")) if known else []
            for row in rows:
                old = _session(database, dict(zip(known, row, strict=True)))
                if old is not None:
                    yield old

    def _settings(self, left: list[Left]) -> dict[tuple[str, ...], object]:
        file = self.root / "config.yaml"
        try:
            document = parse_document(read_text(file).encode(), file)
        except ConfigError as error:
            left.append(Left("config.yaml", str(error)))
            return {}
        known = known_part(document)
        held_back = [name for name in _NOT_TAKEN if known.pop(name, None) is not None]
        if held_back:
            left.append(Left("config.yaml: " + ", ".join(held_back), say("what may be done is said anew here")))
        strange = [name for name in document if name not in Settings.__struct_fields__]
        if strange:
            left.append(Left("config.yaml: " + ", ".join(strange), say("this version does not act on it")))
        for fault in type_faults(known):
            left.append(Left(f"config.yaml: {fault.key}", fault.message))
            _drop(known, re.split(r"[.\[]", fault.key))
        return dict(_leaves((), known, Settings))

    def _env(self, left: list[Left]) -> dict[str, str]:
        found = parse_dotenv(read_text(self.root / ".env"))
        used = {name: value for name, value in found.items() if _is_used(name)}
        if len(found) > len(used):
            what = say_many("{n} variable of .env", "{n} variables of .env", len(found) - len(used))
            left.append(Left(what, say("Hermes does not read them")))
        return used

    def _others(self) -> Iterator[Left]:
        if (self.root / "sessions").is_dir():
            yield Left("sessions/", say("what was said stands in state.db"))
        if (self.root / "auth.json").exists():
            yield Left("auth.json", say("sign-ins belong to that program; add keys with `hermes auth add`"))
        if (self.root / "cron").is_dir():
            yield Left("cron/", say("this version has no jobs yet"))


@contextlib.contextmanager
def _source(file: Path) -> Iterator[apsw.Connection]:
    """The database, opened for reading. Raises StoreError.

    With a log beside it another process may be writing: then SQLite's own locks are used. Without one nothing but the
    file itself is touched.
    """
    if not file.exists():
        raise StoreError(phrase("There is no {file}.", file=file))
    source: apsw.Connection | None = None
    try:
        quiet = "" if os.path.exists(f"{file}-wal") else "&immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        source = apsw.Connection(f"file:{quote(str(file))}?mode=ro{quiet}", flags=flags)
        source.set_busy_timeout(5_000)
        yield source
    except apsw.Error as error:
        raise StoreError(phrase("{file} cannot be read: {why}.", file=file, why=one_line(str(error)))) from None
    finally:
        if source is not None:
            source.close()


@contextlib.contextmanager
def _copied(file: Path) -> Iterator[apsw.Connection]:
    """A copy of the database in a folder of its own, gone at the end. Raises StoreError."""
    folder = tempfile.mkdtemp(prefix="hermes-copy-")
    copy = apsw.Connection(os.path.join(folder, "copy.db"))
    try:
        with _source(file) as source, copy.backup("main", source, "main") as backup:
            backup.step(-1)
        if _columns(copy, "messages"):
            copy.execute("CREATE INDEX IF NOT EXISTS by_session ON messages (session_id)").fetchall()
        yield copy
    finally:
        copy.close()
        shutil.rmtree(folder, ignore_errors=True)


def _columns(database: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]  # a name of our own


def _counted(database: apsw.Connection) -> tuple[int, int]:
    spoken = "role IN ('user', 'assistant', 'tool')"
    row = database.execute(f"SELECT count(DISTINCT session_id), count(*) FROM messages WHERE {spoken}").fetchone()  # noqa: S608
    return (int(row[0]), int(row[1])) if row else (0, 0)


def _session(database: apsw.Connection, row: Mapping[str, object]) -> OldSession | None:
    name = sound_id(_text(row, "id"))
    began = _number(row.get("started_at"))
    messages = typed_messages(list(_said(database, row.get("id"), began)))
    if not name or not messages:
        return None
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return OldSession(
        session=NewSession(
            id=name,
            source=f"{SOURCE}/{one_line(_text(row, 'source') or 'cli', 40)}",
            title=one_line(_text(row, "title"), 120),
            model=_text(row, "model"),
            cwd=_text(row, "cwd"),
        ),
        began_at=began or messages[0].at,
        ended_at=_number(row.get("ended_at")) or messages[-1].at,
        usage=Usage(*(_whole(row.get(column)) for column in tokens)).bounded(),
        messages=messages,
    )


def _said(database: apsw.Connection, session_id: object, began: float) -> Iterator[tuple[float, Plain]]:
    """The messages of a session that stand, with their times."""
    columns = _columns(database, "messages")
    wanted = [column for column in _WANTED if column in columns]
    active = " AND active = 1" if "active" in columns else ""
    query = f"SELECT {', '.join(wanted)} FROM messages WHERE session_id = ?{active} ORDER BY id"  # noqa: S608 - names of our own
    for values in database.execute(query, (session_id,)):
        row = dict(zip(wanted, values, strict=True))
        if row.get("role") in ("user", "assistant", "tool"):
            yield _number(row.get("timestamp")) or began, _plain(row)


def _plain(row: Mapping[str, object]) -> Plain:
    """A row as a chat message; content that is a list stands as JSON in it."""
    content = row.get("content")
    text = content if isinstance(content, str) else ""
    parts = decoded(text) if text.startswith('[{"') else None
    message: Plain = {"role": row.get("role"), "content": parts if isinstance(parts, list) else text}
    calls = decoded(row.get("tool_calls"))
    if isinstance(calls, list):
        message["tool_calls"] = calls
    if row.get("tool_call_id"):
        message["tool_call_id"] = row["tool_call_id"]
        message["content"] = text
    if row.get("reasoning"):
        message["reasoning"] = row["reasoning"]
    return message


def _skills(root: Path) -> tuple[list[Path], int]:
    """The person's own skills, and how many came with the program (its list names them)."""
    manifest = read_text(root / ".bundled_manifest")
    bundled = {line.partition(":")[0].strip() for line in manifest.splitlines()}
    folders = list(skill_folders(root))
    own = [folder for folder in folders if folder.name not in bundled]
    return own, len(folders) - len(own)


def _leaves(path: tuple[str, ...], value: object, typed: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """The single settings of a document, lists and named entries whole; only what has a type here."""
    from hermes.config.keys import members

    below = members(typed)
    if not isinstance(value, dict) or below is None or "*" in below or not value:
        if value not in (None, "", {}, []):
            yield path, value
        return
    for name, inner in value.items():
        if name in below:
            yield from _leaves((*path, name), inner, below[name])


def _drop(document: dict[str, object], steps: list[str]) -> None:
    """Take out what is at a place, or as much above it as is a mapping."""
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
    return any(base in names or name in names for names in KEYS.values()) or _VARIABLES.fullmatch(name) is not None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else 0.0


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(row: Mapping[str, object], name: str) -> str:
    return str(row.get(name) or "")
