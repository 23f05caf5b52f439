"""Taking over what another agent's home holds, after a person has seen what that is. Nothing of it is changed there."""

import asyncio
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, structs, to_builtins

from hermes.admin.config import change
from hermes.admin.migrate.existing import here, without_known
from hermes.admin.migrate.foreign_home import Holdings, Left, OldHome
from hermes.admin.migrate.foreign_home import read_text as read_words
from hermes.config.edit import parsed, read_text
from hermes.config.env_file import set_variables
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.core.errors import HermesError
from hermes.core.messages import Message
from hermes.core.parts import Part, Provenance, ReasoningPart, Source, TextPart, ToolCallPart, ToolResultPart
from hermes.i18n.messages import say
from hermes.memory.files import Change as MemoryChange
from hermes.memory.files import Target, size
from hermes.memory.journal import MemoryJournal, Operation, Origin
from hermes.safety.fencing import fence
from hermes.safety.injection import marks
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.features.memory import journal_of
from hermes.sessions.features.skills import skills_of
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.secrets import redactor_for
from hermes.skills.install import Package, from_path
from hermes.skills.skills import Change, Skills
from hermes.store.imported_sessions import OldMessage, OldSession
from hermes.store.revisions import Author
from hermes.store.store import Store
from hermes.util.atomic import write_atomic
from hermes.util.clock import SystemClock
from hermes.util.text import one_line

Progress = Callable[[int, int], None]
"""Told how many sessions of how many have been looked at."""


class Preview(Struct, frozen=True, kw_only=True):
    """What would be taken over, as a person is shown it. Names and counts, never a value that may be a key."""

    title: str
    root: str
    same: bool
    settings: tuple[str, ...]
    full: tuple[Left, ...]
    """Programs and addresses among them, written out: these a person must have seen."""
    keys: tuple[str, ...]
    identity: bool
    memory: int
    user: int
    skills: tuple[str, ...]
    sessions: int
    known: int
    """Sessions of such a home that are here already: of them only what was said since is taken."""
    messages: int
    bytes: int
    left: tuple[Left, ...]
    conflicts: tuple[Left, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to take."""
        return not self.news and not self.sessions

    @property
    def news(self) -> bool:
        """Whether something is not here yet; of sessions that are here, only comparing them tells."""
        several = (self.settings, self.keys, self.memory, self.user, self.skills, self.identity)
        return any(several) or self.sessions > self.known


class Taken(Struct, frozen=True, kw_only=True):
    """What was taken over."""

    settings: int = 0
    keys: int = 0
    identity: bool = False
    memories: int = 0
    skills: int = 0
    waiting: int = 0
    """Memories and skills that wait for a person's yes, one by one."""
    sessions: int = 0
    """Sessions of which something was new."""
    messages: int = 0
    known: int = 0
    """Sessions that were here already, whole."""
    left: tuple[Left, ...] = ()

    def plain(self) -> Plain:
        """The same as plain values."""
        found: Plain = to_builtins(self)
        return found


def preview(environ: Mapping[str, str], old: OldHome) -> Preview:
    """What is in an old home, and what of it meets something of ours. Changes nothing. Raises HermesError."""
    home = locate_home(environ)
    known = here(home, old.source)
    held = without_known(old.holdings(), known)
    ours = _ours(home)
    env = with_dotenv({}, home.env_file)
    fresh = [path for path in held.settings if _value(ours, path) is None]
    return Preview(
        title=held.title,
        root=str(old.root),
        same=old.same,
        settings=tuple(".".join(path) for path in fresh),
        full=tuple(_in_full({path: held.settings[path] for path in fresh})),
        keys=tuple(name for name in held.env if name not in env),
        identity=bool(held.identity) and not home.identity_file.exists(),
        memory=len(held.memory),
        user=len(held.user),
        skills=tuple(folder.name for folder in held.skills if not (home.skills / folder.name).exists()),
        sessions=held.sessions,
        known=min(known.sessions, held.sessions),
        messages=held.messages,
        bytes=held.bytes,
        left=held.left,
        conflicts=tuple(_conflicts(home, ours, env, held, same=old.same)),
    )


async def take_over(environ: Mapping[str, str], old: OldHome, progress: Progress | None = None) -> Taken:
    """Take over what `preview` shows; a second time only what is new. The person has said yes to it.

    What cannot be taken is named in `left`; the rest is taken all the same. Raises ConfigError, StoreError.
    """
    home = locate_home(environ)
    home.ensure()
    held = await asyncio.to_thread(old.holdings)
    store = await Store.open(home.root, SystemClock())
    try:
        done, left = Taken(), list[Left]()
        if not old.same:
            done = Taken(
                keys=_take_variables(home, held, left),
                settings=_take_settings(home, held, left),
                identity=_take_identity(home, held, left),
            )
        settings = load_settings(home).settings
        whole = with_dotenv(environ, home.env_file)
        redactor = await asyncio.to_thread(redactor_for, whole, home, settings)
        for name, value in held.env.items():
            redactor.learn(name, value)
        if not old.same:
            journal = journal_of(home, settings, store, redactor)
            memories, first = await _take_memories(journal, held, left)
            skills, second = await _take_skills(skills_of(home, settings, whole, store), held, left)
            done = structs.replace(done, memories=memories, skills=skills, waiting=first + second)
        counts = await _take_sessions(store, old, redactor, left, held.sessions, progress)
        sessions, messages, known = counts
        return structs.replace(done, sessions=sessions, messages=messages, known=known, left=tuple(left))
    finally:
        await store.close()


def _conflicts(
    home: Home, ours: Mapping[str, object], env: Mapping[str, str], held: Holdings, *, same: bool
) -> Iterator[Left]:
    """What of it meets something of ours."""
    for path, value in held.settings.items():
        if _differs(ours, path, value):
            yield Left(".".join(path), say("it is set already, and stays"))
    for name, value in held.env.items():
        if env.get(name, value) != value:
            yield Left(name, say("it is in .env already, and stays"))
    ours_too = read_words(home.identity_file).strip() if home.identity_file.exists() else None
    if held.identity and not same and ours_too not in (None, held.identity.strip()):
        yield Left("SOUL.md", say("there is one already, and it stays"))
    for folder in held.skills:
        if (home.skills / folder.name).exists():
            yield Left(folder.name, say("there is a skill of that name already, and it stays"))


def _in_full(settings: Mapping[tuple[str, ...], object]) -> Iterator[Left]:
    for path, value in settings.items():
        if path == ("model", "base_url"):
            yield Left("model.base_url", str(value))
        elif path[0] == "mcp_servers" and isinstance(value, dict):
            words = [value.get("command"), *_listed(value.get("args"))]
            said = [shlex.join(str(word) for word in words if word), str(value.get("url") or "")]
            said += [f"{name}: {text}" for name in ("env", "headers") if (text := ", ".join(_names(value.get(name))))]
            said += [f"cwd: {value['cwd']}"] if value.get("cwd") else []
            yield Left(".".join(path), "; ".join([*filter(None, said), say("taken switched off")]))


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, dict) else []


