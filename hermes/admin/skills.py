"""Skills as a session has them, and the verbs about them that every front-end shares."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from hermes.config.environment import with_dotenv
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import NotFoundError, UsageError
from hermes.sessions.app import App
from hermes.sessions.features.skills import skills_of
from hermes.sessions.formats.openai_format import Plain
from hermes.skills.catalogue import Skill
from hermes.skills.diff import diff_lines
from hermes.skills.files import Files
from hermes.skills.skills import Change, Skills
from hermes.store.revisions import Author, Revision, RevisionState
from hermes.store.store import Store
from hermes.util.clock import SystemClock
from hermes.util.text import escaped, shown_address
from hermes.web.access import WebAccess

if TYPE_CHECKING:
    from hermes.skills.install import Package

_STATES = (RevisionState.APPLIED, RevisionState.UNDONE)


class SkillDesk:
    """What a person can do with skills: plain rows and lines for a front-end to show."""

    def __init__(self, skills: Skills, web: WebAccess | None = None) -> None:
        self.skills = skills
        self._web = web

    async def names(self) -> list[str]:
        """The names by which skills can be asked for."""
        return [skill.name for skill in await asyncio.to_thread(self.skills.catalogue.all) if skill.usable]

    async def rows(self) -> list[Plain]:
        """Every skill, broken and hidden ones too, with what is known of its use."""
        use = await self.skills.usefulness()
        waiting = {one.name for one in await self.skills.pending()}
        rows = []
        for skill in await asyncio.to_thread(self.skills.catalogue.all):
            row = skill_row(skill)
            known = use.get(skill.name)
            row |= {name: getattr(known, name) if known else 0 for name in ("used", "helped", "failed")}
            rows.append(row | {"pending": skill.name in waiting})
        return rows

    async def view(self, name: str) -> Plain:
        """One skill with its text."""
        skill = await self.skills.find(name)
        text = await self.skills.text(name, "SKILL.md")
        return skill_row(skill) | {"files": await self.skills.files(name), "text": text}

    async def pending(self) -> list[Plain]:
        """The changes that wait for a yes."""
        return [revision_row(one) for one in await self.skills.pending()]

    async def log(self, name: str) -> list[Plain]:
        """Every change of a skill, the newest first."""
        return [revision_row(one) for one in await self.skills.log(name)]

    async def diff(self, which: str) -> tuple[Plain, list[str]]:
        """A change by its number, or the newest of a skill that waits, else that was made: the row, and the lines."""
        revision = await self._meant(which)
        return revision_row(revision), await self.skills.diff(revision)

    async def approve(self, revision_id: int) -> Plain:
        """Say yes."""
        return revision_row(await self.skills.apply(revision_id, "person"))

    async def reject(self, revision_id: int) -> Plain:
        """Say no."""
        return revision_row(await self.skills.reject(revision_id, "person"))

    async def rollback(self, name: str, to: int | None) -> Plain:
        """Put a skill back."""
        return revision_row(await self.skills.rollback(name, to))

    async def package(self, source: str) -> "Package":
        """A skill from a folder, an archive, an https address, or of the optional ones by its name; nothing is kept of
        it yet. Raises UsageError, ToolError."""
        from hermes.skills.install import from_bytes, from_path

        if "://" in source:
            return await asyncio.to_thread(from_bytes, await self._fetched(source), shown_address(source))
        known = await asyncio.to_thread(self.skills.catalogue.all)
        optional = [skill.folder for skill in known if skill.tier == "optional" and skill.name == source]
        return await asyncio.to_thread(from_path, Path(optional[0] if optional else source))

    async def offer(self, package: "Package") -> Plain:
        """What installing a package would bring: files, hash, findings, and the difference to what stands now."""
        before = await self.skills.base(package.name)
        return {
            "name": package.name,
            "source": package.source,
            "sha256": package.sha256,
            "files": {path: len(data) for path, data in sorted(package.files.items())},
            "findings": list(package.findings),
            "new": before is None,
            "diff": await asyncio.to_thread(diff_lines, before, package.files),
        }

    async def install(self, package: "Package") -> Plain:
        """Keep a package as it is; the person has said yes to exactly these files."""
        reason = f"installed from {package.source}, sha256 {package.sha256}"
        return await self._made(package.name, package.files, Author.IMPORT, reason)

    async def remove(self, name: str) -> Plain:
        """Take a skill of the person's own away; `rollback` brings it back."""
        known = await asyncio.to_thread(self.skills.catalogue.all)
        skill = next((one for one in known if one.name == name), None)
        if skill is None:
            raise NotFoundError(f"There is no skill {name[:80]!r}.", "`hermes skills list` shows them.")
        if skill.tier != "own":
            raise UsageError(f"{name} is {skill.tier}.", "Name it in `skills.disabled` in config.yaml.")
        return await self._made(name, None, Author.PERSON, "removed")

    async def _made(self, name: str, after: Files | None, author: Author, reason: str) -> Plain:
        revision_id = await self.skills.propose(Change(name, after), author=author, reason=reason)
        return revision_row(await self.skills.apply(revision_id, "person"))

    async def _fetched(self, url: str) -> bytes:
        if not url.startswith("https://") or self._web is None:
            raise UsageError(f"{shown_address(url)} is no https address.", "Download it yourself and name the file.")
        from hermes.skills.install import ARCHIVE_LIMIT
        from hermes.web.fetch import FetchLimits

        async with self._web.fetcher(limits=FetchLimits(bytes=ARCHIVE_LIMIT)) as fetcher:
            page = await fetcher.fetch(url)
        if page.elsewhere:
            raise UsageError(
                f"{shown_address(url)} leads to {shown_address(page.elsewhere)}.", "Name that, if you want it."
            )
        if page.status != 200:
            raise UsageError(f"{shown_address(url)} answers {page.status}.")
        return page.body

    async def _meant(self, which: str) -> Revision:
        if which.isdecimal():
            return await self.skills.revision(int(which[:30]))
        changes = await self.skills.log(which)
        waiting = [one for one in changes if one.state is RevisionState.PENDING]
        made = [one for one in changes if one.state in _STATES]
        if not waiting and not made:
            raise NotFoundError(f"No change of a skill {which[:80]!r} is known.", "`hermes skills pending` lists them.")
        return (waiting or made)[0]


