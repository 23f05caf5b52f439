"""The catalog of skills: built in, the user's own, and in folders that the settings name.

What was read of a SKILL.md is cached under the file's stamp, so that a start reads no file that has not changed.
"""

import contextlib
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from hermes.core.errors import NotFoundError, UsageError
from hermes.plugins import suggest_name
from hermes.skills.files import FILE_LIMIT, MAIN_FILE, decode_text, read_file
from hermes.skills.skill_head import SkillHead, is_skill_name, keep_plain_name, read_head
from hermes.util.atomic_write import write_atomic

_CACHE_VERSION = 2
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

    def __init__(self, roots: SkillRoots, environ: Mapping[str, str]) -> None:
        self._roots = roots
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
        skills = self.list_all()
        found = [skill for skill in skills if skill.name == name]
        for skill in found:
            if skill.is_usable:
                return skill
        if found and found[0].head.wrong:
            first = found[0]  # the faults of an untrusted skill quote its content
            why = "; ".join(first.head.wrong) if first.trusted else "`hermes skills list` says why"
            raise UsageError(f"The skill {name!r} cannot be used: {why}.")
        if found:
            raise UsageError(f"The skill {name!r} is not used: {found[0].hidden_by}.")
        near = suggest_name(name[:100], [skill.name for skill in skills if skill.is_usable])
        raise NotFoundError(f"There is no skill {name[:80]!r}.", near)

    def _list_roots(self) -> list[tuple[SkillTier, str]]:
        roots = self._roots
        external = [(SkillTier.EXTERNAL, os.path.abspath(os.path.expanduser(folder))) for folder in roots.external]
        return [
            (SkillTier.OWN, str(roots.own)),
            *external,
            (SkillTier.BUILT_IN, roots.built_in),
            (SkillTier.OPTIONAL, roots.optional),
        ]

    def _build_skill(self, tier: SkillTier, root: str, folder: str) -> Skill:
        name = os.path.basename(folder)
        head = self._load_head(folder, name)
        above = os.path.relpath(os.path.dirname(folder), root)
        hidden = "it is optional; `hermes skills install` it" if tier is SkillTier.OPTIONAL else ""
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

    def _load_head(self, folder: str, name: str) -> SkillHead:
        """Return what is known of the skill in a folder."""
        entries = self._load_cache()
        try:
            status = os.lstat(os.path.join(folder, MAIN_FILE))
        except OSError as error:
            return SkillHead(name=name, wrong=(f"its {MAIN_FILE} cannot be read: {error.strerror}",))
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = entries.get(folder)
        if known is not None and known.stamp == stamp:
            return known.head
        head = _read_changed_head(folder, name, status)
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
                where = first.folder if first.tier is skill.tier else f"the {first.tier} one"
                skill = structs.replace(skill, hidden_by=f"{where} of that name goes before it")  # noqa: PLW2901
            elif skill.is_usable:
                taken[skill.name] = skill
                missing = tuple(self._iter_missing(skill.head, have))
                skill = structs.replace(skill, missing=missing) if missing else skill  # noqa: PLW2901
            settled.append(skill)
        return sorted(settled, key=lambda skill: skill.name)

    def _iter_missing(self, head: SkillHead, have: dict[str, bool]) -> Iterator[str]:
        here = _PLATFORMS.get(sys.platform, sys.platform)
        if head.platforms and here not in head.platforms and sys.platform not in head.platforms:
            yield f"it is for {', '.join(head.platforms)}"
        for program in head.programs:
            if program not in have:
                have[program] = shutil.which(program, path=self._environ.get("PATH", "")) is not None
            if not have[program]:
                yield f"the program {program}"
        for name in head.env:
            if not self._environ.get(name):
                yield f"the variable {name}"

    def _known_programs(self) -> dict[str, bool]:
        """Return which programs are known to be there or not; looked for again every few seconds."""
        now = time.monotonic()
        if now - self._looked > _FRESH:
            self._found_programs, self._looked = {}, now
            """The programs that were there or not at the time `_looked`."""
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
            raw = msgspec.json.encode(_Cache(_CACHE_VERSION, self._entries or {}))
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


def _read_changed_head(folder: str, name: str, status: os.stat_result) -> SkillHead:
    """Read the head of a SKILL.md that has changed."""
    if not is_skill_name(name):
        said = f"its folder's name {name[:80]!r} is not made of lower-case letters, digits and single hyphens"
        return SkillHead(name=name, wrong=(said,))
    if os.path.islink(folder) or stat.S_ISLNK(status.st_mode):
        return SkillHead(name=name, wrong=("it is a link; name its real folder in `skills.external_dirs`",))
    if status.st_size > FILE_LIMIT:
        return SkillHead(name=name, wrong=(f"its {MAIN_FILE} has {status.st_size:,} bytes; 1 MiB is the most",))
    try:
        text = decode_text(read_file(folder, MAIN_FILE))
    except UsageError as error:
        return SkillHead(name=name, wrong=(error.message.rstrip("."),))
    return (
        SkillHead(name=name, wrong=(f"its {MAIN_FILE} is not text in UTF-8",))
        if text is None
        else read_head(text, name)
    )