def _ours(home: Home) -> dict[str, object]:
    document = parsed(read_text(home.config_file), home.config_file)
    if isinstance(document.get("model"), str):
        document["model"] = {"default": document["model"]}
    return document


def _differs(ours: object, path: Sequence[str], value: object) -> bool:
    found = _value(ours, path)
    return found is not None and found != value


def _value(ours: object, path: Sequence[str]) -> object:
    for name in path:
        ours = ours.get(name) if isinstance(ours, dict) else None
    return ours


def _take_settings(home: Home, held: Holdings, left: list[Left]) -> int:
    """Settings that are not ours yet; how many. What the file has of a model stays whole, or is taken whole."""
    ours = _ours(home)
    fresh = {path: value for path, value in held.settings.items() if _value(ours, path) is None}
    model = {path: value for path, value in fresh.items() if path[0] == "model" and not _value(ours, ("model",))}
    count = 0
    for group in (model, *({path: value} for path, value in fresh.items() if path[0] != "model")):
        try:
            change(home, group)
            count += len(group)
        except HermesError as error:
            left.append(Left(", ".join(".".join(path) for path in group), str(error)))
    return count


def _take_variables(home: Home, held: Holdings, left: list[Left]) -> int:
    """Variables that our `.env` does not have yet; how many."""
    known = with_dotenv({}, home.env_file)
    fresh = {name: value for name, value in held.env.items() if name not in known}
    try:
        if fresh:
            set_variables(home.env_file, fresh)
    except HermesError as error:
        left.append(Left(".env", str(error)))
        return 0
    return len(fresh)


def _take_identity(home: Home, held: Holdings, left: list[Left]) -> bool:
    if not held.identity.strip() or home.identity_file.exists():
        return False
    try:
        write_atomic(home.identity_file, held.identity.encode(), mode=0o600)
    except OSError as error:
        left.append(Left("SOUL.md", error.strerror or str(error)))
        return False
    return True


