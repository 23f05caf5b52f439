"""The catalog of skills: built in, the user's own, in folders that the settings name, and those of other agents that
the user has agreed to.

The head of a SKILL.md is read as agentskills.io specifies it, which runs nothing. What was read is cached under the
file's stamp, so that a start reads no file that has not changed.
"""

import contextlib
import functools
import os
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.skills.files import FILE_LIMIT, MAIN_FILE, decode_text, read_file
from hermes.util.atomic_write import write_atomic

if TYPE_CHECKING:
    import yaml


NAME_LIMIT = 64
DESCRIPTION_LIMIT = 1_024
COMPATIBILITY_LIMIT = 500
BODY_LIMIT = 100_000
"""Characters of instructions."""
SPECIFIED_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The fields of the specification; Hermes' own are under `metadata`."""
_HEAD_LIMIT = 8_000
_MAX_NODES = 500
_MAX_DEPTH = 6
_TOO_DEEP = "its head is nested too deeply, or too long"
_FLOW = "it uses [..] or {..}, which some readers refuse"
_PLAIN_NAME = re.compile(r"[\w./+-]{1,40}")
"""A category, a program, a variable: a name, with no room for sentences."""
_HEAD = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)

Value = str | list["Value"] | dict[str, "Value"]


class SkillHeadError(Exception):
    """The head of a SKILL.md cannot be used; the message says why."""


class SkillHead(Struct, frozen=True, kw_only=True):
    """A skill's head. `wrong` is what keeps it from being used, `odd` what the specification does not have."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    category: str = ""
    platforms: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


def normalize_skill_name(name: str) -> str:
    """Return a skill's name in the form in which it is compared (NFKC): file systems and keyboards write several."""
    name = name.strip()
    if name.isascii():
        return name
    import unicodedata

    return unicodedata.normalize("NFKC", name)


def is_skill_name(name: str) -> bool:
    """Return whether a skill can have this name: letters and digits of any script, none of them a capital, with single
    hyphens between, 64 at the most, normalized. The specification's own validator (skills-ref) says the same.
    """
    parts = name.split("-")
    if len(name) > NAME_LIMIT or not all(part.isalnum() for part in parts):
        return False
    return name == name.lower() and name == normalize_skill_name(name)


def keep_plain_name(text: str) -> str:
    """Return the text when it is a plain name of a category, program or variable; else an empty string."""
    return text if _PLAIN_NAME.fullmatch(text) else ""


def split_head(text: str) -> tuple[str, str]:
    """Return the head and the body of a SKILL.md. Raises SkillHeadError when there is no head."""
    text = text.removeprefix("\ufeff")
    found = _HEAD.match(text)
    if found is None:
        raise SkillHeadError("it must begin with a head between two lines of ---")
    if len(found[1]) > _HEAD_LIMIT:
        raise SkillHeadError(N_("its head is longer than {HEAD_LIMIT} characters", HEAD_LIMIT=format(_HEAD_LIMIT, ",")))
    return found[1], text[found.end() :].strip()


def read_head(text: str, folder: str, *, is_foreign: bool = False) -> SkillHead:
    """Read the head of a SKILL.md that lies in a folder of this name, with all that is wrong with it. Never raises.

    Other agents know a skill by its folder: with `is_foreign` its head need not name it.
    """
    folder = normalize_skill_name(folder)
    try:
        head, body = split_head(text)
        fields, odd = _parse_fields(head)
    except SkillHeadError as error:
        return SkillHead(name=folder, wrong=(str(error),))
    fields = {**fields, "name": folder} if is_foreign else fields
    foreign = _iter_foreign_problems(fields) if is_foreign else ()
    wrong = [*_iter_problems(fields, folder), *_iter_body_problems(body), *foreign]
    more = fields.get("metadata")
    meta = more if isinstance(more, dict) else {}
    theirs = meta.get("hermes")
    requires = meta.get("requires")
    needs = requires if isinstance(requires, dict) else {}
    before = fields.get("prerequisites")
    older = before if isinstance(before, dict) else {}
    unknown = sorted(name for name in fields if name not in SPECIFIED_FIELDS)
    return SkillHead(
        name=normalize_skill_name(_to_text(fields.get("name"))),
        description=" ".join(_to_text(fields.get("description")).split()),
        license=_to_text(fields.get("license")),
        compatibility=_to_text(fields.get("compatibility")),
        category=keep_plain_name(
            _to_text(meta.get("category") or (theirs.get("category") if isinstance(theirs, dict) else ""))
        ),
        platforms=_collect_names(meta.get("platforms"), fields.get("platforms")),
        programs=_collect_names(needs.get("programs"), meta.get("requires-programs"), older.get("commands")),
        env=_collect_names(
            needs.get("env"),
            meta.get("requires-env"),
            older.get("env_vars"),
            fields.get("required_environment_variables"),
        ),
        wrong=tuple(wrong),
        odd=(*odd, *(N_("the specification has no field {name}", name=repr(name)) for name in unknown)),
    )


