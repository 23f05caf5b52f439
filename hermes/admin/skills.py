"""The skills of a session, and the operations on skills that every front-end shares."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.admin.config import change_settings
from hermes.admin.home_services import open_home_services
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.sessions.app import App
from hermes.sessions.features.skills import build_skills
from hermes.skills.catalog import Skill, normalize_skill_name
from hermes.skills.diff import diff_lines
from hermes.skills.files import Files
from hermes.skills.skill_library import SkillChange, SkillLibrary
from hermes.store.revisions import Revision, RevisionAuthor, RevisionState
from hermes.tools.session import WebAccess
from hermes.util.text import redact_url

if TYPE_CHECKING:
    from hermes.skills.install import SkillPackage

_APPLIED_STATES = (RevisionState.APPLIED, RevisionState.UNDONE)


class SkillSwitch(Struct, frozen=True):
    """The skills that were switched, those that were so already, and the file that says so."""

    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    file: str


class SkillAdmin:
    """Operations of a person on skills; returns plain rows and lines for a front-end to show."""

    def __init__(self, skills: SkillLibrary, home: HermesHome, web: WebAccess | None = None) -> None:
        self.skills = skills
        self._home = home
        self._web = web

    async def usable_names(self) -> list[str]:
        """List the names of the skills that can be used."""
        return [skill.name for skill in await asyncio.to_thread(self.skills.catalog.list_all) if skill.is_usable]

    async def list_skills(self) -> list[Plain]:
        """List every skill, broken and hidden ones too, with statistics of its use."""
        use = await self.skills.load_usefulness()
        waiting = {one.name for one in await self.skills.list_pending()}
        rows = []
        for skill in await asyncio.to_thread(self.skills.catalog.list_all):
            row = skill_row(skill)
            known = use.get(skill.name)
            row |= {name: getattr(known, name) if known else 0 for name in ("used", "helped", "failed")}
            rows.append(row | {"pending": skill.name in waiting})
        return rows

    async def view_skill(self, name: str) -> Plain:
        """Return one skill with its text."""
        skill = await self.skills.find_skill(name)
        text = await self.skills.read_text(name, "SKILL.md")
        return skill_row(skill) | {"files": await self.skills.list_files(name), "text": text}

    async def list_pending(self) -> list[Plain]:
        """List the changes that wait for approval."""
        return [skill_revision_row(one) for one in await self.skills.list_pending()]

    async def list_log(self, name: str) -> list[Plain]:
        """List every change of a skill, the newest first."""
        return [skill_revision_row(one) for one in await self.skills.list_revisions(name)]

    async def diff_change(self, which: str) -> tuple[Plain, list[str]]:
        """Return a change and its diff lines.

        `which` is a change's id, or a skill's name for its newest pending, else its newest change.
        """
        revision = await self._find_change(which)
        return skill_revision_row(revision), await self.skills.diff_revision(revision)

    async def approve_change(self, revision_id: int) -> Plain:
        """Approve a pending change."""
        return skill_revision_row(await self.skills.approve_change(revision_id, "person"))

    async def reject_change(self, revision_id: int) -> Plain:
        """Reject a pending change."""
        return skill_revision_row(await self.skills.reject_change(revision_id, "person"))

    async def rollback_skill(self, name: str, to: int | None) -> Plain:
        """Restore an earlier version of a skill."""
        return skill_revision_row(await self.skills.roll_back(name, to))

    async def load_package(self, source: str) -> "SkillPackage":
        """Load a skill from a folder, an archive, an https address, or by the name of an optional one.

        Nothing is stored yet. Raises UsageError, ToolError.
        """
        from hermes.skills.install import package_from_bytes, package_from_path

        if "://" in source:
            return await asyncio.to_thread(package_from_bytes, await self._fetch_archive(source), redact_url(source))
        known = await asyncio.to_thread(self.skills.catalog.list_all)
        optional = [skill.folder for skill in known if skill.tier == "optional" and skill.name == source]
        return await asyncio.to_thread(package_from_path, Path(optional[0] if optional else source))

    async def preview_package(self, package: "SkillPackage") -> Plain:
        """Describe what installing a package would bring: files, hash, findings, and the difference to what exists."""
        before = await self.skills.load_base(package.name)
        return {
            "name": package.name,
            "source": package.source,
            "sha256": package.sha256,
            "files": {path: len(data) for path, data in sorted(package.files.items())},
            "findings": list(package.findings),
            "new": before is None,
            "diff": await asyncio.to_thread(diff_lines, before, package.files),
        }

    async def install_package(self, package: "SkillPackage") -> Plain:
        """Install a package as it is; the user has approved exactly these files."""
        reason = N_("installed from {source}, sha256 {sha256}", source=package.source, sha256=package.sha256)
        return await self._apply_change(package.name, package.files, RevisionAuthor.IMPORT, reason)

    async def switch_skills(self, names: Sequence[str], *, on: bool) -> SkillSwitch:
        """Enable or disable skills by `skills.disabled` of `config.yaml`, from the next start on.

        Raises NotFoundError for a name that no skill has, UsageError and ConfigError when the file cannot be changed.
        """
        disabled = [normalize_skill_name(name) for name in load_settings(self._home).settings.skills.disabled]
        wanted = list(dict.fromkeys(map(normalize_skill_name, names)))
        await self._check_known([name for name in wanted if name not in disabled])
        changed = tuple(name for name in wanted if (name in disabled) is on)
        if changed:
            after = [name for name in disabled if name not in changed] if on else [*disabled, *changed]
            await asyncio.to_thread(change_settings, self._home, {("skills", "disabled"): after})
        return SkillSwitch(changed, tuple(name for name in wanted if name not in changed), str(self._home.config_file))

    async def _check_known(self, names: Sequence[str]) -> None:
        known = {skill.name for skill in await asyncio.to_thread(self.skills.catalog.list_all)}
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise NotFoundError(
                N_("There is no skill {name}.", name=repr(unknown[:80])),
                suggest_name(unknown[:100], known) or "`hermes skills list` shows them.",
            )

    async def remove_skill(self, name: str) -> Plain:
        """Remove one of the user's own skills; `rollback_skill` restores it."""
        known = await asyncio.to_thread(self.skills.catalog.list_all)
        skill = next((one for one in known if one.name == name), None)
        if skill is None:
            raise NotFoundError(
                N_("There is no skill {name}.", name=repr(name[:80])), "`hermes skills list` shows them."
            )
        if skill.tier != "own":
            raise UsageError(
                N_("{name} is {tier}.", name=name, tier=skill.tier),
                N_("`hermes skills disable {name}` leaves it out.", name=name),
            )
        return await self._apply_change(name, None, RevisionAuthor.PERSON, "removed")

    async def _apply_change(self, name: str, after: Files | None, author: RevisionAuthor, reason: str) -> Plain:
        revision_id = await self.skills.propose_change(SkillChange(name, after), author=author, reason=reason)
        return skill_revision_row(await self.skills.approve_change(revision_id, "person"))

    async def _fetch_archive(self, url: str) -> bytes:
        if not url.startswith("https://") or self._web is None:
            raise UsageError(
                N_("{redact_url} is not an https address.", redact_url=redact_url(url)),
                "Download it yourself and name the file.",
            )
        from hermes.skills.install import ARCHIVE_LIMIT
        from hermes.web.fetch import FetchLimits

        async with self._web.make_fetcher(limits=FetchLimits(bytes=ARCHIVE_LIMIT)) as fetcher:
            page = await fetcher.fetch_page(url)
        if page.other_site:
            raise UsageError(
                N_(
                    "{redact_url} leads to {redact_url_2}.",
                    redact_url=redact_url(url),
                    redact_url_2=redact_url(page.other_site),
                ),
                "Name that, if you want it.",
            )
        if page.status != 200:
            raise UsageError(N_("{redact_url} answers {status}.", redact_url=redact_url(url), status=page.status))
        return page.body

    async def _find_change(self, which: str) -> Revision:
        if which.isdecimal():
            return await self.skills.get_revision(int(which[:30]))
        changes = await self.skills.list_revisions(which)
        waiting = [one for one in changes if one.state is RevisionState.PENDING]
        made = [one for one in changes if one.state in _APPLIED_STATES]
        if not waiting and not made:
            raise NotFoundError(
                N_("No change of a skill {which} is known.", which=repr(which[:80])),
                "`hermes skills pending` lists them.",
            )
        return (waiting or made)[0]


