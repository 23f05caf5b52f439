"""Skills as a session has them, and the verbs about them that every front-end shares."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import to_builtins

from hermes.app.openai_form import Plain
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.config.trusted import trusted_folders
from hermes.core.errors import HermesError, NotFoundError, UsageError
from hermes.core.messages import PROGRAM
from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.mailbox import Inbound
from hermes.skills.catalogue import Catalogue, Roots, Skill
from hermes.skills.skills import Skills
from hermes.store.revisions import Revision, RevisionState
from hermes.store.store import Store
from hermes.util.clock import SystemClock

_STATES = (RevisionState.APPLIED, RevisionState.UNDONE)


def skills_of(home: Home, settings: Settings, environ: Mapping[str, str], store: Store) -> Skills:
    """The skills of a home."""
    return Skills(catalogue_of(home, settings, environ), store, own=home.skills, lock=home.locks / "skills.lock")


def catalogue_of(home: Home, settings: Settings, environ: Mapping[str, str]) -> Catalogue:
    """What skills there are; needs no store."""
    chosen = settings.skills
    roots = Roots(
        own=home.skills,
        cache=home.cache,
        external=chosen.external_dirs,
        trusted=tuple(trusted_folders(home.trust_file)),
        disabled=chosen.disabled,
    )
    return Catalogue(roots, environ)


async def brought(skills: Skills, inbound: Inbound) -> Sequence[ImagePart | TextPart]:
    """The skill that a message asks for by `/name`."""
    if not inbound.text.startswith("/"):
        return ()
    from hermes.skills.command import named, skill_part

    name = named(inbound.text)
    known = {skill.name for skill in await asyncio.to_thread(skills.catalogue.all)} if name else set()
    if name not in known:
        return ()
    try:
        skill = await skills.find(name)
        body = await skills.body(name)
    except HermesError as error:
        return (TextPart(f"[The skill was not brought along: {error}]", PROGRAM),)
    await skills.used(name)
    return (skill_part(skill, body),)


class SkillDesk:
    """What a person can do with skills: plain rows and lines for a front-end to show."""

    def __init__(self, skills: Skills) -> None:
        self.skills = skills

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

    async def remove(self, name: str) -> Plain:
        """Take a skill of the person's own away; `rollback` brings it back."""
        from hermes.skills.skills import Change
        from hermes.store.revisions import Author

        skill = next((one for one in self.skills.catalogue.all() if one.name == name), None)
        if skill is None:
            raise NotFoundError(f"There is no skill {name[:80]!r}.", "`hermes skills list` shows them.")
        if skill.tier != "own":
            raise UsageError(f"{name} is {skill.tier}.", "Name it in `skills.disabled` in config.yaml.")
        change = Change(name, None)
        revision_id = await self.skills.propose(change, author=Author.PERSON, reason="removed")
        return revision_row(await self.skills.apply(revision_id, "person"))

    async def _meant(self, which: str) -> Revision:
        if which.isdecimal():
            return await self.skills.revision(int(which[:18]))
        changes = await self.skills.log(which)
        waiting = [one for one in changes if one.state is RevisionState.PENDING]
        made = [one for one in changes if one.state in _STATES]
        if not waiting and not made:
            raise NotFoundError(f"No change of a skill {which[:80]!r} is known.", "`hermes skills pending` lists them.")
        return (waiting or made)[0]


@asynccontextmanager
async def open_desk(environ: Mapping[str, str]) -> AsyncIterator[SkillDesk]:
    """The desk of this home, for a front-end that has no session. Makes the home when there is none."""
    home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    store = await Store.open(home.root, SystemClock())
    try:
        skills = skills_of(home, settings, with_dotenv(environ, home.env_file), store)
        await skills.settle()
        yield SkillDesk(skills)
    finally:
        await store.close()


def skill_row(skill: Skill) -> Plain:
    """A skill as plain values."""
    head = skill.head
    return {
        "name": skill.name,
        "tier": str(skill.tier),
        "category": skill.category,
        "description": head.description,
        "state": "broken" if head.wrong else "hidden" if skill.hidden_by else "lacking" if skill.missing else "ok",
        "why": "; ".join(head.wrong or ([skill.hidden_by] if skill.hidden_by else skill.missing)),
        "odd": list(head.odd),
        "vouched": skill.vouched,
        "folder": skill.folder,
    }


def revision_row(revision: Revision) -> Plain:
    """A change as plain values, without the texts."""
    row: Plain = to_builtins(revision)
    what = "delete" if revision.after is None else "create" if revision.before is None else "change"
    row = {name: value for name, value in row.items() if name not in ("before", "after", "kind")}
    return row | {"what": what, "sources": list(revision.sources)}
