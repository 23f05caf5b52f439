"""The skills of a home, and every change of them: proposed, decided, written, undone.

A change is a row first (`store/revisions.py`): the whole skill as it stood and as it is to stand. Its files are written
into a folder beside, which then takes the skill's place; a process that dies in between leaves the row `applying` and
the folder, and whoever comes next finishes it (`settle`).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.skills import files as folders
from hermes.skills.catalogue import Catalogue, Skill, Tier
from hermes.skills.diff import diff_lines
from hermes.skills.files import MAIN, Files
from hermes.skills.skill import is_name, parted
from hermes.skills.validate import check
from hermes.store.revisions import Author, NewRevision, Revision, RevisionState, Usefulness, writing_alone
from hermes.store.store import Store

KIND = "skill"
_WAITING = 50
"""Changes that may wait for a person at once; more of them nobody reads."""
_REASON = 600


class Change(Struct, frozen=True):
    """A skill as it is to stand; None: it is to go."""

    name: str
    after: Files | None


class Skills:
    """All verbs about the skills of one home; `lock` is the file that keeps two processes from writing at once."""

    def __init__(self, catalogue: Catalogue, store: Store, *, own: Path, lock: Path) -> None:
        self.catalogue = catalogue
        self._store = store
        self._own = own
        self._lock = lock

    def index(self) -> list[Skill]:
        """The skills that are offered, by name."""
        return self.catalogue.index()

    async def find(self, name: str) -> Skill:
        """The skill of this name that counts. Raises NotFoundError, UsageError for one that cannot be used."""
        return await asyncio.to_thread(self.catalogue.find, name)

    async def body(self, name: str) -> str:
        """A skill's instructions. Raises NotFoundError, UsageError."""
        text = await self.text(name, MAIN)
        return parted(text)[1]

    async def text(self, name: str, path: str) -> str:
        """A file of a skill as text. Raises NotFoundError, UsageError."""
        skill = await self.find(name)
        raw = await asyncio.to_thread(folders.read_file, skill.folder, path)
        text = folders.as_text(raw)
        if text is None:
            raise UsageError(f"{path} of {name} is no text ({len(raw):,} bytes); it lies in {skill.folder}.")
        return text

    async def files(self, name: str) -> list[str]:
        """The paths of a skill's files."""
        skill = await self.find(name)
        return await asyncio.to_thread(folders.listed, skill.folder)

    async def used(self, name: str) -> None:
        """A skill's instructions were read."""
        await self._store.count_use(KIND, name, used=1)

    async def note_outcome(self, name: str, *, helped: bool) -> None:
        """What came of a turn that used a skill."""
        await self._store.count_use(KIND, name, helped=int(helped), failed=int(not helped))

    async def usefulness(self) -> dict[str, Usefulness]:
        """What is known of each skill's use."""
        return {one.name: one for one in await self._store.usefulness(KIND)}

    async def base(self, name: str, session_id: str = "") -> Files | None:
        """What a change begins with: what this session has proposed already, else the skill as it stands; None: there
        is none."""
        waiting = await self._own_pending(name, session_id)
        if waiting is not None:
            return folders.decoded(waiting.after)
        async with writing_alone(self._lock, "skills"):
            own = await asyncio.to_thread(_own_files, self.catalogue, name)
        return own if own is not None else await asyncio.to_thread(_shipped, self.catalogue, name)

    async def propose(
        self,
        change: Change,
        *,
        author: Author,
        reason: str = "",
        sources: Sequence[str] = (),
        session_id: str = "",
        turn_id: str = "",
    ) -> int:
        """Write a change down; it waits for a yes. The id of its row. Raises UsageError for one that cannot be.

        What the same session has proposed for the same skill before becomes part of it and is closed.
        """
        if not is_name(change.name):
            raise UsageError(
                f"{change.name[:80]!r} cannot be a skill's name.", "Use lower-case letters, digits and single hyphens."
            )
        if change.after is not None:
            check(change.after, change.name)
        async with writing_alone(self._lock, "skills"):  # nothing is taken away or put there while it is read
            before = await asyncio.to_thread(_own_files, self.catalogue, change.name)
        if before == change.after:
            raise UsageError(f"That would change nothing of {change.name}.")
        earlier = await self._own_pending(change.name, session_id)
        if earlier is None and len(await self.pending()) >= _WAITING:
            raise UsageError(f"{_WAITING} changes wait for a person's answer already.", "Let them be answered first.")
        reasons, given = (earlier.reason, earlier.sources) if earlier is not None else ("", ())
        revision_id = await self._store.add_revision(
            NewRevision(
                kind=KIND,
                name=change.name,
                author=author,
                before=folders.encoded(before),
                after=folders.encoded(change.after),
                reason="; ".join(filter(None, dict.fromkeys((reasons, reason))))[:_REASON],
                sources=tuple(dict.fromkeys([*given, *sources])),
                session_id=session_id,
                turn_id=turn_id,
            ),
            RevisionState.PENDING,
        )
        if earlier is not None:
            by = f"part of {revision_id} now"
            await self._store.move_revision(
                earlier.id, RevisionState.REJECTED, expecting=(RevisionState.PENDING,), by=by
            )
        return revision_id

    async def pending(self) -> list[Revision]:
        """The changes that wait for a yes, the newest first."""
        return await self._store.revisions(KIND, states=(RevisionState.PENDING,), limit=10 * _WAITING)

    async def revision(self, revision_id: int) -> Revision:
        """The change of this number. Raises NotFoundError."""
        found = await self._store.revision(revision_id) if 0 < revision_id < 1 << 63 else None
        if found is None or found.kind != KIND:
            raise NotFoundError(f"There is no change {revision_id} of a skill.", "`hermes skills pending` lists them.")
        return found

    async def log(self, name: str) -> list[Revision]:
        """Every change of a skill, the newest first."""
        return await self._store.revisions(KIND, name=name, limit=1_000)

    async def diff(self, revision: Revision) -> list[str]:
        """What a change changes, a line each. One that waits is shown against what stands now."""
        if revision.state is RevisionState.PENDING:
            before = await asyncio.to_thread(_own_files, self.catalogue, revision.name)
        else:
            before = folders.decoded(revision.before)
        after = folders.decoded(revision.after)
        if before is None or after is None:  # a built-in one stands behind it
            shipped = await asyncio.to_thread(_shipped, self.catalogue, revision.name)
            before, after = before or shipped, after or (shipped if before is not None else None)
        return await asyncio.to_thread(diff_lines, before, after)

    async def apply(self, revision_id: int, by: str) -> Revision:
        """Say yes to a change and write it. Raises NotFoundError, UsageError when it does not wait or the skill has
        changed since, StoreError when it cannot be written; it waits on then."""
        async with writing_alone(self._lock, "skills"):
            revision = await self.revision(revision_id)
            if revision.state is not RevisionState.PENDING:
                decided = f" ({revision.decided_by})" if revision.decided_by else ""
                raise UsageError(f"Change {revision_id} does not wait: it is {revision.state}{decided}.")
            after = folders.decoded(revision.after)
            now = await asyncio.to_thread(_own_files, self.catalogue, revision.name)
            if now != folders.decoded(revision.before) and now != after:
                raise UsageError(
                    f"The skill {revision.name} has changed since change {revision_id} was proposed.",
                    f"`hermes skills reject {revision_id}`, and let it be proposed anew.",
                )
            await self._written(revision, after, by)
        return await self.revision(revision_id)

    async def reject(self, revision_id: int, by: str) -> Revision:
        """Say no to a change. Raises NotFoundError, UsageError when it does not wait."""
        await self.revision(revision_id)
        expecting = (RevisionState.PENDING,)
        if not await self._store.move_revision(revision_id, RevisionState.REJECTED, expecting=expecting, by=by):
            raise UsageError(f"Change {revision_id} does not wait for an answer.")
        return await self.revision(revision_id)

    async def rollback(self, name: str, to: int | None = None, *, by: str = "person") -> Revision:
        """Put a skill back: to what change `to` had made of it, else to what stood before its last change.

        That is a change itself, so it can be taken back too. Raises NotFoundError, UsageError.
        """
        applied = [one for one in await self.log(name) if one.state is RevisionState.APPLIED]
        if not applied:
            raise NotFoundError(f"No change of a skill {name[:80]!r} is known.", "`hermes skills log NAME` lists them.")
        if to is None and applied[0].before is None and await self._only_own(name):
            raise UsageError(f"There is no earlier version of {name}.", f"`hermes skills remove {name}` takes it away.")
        if to is None:
            after, what = applied[0].before, f"as before change {applied[0].id}"
        else:
            meant = next((one for one in applied if one.id == to), None)
            if meant is None:
                known = ", ".join(str(one.id) for one in applied[:20])
                raise UsageError(f"Change {to} is none that was applied to {name}.", f"Applied are: {known}.")
            after, what = meant.after, f"as change {to} left it"
        change = Change(name, folders.decoded(after))
        revision_id = await self.propose(change, author=Author.PERSON, reason=f"rolled back: {what}")
        return await self.apply(revision_id, by)

    async def _only_own(self, name: str) -> bool:
        """Whether no other skill of this name stands behind the person's own."""
        return await asyncio.to_thread(_shipped, self.catalogue, name) is None

    async def settle(self) -> None:
        """Finish what processes that died have left half done: rows, and folders. Costs a look at both where nothing
        is."""
        broken_off = (RevisionState.APPLYING,)
        if not await self._store.revisions(KIND, states=broken_off) and not folders.leftovers(self._own):
            return
        async with writing_alone(self._lock, "skills"):
            for revision in await self._store.revisions(KIND, states=broken_off):
                now = await asyncio.to_thread(_own_files, self.catalogue, revision.name)
                if now is None or now in (folders.decoded(revision.before), folders.decoded(revision.after)):
                    await self._written(revision, folders.decoded(revision.after), revision.decided_by)
                else:  # the person has changed it by hand meanwhile: they are asked again
                    await self._store.move_revision(revision.id, RevisionState.PENDING, expecting=broken_off)
            await asyncio.to_thread(folders.clear, self._own)

    async def _written(self, revision: Revision, after: Files | None, by: str) -> None:
        """Write a change whose answer was yes; the lock is held."""
        standing = await asyncio.to_thread(_standing, self.catalogue, revision.name)
        target = self._own / revision.name if standing is None else Path(standing.folder)
        try:
            staged = await asyncio.to_thread(folders.write_staged, self._own, revision.name, after)
            waiting = (RevisionState.PENDING, RevisionState.APPLYING)
            if not await self._store.move_revision(revision.id, RevisionState.APPLYING, expecting=waiting, by=by):
                raise UsageError(f"Change {revision.id} was answered elsewhere.")
            await asyncio.to_thread(folders.swap, staged, target, gone=after is None)
        except OSError as error:
            raise StoreError(
                f"The skill {revision.name} cannot be written: {error.strerror}.", f"Make {self._own} writable."
            ) from None
        await self._store.move_revision(revision.id, RevisionState.APPLIED, expecting=(RevisionState.APPLYING,), by=by)
        await asyncio.to_thread(folders.clear, self._own)

    async def _own_pending(self, name: str, session_id: str) -> Revision | None:
        """What a session has proposed for a skill and nobody has answered yet."""
        if not session_id:
            return None
        return next((one for one in await self.pending() if one.session_id == session_id and one.name == name), None)


def _standing(catalogue: Catalogue, name: str) -> Skill | None:
    """The person's own skill of this name, broken or not."""
    return next((one for one in catalogue.all() if one.name == name and one.tier is Tier.OWN), None)


def _own_files(catalogue: Catalogue, name: str) -> Files | None:
    standing = _standing(catalogue, name)
    return None if standing is None else folders.read_folder(standing.folder)


def _shipped(catalogue: Catalogue, name: str) -> Files | None:
    """The files of a skill that is not the person's own: a change makes a copy of it theirs."""
    found = next((one for one in catalogue.all() if one.name == name and one.tier is not Tier.OWN), None)
    return None if found is None or not found.vouched else folders.read_folder(found.folder)