def add_category(text: str, category: str) -> str:
    """Return a SKILL.md with its category named in the head, if none is."""
    try:
        head, _ = split_head(text)
        if not category or read_head(text, "").category:
            return text
    except SkillHeadError:
        return text
    line = f"  category: {category}\n"
    found = re.search(r"(?m)^metadata:[ \t]*\n", head)
    added = head[: found.end()] + line + head[found.end() :] if found else f"{head}metadata:\n{line}"
    return text.replace(head, added, 1)


def _iter_problems(fields: Mapping[str, Value], folder: str) -> Iterable[str]:
    name, description = fields.get("name"), fields.get("description")
    name = normalize_skill_name(name) if isinstance(name, str) else name
    if not isinstance(name, str) or not name:
        yield "its head has no `name`"
    elif not is_skill_name(name):
        yield N_(
            "its name {name} is not {NAME_LIMIT} small letters, digits and single hyphens at the most",
            name=repr(name[:80]),
            NAME_LIMIT=NAME_LIMIT,
        )
    elif name != folder:
        yield N_(
            "its name is {name} and its folder's is {folder}: they must be the same",
            name=repr(name),
            folder=repr(folder),
        )
    if not isinstance(description, str) or not description.strip():
        yield "its head has no `description`"
    elif len(description) > DESCRIPTION_LIMIT:
        yield N_(
            "its description has {description} characters; {DESCRIPTION_LIMIT} are the most",
            description=format(len(description), ","),
            DESCRIPTION_LIMIT=format(DESCRIPTION_LIMIT, ","),
        )
    compatibility = fields.get("compatibility", "")
    if not isinstance(compatibility, str) or len(compatibility) > COMPATIBILITY_LIMIT:
        yield N_(
            "its `compatibility` is not a text of {COMPATIBILITY_LIMIT} characters at the most",
            COMPATIBILITY_LIMIT=COMPATIBILITY_LIMIT,
        )


def _iter_body_problems(body: str) -> Iterable[str]:
    if len(body) > BODY_LIMIT:
        yield N_(
            "its instructions have {body} characters; {BODY_LIMIT} are the most",
            body=format(len(body), ","),
            BODY_LIMIT=format(BODY_LIMIT, ","),
        )
    if not body:
        yield "it has no instructions"


def _iter_foreign_problems(fields: Mapping[str, Value]) -> Iterable[str]:
    """Yield what keeps another agent's skill from being used as it is meant."""
    if fields.get("disable-model-invocation") == "true":
        yield "its `disable-model-invocation` is not known here"


