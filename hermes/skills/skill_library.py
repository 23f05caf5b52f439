"""The skills of a home, and every change of them: proposed, decided, written, undone.

A change is a row first (`store/revisions.py`): the whole skill as it was and as it is to be. Its files
are written into a folder beside, which then takes the skill's place; a process that dies in between
leaves the row `applying` and the folder, and the next process finishes it (`settle_interrupted`).

Validates a skill against the specification: the same answer as `agentskills validate`, and limits of our own.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.i18n.messages import N_
from hermes.skills import files as folders
from hermes.skills.catalog import Skill, SkillCatalog, SkillHead, SkillTier, is_skill_name, read_head, split_head
from hermes.skills.files import MAIN_FILE, Files, check_files, decode_text, read_folder
from hermes.store.revisions import (
    NewRevision,
    Revision,
    RevisionAuthor,
    RevisionState,
    UsefulnessCounts,
    hold_write_lock,
)
from hermes.store.store import Store


def inspect_files(files: Files, name: str) -> SkillHead:
    """Return the head of a skill that is about to have this name, with all that is wrong with its files."""
    if MAIN_FILE not in files:
        return SkillHead(name=name, wrong=(N_("it has no {MAIN_FILE}", MAIN_FILE=MAIN_FILE),))
    text = decode_text(files[MAIN_FILE])
    if text is None:
        return SkillHead(name=name, wrong=(N_("{MAIN_FILE} is not text in UTF-8", MAIN_FILE=MAIN_FILE),))
    try:
        check_files(files)
    except UsageError as error:
        return SkillHead(name=name, wrong=(error.message.rstrip("."),))
    return read_head(text, name)


def check_skill(files: Files, name: str) -> SkillHead:
    """Return the head of a skill that is to be stored. Raises UsageError with all that is wrong."""
    head = inspect_files(files, name)
    if head.wrong:
        raise UsageError(N_("The skill {name} cannot be used: {wrong}.", name=repr(name), wrong="; ".join(head.wrong)))
    return head


def list_problems(folder: str) -> list[str]:
    """Return everything that is wrong or odd with the skill in a folder; none when it is as the
    specification has it.
    """
    folder = os.path.abspath(folder)
    try:
        head = inspect_files(read_folder(folder), os.path.basename(folder))
    except UsageError as error:
        return [error.message.rstrip(".")]
    return [*head.wrong, *head.odd]


KIND = "skill"
_MAX_PENDING = 50
"""Changes that may wait for approval at once; more of them nobody reads."""
_REASON = 600


class SkillChange(Struct, frozen=True):
    """A skill as it is to be; None: it is to be removed."""

    name: str
    after: Files | None


class SkillLibrary:
    """Every operation on the skills of one home; `lock` is the file that keeps two processes from writing at once."""

    def __init__(self, catalog: SkillCatalog, store: Store, *, own: Path, lock: Path) -> None:
        self.catalog = catalog
        self._store = store
        self._own = own
        self._lock = lock

    def list_offered(self) -> list[Skill]:
        """Return the skills that are offered, by name."""
        return self.catalog.list_offered()

    async def find_skill(self, name: str) -> Skill:
        """Return the skill of this name that counts. Raises NotFoundError, UsageError for one that cannot be used."""
        return await asyncio.to_thread(self.catalog.find_skill, name)

    async def read_instructions(self, name: str) -> str:
        """Return a skill's instructions. Raises NotFoundError, UsageError."""
        text = await self.read_text(name, MAIN_FILE)
        return split_head(text)[1]

    async def read_text(self, name: str, path: str) -> str:
        """Return a file of a skill as text. Raises NotFoundError, UsageError."""
        skill = await self.find_skill(name)
        raw = await asyncio.to_thread(folders.read_file, skill.folder, path)
        text = folders.decode_text(raw)
        if text is None:
            raise UsageError(
                N_(
                    "{path} of {name} is no text ({raw} bytes); it is in {folder}.",
                    path=path,
                    name=name,
                    raw=format(len(raw), ","),
                    folder=skill.folder,
                )
            )
        return text

    async def list_files(self, name: str) -> list[str]:
        """Return the paths of a skill's files."""
        skill = await self.find_skill(name)
        return await asyncio.to_thread(folders.list_files, skill.folder)

    async def count_use(self, name: str) -> None:
        """Count that a skill's instructions were read."""
        await self._store.revisions.count_use(KIND, name, used=1)

    async def note_outcome(self, name: str, *, helped: bool) -> None:
        """Count how a turn that used a skill ended."""
        await self._store.revisions.count_use(KIND, name, helped=int(helped), failed=int(not helped))

    async def load_usefulness(self) -> dict[str, UsefulnessCounts]:
        """Return the counts of each skill's use."""
        return {one.name: one for one in await self._store.revisions.list_usefulness(KIND)}

    async def load_base(self, name: str, session_id: str = "") -> Files | None:
        """Return the files that a change begins with; None when there are none.

        They are what this session has proposed already, else the skill as it is.
        """
        waiting = await self._find_pending(name, session_id)
        if waiting is not None:
            return folders.decode_files(waiting.after)
        async with hold_write_lock(self._lock, "skills"):
            own = await asyncio.to_thread(_read_own_files, self.catalog, name)
        return own if own is not None else await asyncio.to_thread(_read_shipped_files, self.catalog, name)

    async def propose_change(
        self,
        change: SkillChange,
        *,
        author: RevisionAuthor,
        reason: str = "",
        sources: Sequence[str] = (),
        session_id: str = "",
        turn_id: str = "",
    ) -> int:
        """Record a change to wait for approval; return the id of its row. Raises UsageError for one that cannot be.

        An earlier proposal of the same session for the same skill becomes part of it and is closed.
        """
        if not is_skill_name(change.name):
            raise UsageError(
                N_("{name} cannot be a skill's name.", name=repr(change.name[:80])),
                "Use small letters, digits and single hyphens.",
            )
        if change.after is not None:
            check_skill(change.after, change.name)
        async with hold_write_lock(self._lock, "skills"):  # nothing is taken away or put there while it is read
            before = await asyncio.to_thread(_read_own_files, self.catalog, change.name)
        if before == change.after:
            raise UsageError(N_("That would change nothing of {name}.", name=change.name))
        earlier = await self._find_pending(change.name, session_id)
        if earlier is None and len(await self.list_pending()) >= _MAX_PENDING:
            raise UsageError(
                N_("{MAX_PENDING} changes wait for a person's answer already.", MAX_PENDING=_MAX_PENDING),
                "Let them be answered first.",
            )
        reasons, given = (earlier.reason, earlier.sources) if earlier is not None else ("", ())
        revision_id = await self._store.revisions.add(
            NewRevision(
                kind=KIND,
                name=change.name,
                author=author,
                before=folders.encode_files(before),
                after=folders.encode_files(change.after),
                reason="; ".join(filter(None, dict.fromkeys((reasons, reason))))[:_REASON],
                sources=tuple(dict.fromkeys([*given, *sources])),
                session_id=session_id,
                turn_id=turn_id,
            ),
            RevisionState.PENDING,
        )
        if earlier is not None:
            by = N_("part of {revision_id} now", revision_id=revision_id)
            await self._store.revisions.transition(
                earlier.id, RevisionState.REJECTED, expecting=(RevisionState.PENDING,), by=by
            )
        return revision_id

    async def list_pending(self) -> list[Revision]:
        """Return the changes that wait for approval, newest first."""
        return await self._store.revisions.list_newest(KIND, states=(RevisionState.PENDING,), limit=10 * _MAX_PENDING)

    async def get_revision(self, revision_id: int) -> Revision:
        """Return the change of this number. Raises NotFoundError."""
        found = await self._store.revisions.get(revision_id) if 0 < revision_id < 1 << 63 else None
        if found is None or found.kind != KIND:
            raise NotFoundError(
                N_("There is no change {revision_id} of a skill.", revision_id=revision_id),
                "`hermes skills pending` lists them.",
            )
        return found

    async def list_revisions(self, name: str) -> list[Revision]:
        """Return every change of a skill, newest first."""
        return await self._store.revisions.list_newest(KIND, name=name, limit=1_000)

    async def diff_revision(self, revision: Revision) -> list[str]:
        """Return what a change changes, a line each. One that waits is compared with the current files."""
        if revision.state is RevisionState.PENDING:
            before = await asyncio.to_thread(_read_own_files, self.catalog, revision.name)
        else:
            before = folders.decode_files(revision.before)
        after = folders.decode_files(revision.after)
        if before is None or after is None:  # a built-in one stands behind it
            shipped = await asyncio.to_thread(_read_shipped_files, self.catalog, revision.name)
            before, after = before or shipped, after or (shipped if before is not None else None)
        from hermes.skills.diff import diff_lines

        return await asyncio.to_thread(diff_lines, before, after)

    async def approve_change(self, revision_id: int, by: str) -> Revision:
        """Approve a change and write it.

        Raises NotFoundError, UsageError when it does not wait or the skill has changed since, StoreError when
        it cannot be written; it waits on then.
        """
        async with hold_write_lock(self._lock, "skills"):
            revision = await self.get_revision(revision_id)
            if revision.state is not RevisionState.PENDING:
                decided = f" ({revision.decided_by})" if revision.decided_by else ""
                raise UsageError(
                    N_(
                        "Change {revision_id} does not wait: it is {state}{decided}.",
                        revision_id=revision_id,
                        state=revision.state,
                        decided=decided,
                    )
                )
            after = folders.decode_files(revision.after)
            now = await asyncio.to_thread(_read_own_files, self.catalog, revision.name)
            if now != folders.decode_files(revision.before) and now != after:
                raise UsageError(
                    N_(
                        "The skill {name} has changed since change {revision_id} was proposed.",
                        name=revision.name,
                        revision_id=revision_id,
                    ),
                    N_("Run `hermes skills reject {revision_id}` and have it proposed again.", revision_id=revision_id),
                )
            await self._write_approved(revision, after, by)
        return await self.get_revision(revision_id)

    async def reject_change(self, revision_id: int, by: str) -> Revision:
        """Reject a change. Raises NotFoundError, UsageError when it does not wait."""
        await self.get_revision(revision_id)
        expecting = (RevisionState.PENDING,)
        if not await self._store.revisions.transition(revision_id, RevisionState.REJECTED, expecting=expecting, by=by):
            raise UsageError(N_("Change {revision_id} does not wait for an answer.", revision_id=revision_id))
        return await self.get_revision(revision_id)

    async def roll_back(self, name: str, to: int | None = None, *, by: str = "person") -> Revision:
        """Put a skill back: to what change `to` had made of it, else to the state before its last change.

        That is a change itself, so it can be taken back too. Raises NotFoundError, UsageError.
        """
        applied = [one for one in await self.list_revisions(name) if one.state is RevisionState.APPLIED]
        if not applied:
            raise NotFoundError(
                N_("No change of a skill {name} is known.", name=repr(name[:80])),
                "`hermes skills log NAME` lists them.",
            )
        if to is None and applied[0].before is None and await self._has_only_own(name):
            raise UsageError(
                N_("There is no earlier version of {name}.", name=name),
                N_("`hermes skills remove {name}` takes it away.", name=name),
            )
        if to is None:
            after, what = applied[0].before, N_("as before change {id}", id=applied[0].id)
        else:
            meant = next((one for one in applied if one.id == to), None)
            if meant is None:
                known = ", ".join(str(one.id) for one in applied[:20])
                raise UsageError(
                    N_("Change {to} was not applied to {name}.", to=to, name=name),
                    N_("Applied are: {known}.", known=known),
                )
            after, what = meant.after, N_("as change {to} left it", to=to)
        change = SkillChange(name, folders.decode_files(after))
        revision_id = await self.propose_change(
            change, author=RevisionAuthor.PERSON, reason=N_("rolled back: {what}", what=what)
        )
        return await self.approve_change(revision_id, by)

    async def _has_only_own(self, name: str) -> bool:
        """Return whether no other skill of this name is behind the user's own."""
        return await asyncio.to_thread(_read_shipped_files, self.catalog, name) is None

    async def settle_interrupted(self) -> None:
        """Finish what processes that died have left half done: rows, and folders.

        Costs a look at both where there is nothing.
        """
        broken_off = (RevisionState.APPLYING,)
        if not await self._store.revisions.list_newest(KIND, states=broken_off) and not folders.list_leftovers(
            self._own
        ):
            return
        async with hold_write_lock(self._lock, "skills"):
            for revision in await self._store.revisions.list_newest(KIND, states=broken_off):
                now = await asyncio.to_thread(_read_own_files, self.catalog, revision.name)
                if now is None or now in (folders.decode_files(revision.before), folders.decode_files(revision.after)):
                    await self._write_approved(revision, folders.decode_files(revision.after), revision.decided_by)
                else:  # the person has changed it by hand meanwhile: they are asked again
                    await self._store.revisions.transition(revision.id, RevisionState.PENDING, expecting=broken_off)
            await asyncio.to_thread(folders.clear_leftovers, self._own)

    async def _write_approved(self, revision: Revision, after: Files | None, by: str) -> None:
        """Write an approved change; the lock is held."""
        standing = await asyncio.to_thread(_find_own_skill, self.catalog, revision.name)
        target = self._own / revision.name if standing is None else Path(standing.folder)
        try:
            staged = await asyncio.to_thread(folders.write_staged, self._own, revision.name, after)
            waiting = (RevisionState.PENDING, RevisionState.APPLYING)
            if not await self._store.revisions.transition(
                revision.id, RevisionState.APPLYING, expecting=waiting, by=by
            ):
                raise UsageError(N_("Change {id} was answered elsewhere.", id=revision.id))
            await asyncio.to_thread(folders.swap_folder, staged, target, gone=after is None)
        except OSError as error:
            raise StoreError(
                N_("The skill {name} cannot be written: {strerror}.", name=revision.name, strerror=error.strerror),
                N_("Make {own} writable.", own=self._own),
            ) from None
        await self._store.revisions.transition(
            revision.id, RevisionState.APPLIED, expecting=(RevisionState.APPLYING,), by=by
        )
        await asyncio.to_thread(folders.clear_leftovers, self._own)

    async def _find_pending(self, name: str, session_id: str) -> Revision | None:
        """Return what a session has proposed for a skill and nobody has answered yet."""
        if not session_id:
            return None
        return next(
            (one for one in await self.list_pending() if one.session_id == session_id and one.name == name), None
        )


def _find_own_skill(catalogue: SkillCatalog, name: str) -> Skill | None:
    """Return the user's own skill of this name, broken or not."""
    return next((one for one in catalogue.list_all() if one.name == name and one.tier is SkillTier.OWN), None)


def _read_own_files(catalogue: SkillCatalog, name: str) -> Files | None:
    standing = _find_own_skill(catalogue, name)
    return None if standing is None else folders.read_folder(standing.folder)


def _read_shipped_files(catalogue: SkillCatalog, name: str) -> Files | None:
    """Return the files of a skill that is not the user's own: a change makes a copy of it theirs."""
    found = next((one for one in catalogue.list_all() if one.name == name and one.tier is not SkillTier.OWN), None)
    return None if found is None or not found.trusted else folders.read_folder(found.folder)