def skill_admin(app: App) -> SkillDesk:
    """Return what a person can do with the skills of a process's home."""
    on = app.premises
    return SkillDesk(skills_of(on.home, on.settings, on.environ, on.store))


@asynccontextmanager
async def open_desk(environ: Mapping[str, str]) -> AsyncIterator[SkillDesk]:
    """The desk of this home, for a front-end that has no session. Makes the home when there is none."""
    home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    store = await Store.open(home.root, SystemClock())
    try:
        whole = with_dotenv(environ, home.env_file)
        skills = skills_of(home, settings, whole, store)
        await skills.settle()
        private = settings.security.allow_private_urls
        yield SkillDesk(skills, WebAccess(environ=whole, private=private, ca_file=settings.model.ca_bundle))
    finally:
        await store.close()


def as_shown(text: str) -> str:
    """A text as it may be shown: what a terminal would obey and what cannot be seen is written out."""
    return escaped(text)


def skill_row(skill: Skill) -> Plain:
    """A skill as plain values."""
    head = skill.head
    return {
        "name": skill.name,
        "tier": str(skill.tier),
        "category": skill.category,
        "description": head.description,
        "state": "broken" if head.wrong else "hidden" if skill.hidden_by else "lacking" if skill.missing else "ok",
        "why": _why(skill),
        "odd": list(head.odd),
        "vouched": skill.vouched,
        "folder": skill.folder,
    }


def _why(skill: Skill) -> str:
    if skill.head.wrong or skill.hidden_by:
        return "; ".join(skill.head.wrong or (skill.hidden_by,))
    return f"lacks {', '.join(skill.missing)}" if skill.missing else ""


def revision_row(revision: Revision) -> Plain:
    """A change as plain values, without the texts."""
    row: Plain = to_builtins(revision)
    what = "delete" if revision.after is None else "create" if revision.before is None else "change"
    row = {name: value for name, value in row.items() if name not in ("before", "after", "kind")}
    return row | {"what": what, "sources": list(revision.sources)}