@functools.lru_cache(maxsize=128)  # the same skills are built into every home that a process opens
def _parse_fields(head: str) -> tuple[Mapping[str, Value], Sequence[str]]:
    """Return the head's fields, all values as text, lists and mappings; and what in it other readers will not take."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml.parse(head, Loader=loader))
        node = yaml.compose(head, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = N_(" in line {line}", line=mark.line + 2) if mark else ""
        raise SkillHeadError(
            N_("its head is not valid YAML{where}: {problem}", where=where, problem=error.problem)
        ) from None
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise SkillHeadError(
            N_("its head is not valid YAML: {splitlines}", splitlines=str(error).splitlines()[0][:160])
        ) from None
    reader = _NodeReader()
    found = reader.read_node(node, 0) if node is not None else {}
    if not isinstance(found, dict):
        raise SkillHeadError("its head must hold `key: value` lines")
    return found, reader.odd


def _check_events(events: Iterable["yaml.Event"]) -> None:
    """Raise HeadError for a head that cannot be composed safely.

    The C library composes by recursion: a few thousand open brackets overflow its stack and end the process, which
    nothing can catch. Its events come one by one, from a stack on the heap, and reading stops with the first that is
    too deep.
    """
    from yaml import CollectionEndEvent, CollectionStartEvent, NodeEvent

    depth = nodes = 0
    for event in events:
        if getattr(event, "anchor", None):
            raise SkillHeadError("its head has anchors (&name), which no skill needs")
        nodes += isinstance(event, NodeEvent)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _MAX_DEPTH + 1 or nodes > 2 * _MAX_NODES:
            raise SkillHeadError(_TOO_DEEP)


class _NodeReader:
    """Turns nodes into plain values; every scalar stays the text that it is."""

    def __init__(self) -> None:
        self.odd: list[str] = []
        self._nodes = 0

    def read_node(self, node: "yaml.Node", depth: int) -> Value:
        """Return the value of a node. Raises SkillHeadError for one that is too deep, too large, or has a key twice."""
        self._nodes += 1
        if self._nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise SkillHeadError(_TOO_DEEP)
        if not isinstance(node.value, list):
            return str(node.value)
        if getattr(node, "flow_style", False) and _FLOW not in self.odd:
            self.odd.append(_FLOW)
        if node.value and not isinstance(node.value[0], tuple):
            return [self.read_node(child, depth + 1) for child in node.value]
        return self._read_mapping(node.value, depth)

    def _read_mapping(self, pairs: Iterable[tuple["yaml.Node", "yaml.Node"]], depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key, value in pairs:
            name = "" if isinstance(key.value, list) else str(key.value)
            if not name:
                raise SkillHeadError("a key of its head is no plain text")
            if name in found:
                raise SkillHeadError(N_("its head has {name} twice", name=repr(name[:60])))
            found[name] = self.read_node(value, depth + 1)
        return found


def _to_text(value: Value | None) -> str:
    return value.strip() if isinstance(value, str) else ""


def _collect_names(*values: Value | None) -> tuple[str, ...]:
    """Return the plain names in lists, and in texts separated by spaces or commas; of mappings their `name`.

    What is no plain name is left out.
    """
    found: list[str] = []
    for value in values:
        if isinstance(value, str):
            found += re.split(r"[\s,]+", value)
        elif isinstance(value, list):
            for one in value:
                found.append(_to_text(one.get("name")) if isinstance(one, dict) else _to_text(one))
    return tuple(dict.fromkeys(filter(None, map(keep_plain_name, found))))


_CACHE_VERSION = 3
_CACHE_LIMIT = 8 << 20
_MAX_SKILLS = 2_000
"""Skills of one folder."""
_MAX_CATEGORY_DEPTH = 2
"""How many folders for categories may stand above a skill."""
_FRESH = 2.0
"""Seconds for which the programs that skills need are taken to be the same; each is looked for along the whole PATH."""
_PLATFORMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


class SkillTier(StrEnum):
    """The source of a skill, in the order in which names count; untrusted skills go last."""

    OWN = "own"
    """In the home: written by the user, approved by them, or installed."""
    EXTERNAL = "external"
    """In a folder that the settings name; never written."""
    BUILT_IN = "built-in"
    FOREIGN = "of another agent"
    """In a folder of another agent that the user has agreed to; never written."""
    OPTIONAL = "optional"
    """Comes with Hermes and is used once it is installed."""


class Skill(Struct, frozen=True, kw_only=True):
    """One skill. `hidden_by` says why it is not used though nothing is wrong with it; `missing` what it lacks here."""

    name: str
    tier: SkillTier
    folder: str
    head: SkillHead
    category: str = ""
    hidden_by: str = ""
    missing: tuple[str, ...] = ()
    trusted: bool = True
    """Whether its text is the user's own, approved by them, or Hermes'."""

    @property
    def is_usable(self) -> bool:
        """Return whether it may be read and used; it may still lack something."""
        return not self.head.wrong and not self.hidden_by

    @property
    def is_offered(self) -> bool:
        """Return whether it stands in the index."""
        return self.is_usable and not self.missing


class SkillRoots(Struct, frozen=True, kw_only=True):
    """The folders of skills. `trusted` are folders whose files the user trusts."""

    own: Path
    cache: Path
    external: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    """Folders of other agents that the user has agreed to; what lies there is trusted."""
    trusted: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    built_in: str = str(Path(__file__).with_name("starter"))
    optional: str = str(Path(__file__).with_name("optional"))


class _CacheEntry(Struct, frozen=True):
    stamp: tuple[int, int, int]
    head: SkillHead


class _Cache(Struct):
    version: int
    entries: dict[str, _CacheEntry]


class SkillCatalog:
    """The skills of a home, looked up afresh at each call; that costs a look at each file's stamp."""

    def __init__(
        self,
        roots: SkillRoots,
        environ: Mapping[str, str],
        find_sources: Callable[[str], Sequence[str]] = lambda _path: (),
    ) -> None:
        """`find_sources` returns the untrusted sources beside which files of a folder were written."""
        self._roots = roots
        self._find_sources = find_sources
        self._environ = environ
        self._entries: dict[str, _CacheEntry] | None = None
        self._changed = False
        self._found_programs: dict[str, bool] = {}
        """The programs that were there or not at the time `_looked`."""
        self._looked = -_FRESH
        self._lock = threading.Lock()

    def list_all(self) -> list[Skill]:
        """Return every skill there is, unusable ones too: by name, the one that counts first. Never raises."""
        with self._lock:
            entries = self._load_cache()
            self._changed = False
            found = [
                self._build_skill(tier, root, folder)
                for tier, root in self._list_roots()
                for folder in _iter_skill_folders(root)
            ]
            here = {skill.folder for skill in found}
            if self._changed or len(here) < len(entries):
                self._entries = {folder: entry for folder, entry in entries.items() if folder in here}
                self._save_cache()
            return self._resolve_conflicts(found)

    def list_offered(self) -> list[Skill]:
        """Return the skills that are offered, by name."""
        return [skill for skill in self.list_all() if skill.is_offered]

    def find_skill(self, name: str) -> Skill:
        """Return the skill of this name that counts, lacking something or not.

        Raises NotFoundError, UsageError for a broken one.
        """
        skills, name = self.list_all(), normalize_skill_name(name)
        found = [skill for skill in skills if skill.name == name]
        for skill in found:
            if skill.is_usable:
                return skill
        if found and found[0].head.wrong:
            first = found[0]  # the faults of an untrusted skill quote its content
            why = "; ".join(first.head.wrong) if first.trusted else "`hermes skills list` says why"
            raise UsageError(N_("The skill {name} cannot be used: {why}.", name=repr(name), why=why))
        if found:
            raise UsageError(
                N_("The skill {name} is not used: {hidden_by}.", name=repr(name), hidden_by=found[0].hidden_by)
            )
        near = suggest_name(name[:100], [skill.name for skill in skills if skill.is_usable])
        raise NotFoundError(N_("There is no skill {name}.", name=repr(name[:80])), near)

    def _list_roots(self) -> list[tuple[SkillTier, str]]:
        roots = self._roots
        external = [(SkillTier.EXTERNAL, os.path.abspath(os.path.expanduser(folder))) for folder in roots.external]
        return [
            (SkillTier.OWN, str(roots.own)),
            *external,
            (SkillTier.BUILT_IN, roots.built_in),
            *((SkillTier.FOREIGN, folder) for folder in roots.foreign),
            (SkillTier.OPTIONAL, roots.optional),
        ]

    def _build_skill(self, tier: SkillTier, root: str, folder: str) -> Skill:
        name = normalize_skill_name(os.path.basename(folder))
        head = self._load_head(folder, name, is_foreign=tier is SkillTier.FOREIGN)
        above = os.path.relpath(os.path.dirname(folder), root)
        hidden = "it is optional; `hermes skills install` it" if tier is SkillTier.OPTIONAL else ""
        if tier is SkillTier.FOREIGN and self._find_sources(folder):
            hidden = "it was written beside untrusted content"
        return Skill(
            name=name,
            tier=tier,
            folder=folder,
            head=head,
            category=head.category or ("" if above == "." else keep_plain_name(above)),
            hidden_by="`skills.disabled` names it" if name in self._roots.disabled else hidden,
            trusted=tier is not SkillTier.EXTERNAL or self._is_trusted(folder),
        )

    def _is_trusted(self, folder: str) -> bool:
        real = os.path.realpath(folder)
        return any(real == one or real.startswith(one.rstrip("/") + "/") for one in self._roots.trusted)

    def _load_head(self, folder: str, name: str, *, is_foreign: bool) -> SkillHead:
        """Return what is known of the skill in a folder."""
        entries = self._load_cache()
        try:
            status = os.lstat(os.path.join(folder, MAIN_FILE))
        except OSError as error:
            return SkillHead(
                name=name,
                wrong=(N_("its {MAIN_FILE} cannot be read: {strerror}", MAIN_FILE=MAIN_FILE, strerror=error.strerror),),
            )
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = entries.get(folder)
        if known is not None and known.stamp == stamp:
            return known.head
        head = _read_changed_head(folder, name, status, is_foreign=is_foreign)
        entries[folder] = _CacheEntry(stamp, head)
        self._changed = True
        return head

    def _resolve_conflicts(self, found: Sequence[Skill]) -> list[Skill]:
        """Return the skills with what else keeps them from being used: another one of the name, or what they need."""
        taken: dict[str, Skill] = {}
        have = self._known_programs()
        settled = []
        for skill in sorted(found, key=lambda skill: not skill.trusted):  # an untrusted one replaces no other
            first = taken.get(skill.name)
            if first is not None and not skill.hidden_by:
                where = first.folder if first.tier is skill.tier else N_("the {tier} one", tier=first.tier)
                skill = structs.replace(skill, hidden_by=N_("{where} of that name goes before it", where=where))  # noqa: PLW2901
            elif skill.is_usable:
                taken[skill.name] = skill
                missing = tuple(self._iter_missing(skill.head, have))
                skill = structs.replace(skill, missing=missing) if missing else skill  # noqa: PLW2901
            settled.append(skill)
        return sorted(settled, key=lambda skill: skill.name)

    def _iter_missing(self, head: SkillHead, have: dict[str, bool]) -> Iterator[str]:
        here = _PLATFORMS.get(sys.platform, sys.platform)
        if head.platforms and here not in head.platforms and sys.platform not in head.platforms:
            yield N_("it is for {platforms}", platforms=", ".join(head.platforms))
        for program in head.programs:
            if program not in have:
                have[program] = shutil.which(program, path=self._environ.get("PATH", "")) is not None
            if not have[program]:
                yield N_("the program {program}", program=program)
        for name in head.env:
            if not self._environ.get(name):
                yield N_("the variable {name}", name=name)

    def _known_programs(self) -> dict[str, bool]:
        """Return which programs are known to be there or not; looked for again every few seconds."""
        now = time.monotonic()
        if now - self._looked > _FRESH:
            self._found_programs, self._looked = {}, now
        return self._found_programs

    def _load_cache(self) -> dict[str, _CacheEntry]:
        if self._entries is None:
            self._entries = {}
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                raw = (self._roots.cache / "skills.json").read_bytes()[:_CACHE_LIMIT]
                cache = msgspec.json.decode(raw, type=_Cache)
                self._entries = cache.entries if cache.version == _CACHE_VERSION else {}
        return self._entries

    def _save_cache(self) -> None:
        with contextlib.suppress(OSError):  # a home that cannot be written is reported where it matters, not here
            self._roots.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            raw = to_json(_Cache(_CACHE_VERSION, self._entries or {}))
            write_atomic(self._roots.cache / "skills.json", raw, mode=0o600, sync=False)