async def _take_memories(journal: MemoryJournal, held: Holdings, left: list[Left]) -> tuple[int, int]:
    """How many were written, and how many wait: what is over the limit, or reads like an order."""
    written = waiting = 0
    origin = Origin(author=Author.IMPORT, reason=say("taken over from {title}", title=held.title))
    for target, entries in ((Target.MEMORY, held.memory), (Target.USER, held.user)):
        if target not in journal.books or not entries:
            continue
        # A note that was brought before waits, or somebody has said yes or no to it.
        decided = {row.after for row in await journal.log(10_000) if row.name == target}
        lost = 0
        for entry in entries:
            try:
                if await _fits(journal, target, entry):
                    done = await journal.write(target, (Operation(action="add", content=entry),), origin)
                    written += bool(done.ids)
                elif entry.encode() not in decided:
                    await journal.propose(MemoryChange(target, None, entry), origin)
                    waiting += 1
            except HermesError:
                lost += 1
        if lost:
            left.append(Left(target.file, say("{n} of its notes are too many or too long", n=lost)))
    return written, waiting


async def _fits(journal: MemoryJournal, target: Target, entry: str) -> bool:
    """Whether a note can be written as it is: there is room, and it does not read like an order."""
    whole = [*await journal.entries(target), entry]
    return size(whole) <= journal.book(target).limit and not marks(entry)


async def _take_skills(skills: Skills, held: Holdings, left: list[Left]) -> tuple[int, int]:
    """How many were installed, and how many wait: those that could run or reach something."""
    installed = waiting = 0
    for folder in held.skills:
        try:
            package: Package = await asyncio.to_thread(from_path, folder)
            if package.name != folder.name or await skills.base(package.name) is not None:
                if package.name != folder.name:
                    left.append(Left(folder.name, say("its folder has another name than the skill")))
                continue
            if any(row.after is not None for row in await skills.log(package.name)):
                continue  # brought before, and decided on or waiting
            reason = f"taken over from {held.title}, sha256 {package.sha256}"
            number = await skills.propose(Change(package.name, package.files), author=Author.IMPORT, reason=reason)
            if package.findings:
                waiting += 1
            else:
                await skills.apply(number, "person")
                installed += 1
        except HermesError as error:
            left.append(Left(folder.name, one_line(str(error), 200)))
    return installed, waiting


async def _take_sessions(
    store: Store, old: OldHome, redactor: Redactor, left: list[Left], whole: int, progress: Progress | None
) -> tuple[int, int, int]:
    """How many sessions had something new, how many messages that were, how many sessions were here already."""
    sessions = messages = known = clash = looked = 0
    reading = old.sessions()
    while (session := await asyncio.to_thread(_next, reading)) is not None:
        looked += 1
        fresh = await store.take_session(_clean(session, redactor, old.title))
        if fresh is None:
            clash += 1
        elif fresh:
            sessions, messages = sessions + 1, messages + fresh
        else:
            known += 1
        if progress is not None:
            progress(looked, whole)
    if clash:
        left.append(Left(say("{n} sessions", n=clash), say("they were gone on with here, or their id is taken")))
    if messages:
        await store.follow()
    return sessions, messages, known


def _next(reading: Iterator[OldSession]) -> OldSession | None:
    return next(reading, None)


def _clean(old: OldSession, redactor: Redactor, title: str) -> OldSession:
    """The session without the secrets that this process holds; what tools said in it is a stranger's."""
    origin = Provenance(Source.OTHER, f"taken over from {title}")
    return structs.replace(
        old,
        session=structs.replace(old.session, title=redactor.redact(old.session.title)),
        messages=tuple(OldMessage(one.at, _redacted(one.message, redactor, origin)) for one in old.messages),
    )


def _redacted(message: Message, redactor: Redactor, origin: Provenance) -> Message:
    def clean(part: Part) -> Part:
        if isinstance(part, ToolResultPart):
            return structs.replace(part, text=fence(redactor.redact(part.text), origin), provenance=origin)
        if isinstance(part, TextPart | ReasoningPart):
            return structs.replace(part, text=redactor.redact(part.text))
        if isinstance(part, ToolCallPart):
            return structs.replace(part, arguments=redactor.redact(part.arguments))
        return part

    return structs.replace(message, parts=tuple(clean(part) for part in message.parts))