def skill_admin(app: App) -> SkillAdmin:
    """Return what a person can do with the skills of a process's home."""
    on = app.services
    return SkillAdmin(build_skills(on.home, on.settings, on.environ, on.store), on.home)


@asynccontextmanager
async def open_skill_admin(environ: Mapping[str, str]) -> AsyncIterator[SkillAdmin]:
    """Open the skills of this home, for a front-end that has no session. Creates the home when there is none."""
    async with open_home_services(environ) as on:
        whole = merge_dotenv(environ, on.home.env_file)
        skills = build_skills(on.home, on.settings, whole, on.store)
        await skills.settle_interrupted()
        private = on.settings.security.allow_private_urls
        yield SkillAdmin(
            skills, on.home, WebAccess(environ=whole, private=private, ca_file=on.settings.model.ca_bundle)
        )


def skill_row(skill: Skill) -> Plain:
    """Return a skill as plain values."""
    head = skill.head
    return {
        "name": skill.name,
        "tier": str(skill.tier),
        "category": skill.category,
        "description": head.description,
        "state": "broken" if head.wrong else "hidden" if skill.hidden_by else "lacking" if skill.missing else "ok",
        "why": _unusable_reason(skill),
        "odd": list(head.odd),
        "vouched": skill.trusted,
        "folder": skill.folder,
    }


def _unusable_reason(skill: Skill) -> str:
    if skill.head.wrong or skill.hidden_by:
        return "; ".join(skill.head.wrong or (skill.hidden_by,))
    return N_("lacks {missing}", missing=", ".join(skill.missing)) if skill.missing else ""


def skill_revision_row(revision: Revision) -> Plain:
    """Return a change as plain values, without the texts."""
    row: Plain = to_plain(revision)
    what = "delete" if revision.after is None else "create" if revision.before is None else "change"
    row = {name: value for name, value in row.items() if name not in ("before", "after", "kind")}
    return row | {"what": what, "sources": list(revision.sources)}