def _iter_skill_folders(root: str, depth: int = 0) -> Iterator[str]:
    """Yield the folders below `root` that hold a skill, sorted; those above are categories."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)[:_MAX_SKILLS]
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith((".", "_")) or not entry.is_dir():
            continue
        if os.path.lexists(os.path.join(entry.path, MAIN_FILE)):
            yield entry.path
        elif depth < _MAX_CATEGORY_DEPTH and not entry.is_symlink():
            yield from _iter_skill_folders(entry.path, depth + 1)


def _read_changed_head(folder: str, name: str, status: os.stat_result, *, is_foreign: bool) -> SkillHead:
    """Read the head of a SKILL.md that has changed."""
    if not is_skill_name(name):
        said = N_(
            "its folder's name {name} is not made of small letters, digits and single hyphens",
            name=repr(name[:80]),
        )
        return SkillHead(name=name, wrong=(said,))
    if os.path.islink(folder) or stat.S_ISLNK(status.st_mode):
        return SkillHead(name=name, wrong=("it is a link; name its real folder in `skills.external_dirs`",))
    if status.st_size > FILE_LIMIT:
        return SkillHead(
            name=name,
            wrong=(
                N_(
                    "its {MAIN_FILE} has {st_size} bytes; 1 MiB is the most",
                    MAIN_FILE=MAIN_FILE,
                    st_size=format(status.st_size, ","),
                ),
            ),
        )
    try:
        text = decode_text(read_file(folder, MAIN_FILE))
    except UsageError as error:
        return SkillHead(name=name, wrong=(error.message.rstrip("."),))
    return (
        SkillHead(name=name, wrong=(N_("its {MAIN_FILE} is not text in UTF-8", MAIN_FILE=MAIN_FILE),))
        if text is None
        else read_head(text, name, is_foreign=is_foreign)
    )
