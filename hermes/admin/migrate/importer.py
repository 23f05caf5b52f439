"""Imports the contents of another agent's home after a person has seen a preview. The other home is never changed.

Finds what of another agent's home is here already, so that a preview shows only new things.

It is read from our own files and database.

Detects homes of other agents.
"""

import asyncio
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import apsw
import msgspec
from msgspec import Struct, structs

from hermes.admin.config import change_settings
from hermes.admin.migrate.agent_home import AgentHome
from hermes.admin.migrate.claw_home import CONFIG_NAMES, ClawHome
from hermes.admin.migrate.foreign_home import ForeignHome, HomeContents, SkippedItem, read_small_text
from hermes.admin.migrate.foreign_home import read_small_text as read_words
from hermes.config.environment import merge_dotenv, set_variables
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.yaml_edit import parse_mapping, read_text
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import HermesError, NotFoundError
from hermes.core.messages import (
    Message,
    Part,
    Provenance,
    ReasoningPart,
    Source,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from hermes.i18n.messages import N_, tr
from hermes.memory.files import EntryChange as MemoryChange
from hermes.memory.files import MemoryTarget, count_characters, split_entries
from hermes.memory.journal import KIND as MEMORIES
from hermes.memory.journal import ChangeOrigin, MemoryJournal, MemoryOperation
from hermes.safety.fencing import fence_untrusted_text
from hermes.safety.injection import find_injections
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.features.memory import memory_journal
from hermes.sessions.features.skills import build_skills
from hermes.sessions.secrets import build_redactor
from hermes.skills.install import SkillPackage, package_from_path
from hermes.skills.skill_library import KIND as SKILLS
from hermes.skills.skill_library import SkillChange, SkillLibrary
from hermes.store.imported_sessions import ImportedMessage, ImportedSession
from hermes.store.revisions import RevisionAuthor
from hermes.store.store import Store
from hermes.util.atomic_write import write_atomic
from hermes.util.clock import SystemClock
from hermes.util.text import to_one_line


class KnownContents(Struct, frozen=True, kw_only=True):
    """What was imported before, or exists here for another reason."""

    notes: frozenset[tuple[str, str]] = frozenset()
    """Notes, each with its file; also those that wait for approval or were rejected."""
    skills: frozenset[str] = frozenset()
    sessions: int = 0
    """Sessions that were imported from such a home."""


def read_known_contents(home: HermesHome, source: str) -> KnownContents:
    """Read what is here already; nothing where there is no database yet, or it cannot be read."""
    notes = {
        (target.value, note)
        for target in MemoryTarget
        for note in split_entries(read_small_text(home.root / "memories" / target.file))
    }
    if not home.database.exists():
        return KnownContents(notes=frozenset(notes))
    try:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        database = apsw.Connection(f"{home.database.absolute().as_uri()}?mode=ro", flags=flags)
        try:
            database.set_busy_timeout(5_000)
            brought = list(database.execute("SELECT kind, name, after FROM revisions WHERE after IS NOT NULL"))
            counted = "SELECT count(*) FROM sessions WHERE source = ?1 OR source LIKE ?1 || '/%'"
            sessions = int(next(database.execute(counted, (source,)))[0])
        finally:
            database.close()
    except apsw.Error:
        return KnownContents(notes=frozenset(notes))
    notes |= {(str(name), bytes(after).decode("utf-8", "replace")) for kind, name, after in brought if kind == MEMORIES}
    skills = frozenset(str(name) for kind, name, _ in brought if kind == SKILLS)
    return KnownContents(notes=frozenset(notes), skills=skills, sessions=sessions)


def drop_known(contents: HomeContents, known: KnownContents) -> HomeContents:
    """Return the contents without the notes and skills that are here already."""
    return msgspec.structs.replace(
        contents,
        memory=tuple(note for note in contents.memory if (MemoryTarget.MEMORY.value, note) not in known.notes),
        user=tuple(note for note in contents.user if (MemoryTarget.USER.value, note) not in known.notes),
        skills=tuple(folder for folder in contents.skills if folder.name not in known.skills),
    )


ImportProgress = Callable[[int, int], None]
"""Called with how many sessions of how many have been read."""


class ImportPreview(Struct, frozen=True, kw_only=True):
    """What would be imported, as a person is shown it. Names and counts, never a value that may be a key."""

    title: str
    root: str
    same: bool
    settings: tuple[str, ...]
    full: tuple[SkippedItem, ...]
    """Programs and addresses among the settings, written out: these a person must have seen."""
    keys: tuple[str, ...]
    identity: bool
    memory: int
    user: int
    skills: tuple[str, ...]
    sessions: int
    known: int
    """Sessions of such a home that are here already: only their new messages are imported."""
    messages: int
    bytes: int
    left: tuple[SkippedItem, ...]
    conflicts: tuple[SkippedItem, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to import."""
        return not self.news and not self.sessions

    @property
    def news(self) -> bool:
        """Whether something is new; for sessions that are here already only a comparison can tell."""
        several = (self.settings, self.keys, self.memory, self.user, self.skills, self.identity)
        return any(several) or self.sessions > self.known


class ImportResult(Struct, frozen=True, kw_only=True):
    """What was imported."""

    settings: int = 0
    keys: int = 0
    identity: bool = False
    memories: int = 0
    skills: int = 0
    waiting: int = 0
    """Memories and skills that wait for a person's approval, one by one."""
    sessions: int = 0
    """Sessions that had something new."""
    messages: int = 0
    known: int = 0
    """Sessions that were here already, complete."""
    left: tuple[SkippedItem, ...] = ()

    def to_plain(self) -> Plain:
        """Return the result as plain values."""
        found: Plain = to_plain(self)
        return found


def preview_import(environ: Mapping[str, str], old: ForeignHome) -> ImportPreview:
    """Return what an import would bring, and its conflicts. Changes nothing. Raises HermesError."""
    home = locate_home(environ)
    known = read_known_contents(home, old.source)
    contents = drop_known(old.read_contents(), known)
    ours = _read_own_settings(home)
    env = merge_dotenv({}, home.env_file)
    fresh = [path for path in contents.settings if _value_at(ours, path) is None]
    return ImportPreview(
        title=contents.title,
        root=str(old.root),
        same=old.same,
        settings=tuple(".".join(path) for path in fresh),
        full=tuple(_write_out_settings({path: contents.settings[path] for path in fresh})),
        keys=tuple(name for name in contents.env if name not in env),
        identity=bool(contents.identity) and not home.identity_file.exists(),
        memory=len(contents.memory),
        user=len(contents.user),
        skills=tuple(folder.name for folder in contents.skills if not (home.skills / folder.name).exists()),
        sessions=contents.sessions,
        known=min(known.sessions, contents.sessions),
        messages=contents.messages,
        bytes=contents.bytes,
        left=contents.skipped,
        conflicts=tuple(_find_conflicts(home, ours, env, contents, same=old.same)),
    )


async def import_home(
    environ: Mapping[str, str], old: ForeignHome, progress: ImportProgress | None = None
) -> ImportResult:
    """Import what `preview_import` shows; a second time only what is new. The person has approved it.

    What cannot be imported is named in `left`; the rest is imported all the same. Raises ConfigError, StoreError.
    """
    home = locate_home(environ)
    home.ensure_exists()
    contents = await asyncio.to_thread(old.read_contents)
    store = await Store.open(home.root, SystemClock())
    try:
        done, skipped = ImportResult(), list[SkippedItem]()
        if not old.same:
            done = ImportResult(
                keys=_import_variables(home, contents, skipped),
                settings=_import_settings(home, contents, skipped),
                identity=_import_identity(home, contents, skipped),
            )
        settings = load_settings(home).settings
        whole = merge_dotenv(environ, home.env_file)
        redactor = await asyncio.to_thread(build_redactor, whole, home, settings)
        for name, value in contents.env.items():
            redactor.add_secret(name, value)
        if not old.same:
            journal = memory_journal(home, settings, store, redactor)
            memories, first = await _import_memories(journal, contents, skipped)
            skills, second = await import_skills(build_skills(home, settings, whole, store), contents, skipped)
            done = structs.replace(done, memories=memories, skills=skills, waiting=first + second)
        counts = await _import_sessions(store, old, redactor, skipped, contents.sessions, progress)
        sessions, messages, known = counts
        return structs.replace(done, sessions=sessions, messages=messages, known=known, left=tuple(skipped))
    finally:
        await store.close()


def _find_conflicts(
    home: HermesHome, ours: Mapping[str, object], env: Mapping[str, str], contents: HomeContents, *, same: bool
) -> Iterator[SkippedItem]:
    """Yield the contents that conflict with ours."""
    for path, value in contents.settings.items():
        if _has_other_value(ours, path, value):
            yield SkippedItem(".".join(path), tr("it is set already, and stays"))
    for name, value in contents.env.items():
        if env.get(name, value) != value:
            yield SkippedItem(name, tr("it is in .env already, and stays"))
    ours_too = read_words(home.identity_file).strip() if home.identity_file.exists() else None
    if contents.identity and not same and ours_too not in (None, contents.identity.strip()):
        yield SkippedItem("SOUL.md", tr("there is one already, and it stays"))
    for folder in contents.skills:
        if (home.skills / folder.name).exists():
            yield SkippedItem(folder.name, tr("there is a skill of that name already, and it stays"))


def _write_out_settings(settings: Mapping[tuple[str, ...], object]) -> Iterator[SkippedItem]:
    for path, value in settings.items():
        if path == ("model", "base_url"):
            yield SkippedItem("model.base_url", str(value))
        elif path[0] == "mcp_servers" and isinstance(value, dict):
            words = [value.get("command"), *_as_list(value.get("args"))]
            said = [shlex.join(str(word) for word in words if word), str(value.get("url") or "")]
            said += [
                f"{name}: {text}" for name in ("env", "headers") if (text := ", ".join(_key_names(value.get(name))))
            ]
            said += [f"cwd: {value['cwd']}"] if value.get("cwd") else []
            yield SkippedItem(".".join(path), "; ".join([*filter(None, said), tr("taken switched off")]))


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _key_names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, dict) else []


def _read_own_settings(home: HermesHome) -> dict[str, object]:
    document = parse_mapping(read_text(home.config_file), home.config_file)
    if isinstance(document.get("model"), str):
        document["model"] = {"default": document["model"]}
    return document


def _has_other_value(ours: object, path: Sequence[str], value: object) -> bool:
    found = _value_at(ours, path)
    return found is not None and found != value


def _value_at(ours: object, path: Sequence[str]) -> object:
    for name in path:
        ours = ours.get(name) if isinstance(ours, dict) else None
    return ours


def _import_settings(home: HermesHome, contents: HomeContents, skipped: list[SkippedItem]) -> int:
    """Import settings that are not set here; return how many. Those of the model are imported all or none."""
    ours = _read_own_settings(home)
    fresh = {path: value for path, value in contents.settings.items() if _value_at(ours, path) is None}
    model = {path: value for path, value in fresh.items() if path[0] == "model" and not _value_at(ours, ("model",))}
    count = 0
    for group in (model, *({path: value} for path, value in fresh.items() if path[0] != "model")):
        try:
            change_settings(home, group)
            count += len(group)
        except HermesError as error:
            skipped.append(SkippedItem(", ".join(".".join(path) for path in group), str(error)))
    return count


def _import_variables(home: HermesHome, contents: HomeContents, skipped: list[SkippedItem]) -> int:
    """Import variables that our `.env` does not have yet; return how many."""
    known = merge_dotenv({}, home.env_file)
    fresh = {name: value for name, value in contents.env.items() if name not in known}
    try:
        if fresh:
            set_variables(home.env_file, fresh)
    except HermesError as error:
        skipped.append(SkippedItem(".env", str(error)))
        return 0
    return len(fresh)


def _import_identity(home: HermesHome, contents: HomeContents, skipped: list[SkippedItem]) -> bool:
    if not contents.identity.strip() or home.identity_file.exists():
        return False
    try:
        write_atomic(home.identity_file, contents.identity.encode(), mode=0o600)
    except OSError as error:
        skipped.append(SkippedItem("SOUL.md", error.strerror or str(error)))
        return False
    return True


async def _import_memories(
    journal: MemoryJournal, contents: HomeContents, skipped: list[SkippedItem]
) -> tuple[int, int]:
    """Import the notes; return how many were written and how many wait: over the limit, or a possible injection."""
    written = waiting = 0
    origin = ChangeOrigin(author=RevisionAuthor.IMPORT, reason=tr("taken over from {title}", title=contents.title))
    for target, entries in ((MemoryTarget.MEMORY, contents.memory), (MemoryTarget.USER, contents.user)):
        if target not in journal.notebooks or not entries:
            continue
        # A note that was brought before waits, or somebody has said yes or no to it.
        decided = {row.after for row in await journal.list_revisions(10_000) if row.name == target}
        lost = 0
        for entry in entries:
            try:
                if await _can_write_note(journal, target, entry):
                    done = await journal.write_operations(
                        target, (MemoryOperation(action="add", content=entry),), origin
                    )
                    written += bool(done.ids)
                elif entry.encode() not in decided:
                    await journal.propose_change(MemoryChange(target, None, entry), origin)
                    waiting += 1
            except HermesError:
                lost += 1
        if lost:
            skipped.append(SkippedItem(target.file, tr("{n} of its notes are too many or too long", n=lost)))
    return written, waiting


async def _can_write_note(journal: MemoryJournal, target: MemoryTarget, entry: str) -> bool:
    """Return whether a note can be written directly: there is room, and it does not read like an instruction."""
    whole = [*await journal.read_entries(target), entry]
    return count_characters(whole) <= journal.notebook_for(target).limit and not find_injections(entry)


async def import_skills(skills: SkillLibrary, contents: HomeContents, skipped: list[SkippedItem]) -> tuple[int, int]:
    """Import the skills; return how many were installed and how many wait: those that could run or reach something."""
    installed = waiting = 0
    for folder in contents.skills:
        try:
            package: SkillPackage = await asyncio.to_thread(package_from_path, folder)
            if package.name != folder.name or await skills.load_base(package.name) is not None:
                if package.name != folder.name:
                    skipped.append(SkippedItem(folder.name, tr("its folder has another name than the skill")))
                continue
            if any(row.after is not None for row in await skills.list_revisions(package.name)):
                continue  # brought before, and decided on or waiting
            reason = f"taken over from {contents.title}, sha256 {package.sha256}"
            number = await skills.propose_change(
                SkillChange(package.name, package.files), author=RevisionAuthor.IMPORT, reason=reason
            )
            if package.findings:
                waiting += 1
            else:
                await skills.approve_change(number, "person")
                installed += 1
        except HermesError as error:
            skipped.append(SkippedItem(folder.name, to_one_line(str(error), 200)))
    return installed, waiting


async def _import_sessions(
    store: Store,
    old: ForeignHome,
    redactor: Redactor,
    skipped: list[SkippedItem],
    whole: int,
    progress: ImportProgress | None,
) -> tuple[int, int, int]:
    """Import the sessions; return how many had something new, the new messages, and the sessions known already."""
    sessions = messages = known = clash = looked = 0
    reading = old.iterate_sessions()
    while (session := await asyncio.to_thread(_next_session, reading)) is not None:
        looked += 1
        fresh = await store.imported_sessions.add(_clean_session(session, redactor, old.title))
        if fresh is None:
            clash += 1
        elif fresh:
            sessions, messages = sessions + 1, messages + fresh
        else:
            known += 1
        if progress is not None:
            progress(looked, whole)
    if clash:
        skipped.append(
            SkippedItem(tr("{n} sessions", n=clash), tr("they were gone on with here, or their id is taken"))
        )
    if messages:
        await store.search.update_index()
    return sessions, messages, known


def _next_session(reading: Iterator[ImportedSession]) -> ImportedSession | None:
    return next(reading, None)


def _clean_session(old: ImportedSession, redactor: Redactor, title: str) -> ImportedSession:
    """Return the session without this process's secrets, with its tool output as untrusted content."""
    origin = Provenance(Source.OTHER, f"taken over from {title}")
    return structs.replace(
        old,
        session=structs.replace(old.session, title=redactor.redact(old.session.title)),
        messages=tuple(ImportedMessage(one.at, _redact_message(one.message, redactor, origin)) for one in old.messages),
    )


def _redact_message(message: Message, redactor: Redactor, origin: Provenance) -> Message:
    def redact_part(part: Part) -> Part:
        if isinstance(part, ToolResultPart):
            return structs.replace(
                part, text=fence_untrusted_text(redactor.redact(part.text), origin), provenance=origin
            )
        if isinstance(part, TextPart | ReasoningPart):
            return structs.replace(part, text=redactor.redact(part.text))
        if isinstance(part, ToolCallPart):
            return structs.replace(part, arguments=redactor.redact(part.arguments))
        return part

    return structs.replace(message, parts=tuple(redact_part(part) for part in message.parts))


def find_foreign_homes(environ: Mapping[str, str]) -> list[ForeignHome]:
    """Find homes at their usual places: our own folder, `~/.hermes`, `~/.openclaw` and `~/.clawdbot`."""
    home = locate_home(environ)
    person = Path(environ.get("HOME") or "/")
    named = environ.get("OPENCLAW_STATE_DIR", "")
    places = [
        home.root,
        person / ".hermes",
        *([Path(named)] if named else []),
        person / ".openclaw",
        person / ".clawdbot",
    ]
    found: dict[Path, ForeignHome] = {}
    for place in places:
        one = _detect_home(place, home.root, person)
        if one is not None:
            found.setdefault(place.resolve(), one)
    return list(found.values())


def open_foreign_home(environ: Mapping[str, str], path: Path) -> ForeignHome:
    """Return the home in a folder. Raises NotFoundError for a folder of an unknown kind."""
    found = _detect_home(path.expanduser().absolute(), locate_home(environ).root, Path(environ.get("HOME") or "/"))
    if found is None:
        raise NotFoundError(
            N_("{path} is not a home of hermes-agent or OpenClaw.", path=path),
            N_("One has a state.db, the other an openclaw.json."),
        )
    return found


def _detect_home(place: Path, own: Path, person: Path) -> ForeignHome | None:
    try:
        if (place / "state.db").is_file():
            return AgentHome(place, same=place.resolve() == own.resolve())
        if any((place / name).is_file() for name in CONFIG_NAMES) and place.resolve() != own.resolve():
            return ClawHome(place, person)
    except OSError:
        return None
    return None
