"""The journal of MEMORY.md and USER.md: every change is proposed, decided, written, undone; a row for each
entry that changes.

A change is a row first (`store/revisions.py`), then the file, then the row says so. A process that dies
in between leaves the row `applying`; the next process looks at the file and settles it.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes.core.errors import HermesError, NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.memory.files import (
    EntryChange,
    MemoryNotebook,
    MemoryTarget,
    apply_change,
    clean_entry,
    find_entry,
    quote_entry,
)
from hermes.safety.secrets.redactor import Redactor
from hermes.store.revisions import NewRevision, Revision, RevisionAuthor, RevisionState, hold_write_lock
from hermes.store.store import Store
from hermes.util.cancellation import run_to_completion

KIND = "memory"
MAX_PENDING = 50
"""Changes that may wait for approval at once; more of them nobody reads."""
_REASON = 600
_UNDOING = "undo: "
"""How `decided_by` begins while a change is being undone."""

Action = Literal["add", "replace", "remove"]


class MemoryOperation(Struct, frozen=True, kw_only=True):
    """One change."""

    action: Action
    content: str = ""
    old_text: str = ""
    """A part of the entry that is meant."""


class ChangeOrigin(Struct, frozen=True, kw_only=True):
    """Who wants a change, and why. `sources` are the untrusted sources that stood in the conversation."""

    author: RevisionAuthor
    reason: str = ""
    sources: tuple[str, ...] = ()
    session_id: str = ""
    turn_id: str = ""


class MemoryOutcome(Struct, frozen=True):
    """The outcome of some operations: the changes' numbers, the entries as they are now, and what was there already."""

    ids: tuple[int, ...]
    entries: tuple[str, ...]
    known: tuple[str, ...]
    changes: tuple[EntryChange, ...] = ()


class _OperationPlan:
    """Entries while operations are applied to them, each with the entry that was in its place at first."""

    def __init__(self, target: MemoryTarget, before: tuple[str, ...]) -> None:
        self.before = before
        self.known: list[str] = []
        self._target = target
        self._slots: list[tuple[str | None, str | None]] = [(entry, entry) for entry in before]

    def planned_entries(self) -> tuple[str, ...]:
        """Return the entries as they are to be."""
        return tuple(now for _, now in self._slots if now is not None)

    def list_changes(self) -> tuple[EntryChange, ...]:
        """Return what differs in the end, an entry each."""
        return tuple(EntryChange(self._target, first, now) for first, now in self._slots if first != now)

    def replace_entry(self, old: str | None, new: str | None) -> None:
        """Put a new entry in the place of an old one. Raises UsageError when it exists elsewhere already."""
        if old is None and new in self.planned_entries():
            self.known.append(new or "")
            return
        apply_change(self.planned_entries(), EntryChange(self._target, old, new))
        if old is None:
            self._slots.append((None, new))
            return
        at = next(place for place, (_, now) in enumerate(self._slots) if now == old)
        self._slots[at] = (self._slots[at][0], new)


class MemoryJournal:
    """Every operation on the memories of one home. `lock` is the file that keeps two processes from writing at once.

    A target that is not in `notebooks` is switched off. Secrets are taken out of whatever is stored.
    """

    def __init__(
        self,
        notebooks: Mapping[MemoryTarget, MemoryNotebook],
        store: Store,
        redactor: Redactor,
        *,
        lock: Path,
        kind: str = KIND,
    ) -> None:
        """`kind` is that of its rows: another one for each person whose memories are kept apart."""
        self.notebooks = notebooks
        self._kind = kind
        self._store = store
        self._redactor = redactor
        self._lock = lock

    def notebook_for(self, target: MemoryTarget) -> MemoryNotebook:
        """Return the notebook of a target. Raises UsageError when it is switched off."""
        if target not in self.notebooks:
            raise UsageError(
                N_("{file} is switched off.", file=target.file), "`memory.user_profile_enabled` switches it on."
            )
        return self.notebooks[target]

    async def read_entries(self, target: MemoryTarget) -> tuple[str, ...]:
        """Return the entries as they are now. Raises UsageError for a file that cannot be a memory."""
        return await asyncio.to_thread(self.notebook_for(target).read_entries)

    async def write_operations(
        self, target: MemoryTarget, operations: Sequence[MemoryOperation], origin: ChangeOrigin
    ) -> MemoryOutcome:
        """Apply all operations at once, or none. Raises UsageError for what cannot be done, StoreError."""
        async with hold_write_lock(self._lock, "memories"):
            return await run_to_completion(self._write_locked(target, operations, origin))

    async def hold_operations(
        self, target: MemoryTarget, operations: Sequence[MemoryOperation], origin: ChangeOrigin
    ) -> MemoryOutcome:
        """Record the operations to wait for approval, each changed entry by itself. Raises UsageError."""
        plan = await self._plan_operations(target, operations)
        ids = [await self.propose_change(one, origin) for one in plan.list_changes()]
        return MemoryOutcome(tuple(ids), plan.before, tuple(plan.known))

    async def propose_change(self, change: EntryChange, origin: ChangeOrigin) -> int:
        """Record one change to wait for approval; return its number, or that of the same one that waits already.

        The row names the sources of both. Raises UsageError for one that cannot be. Room is checked at approval.
        """
        ready = EntryChange(change.target, change.before, self._prepare_entry(change.after, change.before))
        book = self.notebook_for(ready.target)
        apply_change(await asyncio.to_thread(book.read_entries), ready)
        if len(ready.after or "") > book.limit:
            raise UsageError(
                N_(
                    "It has {after} characters; {file} takes {limit}.",
                    after=format(len(ready.after or ""), ","),
                    file=book.target.file,
                    limit=format(book.limit, ","),
                )
            )
        waiting = await self.list_pending()
        for one in waiting:
            if change_from_revision(one) == ready:
                await self._store.revisions.add_sources(one.id, origin.sources)
                return one.id
        if len(waiting) >= MAX_PENDING:
            raise UsageError(
                N_("{MAX_PENDING} changes wait for a person's answer already.", MAX_PENDING=MAX_PENDING),
                "Let them be answered first.",
            )
        return await self._store.revisions.add(self._to_revision(ready, origin), RevisionState.PENDING)

    async def list_pending(self) -> list[Revision]:
        """Return the changes that wait for approval, newest first."""
        return await self._store.revisions.list_newest(
            self._kind, states=(RevisionState.PENDING,), limit=10 * MAX_PENDING
        )

    async def list_revisions(self, limit: int = 100) -> list[Revision]:
        """Return all changes, newest first."""
        return await self._store.revisions.list_newest(self._kind, limit=limit)

    async def get_revision(self, revision_id: int) -> Revision:
        """Return the change of this number. Raises NotFoundError."""
        found = await self._store.revisions.get(revision_id)
        if found is None or found.kind != self._kind:
            raise NotFoundError(
                N_("There is no change {revision_id} of a memory.", revision_id=revision_id),
                "`hermes memory log` lists them.",
            )
        return found

    async def approve_change(self, revision_id: int, by: str) -> Revision:
        """Approve a change and write it.

        Raises NotFoundError; UsageError when it does not wait, or does not fit the file by now; StoreError when
        it cannot be written. It waits on then.
        """
        async with hold_write_lock(self._lock, "memories"):
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
            after = await self._entries_with_change(
                change_from_revision(revision),
                N_("`hermes memory reject {revision_id}` closes it.", revision_id=revision_id),
            )
            steps = (RevisionState.PENDING, RevisionState.APPLIED)
            await run_to_completion(self._write_decided(revision, change_from_revision(revision), after, steps, by))
        return await self.get_revision(revision_id)

    async def reject_change(self, revision_id: int, by: str) -> Revision:
        """Reject a change. Raises NotFoundError, UsageError when it does not wait."""
        await self.get_revision(revision_id)
        expecting = (RevisionState.PENDING,)
        if not await self._store.revisions.transition(revision_id, RevisionState.REJECTED, expecting=expecting, by=by):
            raise UsageError(N_("Change {revision_id} does not wait for an answer.", revision_id=revision_id))
        return await self.get_revision(revision_id)

    async def undo_change(self, revision_id: int, by: str) -> Revision:
        """Put back the entry from before a change; other entries stay as they are.

        Raises NotFoundError; UsageError when it was not applied, or what it made is gone; StoreError.
        """
        async with hold_write_lock(self._lock, "memories"):
            revision = await self.get_revision(revision_id)
            if revision.state is not RevisionState.APPLIED:
                raise UsageError(
                    N_(
                        "Change {revision_id} cannot be undone: it is {state}.",
                        revision_id=revision_id,
                        state=revision.state,
                    )
                )
            made = change_from_revision(revision)
            back = EntryChange(made.target, made.after, made.before)
            # What stood there before stands there again, whether or not it would be let in today.
            after = await self._entries_with_change(back, "Nothing was undone.", limited=False)
            steps = (RevisionState.APPLIED, RevisionState.UNDONE)
            await run_to_completion(self._write_decided(revision, back, after, steps, by))
        return await self.get_revision(revision_id)

    async def settle_interrupted(self) -> None:
        """Settle changes whose process died while it wrote them. Costs one look at the store where there are none."""
        if not await self._store.revisions.list_newest(self._kind, states=(RevisionState.APPLYING,), limit=1):
            return
        async with hold_write_lock(
            self._lock, "memories"
        ):  # whoever is alive and writes holds the lock until its rows say so
            for revision in await self._store.revisions.list_newest(
                self._kind, states=(RevisionState.APPLYING,), limit=1_000
            ):
                with contextlib.suppress(UsageError):  # the file is not one now: it is asked again next time
                    await self._settle_revision(revision)

    async def _settle_revision(self, revision: Revision) -> None:
        entries = await self.read_entries(MemoryTarget(revision.name))
        made = change_from_revision(revision).is_applied_to(entries)
        by = revision.decided_by
        if by.startswith(_UNDOING):
            by = by.removeprefix(_UNDOING)
            state = RevisionState.APPLIED if made else RevisionState.UNDONE
        elif made:
            state = RevisionState.APPLIED
        else:
            state = RevisionState.PENDING if by else RevisionState.REJECTED
            by = by or "its process died before it was written"
        await self._store.revisions.transition(revision.id, state, expecting=(RevisionState.APPLYING,), by=by)

    async def _write_locked(
        self, target: MemoryTarget, operations: Sequence[MemoryOperation], origin: ChangeOrigin
    ) -> MemoryOutcome:
        """Write the operations; the lock is held."""
        book = self.notebook_for(target)
        plan = await self._plan_operations(target, operations)
        changes, after = plan.list_changes(), plan.planned_entries()
        book.check_room(after, plan.before)
        if not changes:
            return MemoryOutcome((), after, tuple(plan.known))
        add, move = self._store.revisions.add, self._store.revisions.transition
        ids = [await add(self._to_revision(one, origin), RevisionState.APPLYING) for one in changes]
        try:
            await asyncio.to_thread(book.write_entries, after)
        except HermesError as error:
            for one in ids:
                await move(one, RevisionState.REJECTED, expecting=(RevisionState.APPLYING,), by=error.message[:_REASON])
            raise
        for one in ids:
            await move(one, RevisionState.APPLIED, expecting=(RevisionState.APPLYING,), by=str(origin.author))
        return MemoryOutcome(tuple(ids), after, tuple(plan.known), changes)

    async def _plan_operations(self, target: MemoryTarget, operations: Sequence[MemoryOperation]) -> "_OperationPlan":
        """Plan the operations. Raises UsageError when one of them cannot be done."""
        plan = _OperationPlan(target, await self.read_entries(target))
        for number, one in enumerate(operations, 1):
            try:
                old = None if one.action == "add" else find_entry(plan.planned_entries(), one.old_text, target.file)
                plan.replace_entry(old, None if one.action == "remove" else self._prepare_entry(one.content, old))
            except UsageError as error:
                if len(operations) == 1:
                    raise
                raise UsageError(
                    N_("Operation {number}: {message}", number=number, message=error.message),
                    N_("Nothing was done. {hint}", hint=error.hint),
                ) from None
        return plan

    async def _entries_with_change(self, change: EntryChange, hint: str, *, limited: bool = True) -> tuple[str, ...]:
        """Return the entries with this change. Raises UsageError, with `hint`, when it does not fit them."""
        book = self.notebook_for(change.target)
        before = await asyncio.to_thread(book.read_entries)
        try:
            after = apply_change(before, change)
        except UsageError as error:
            raise UsageError(error.message, hint) from None
        if limited:
            book.check_room(after, before)
        return after

    async def _write_decided(
        self,
        revision: Revision,
        change: EntryChange,
        entries: Sequence[str],
        steps: tuple[RevisionState, RevisionState],
        by: str,
    ) -> None:
        """Write entries for a decided change; its row goes from the first state to the second. The lock is held."""
        first, last = steps
        under_way = f"{_UNDOING}{by}" if last is RevisionState.UNDONE else by
        move = self._store.revisions.transition
        if not await move(revision.id, RevisionState.APPLYING, expecting=(first,), by=under_way):
            raise UsageError(N_("Change {id} was answered elsewhere.", id=revision.id))
        try:
            await asyncio.to_thread(self.notebook_for(change.target).write_entries, entries)
        except HermesError:
            await move(revision.id, first, expecting=(RevisionState.APPLYING,), by=revision.decided_by)
            raise
        await move(revision.id, last, expecting=(RevisionState.APPLYING,), by=by)

    def _to_revision(self, change: EntryChange, origin: ChangeOrigin) -> NewRevision:
        return NewRevision(
            kind=self._kind,
            name=change.target,
            author=origin.author,
            reason=origin.reason[:_REASON],
            sources=origin.sources,
            session_id=origin.session_id,
            turn_id=origin.turn_id,
            before=None if change.before is None else change.before.encode(),
            after=None if change.after is None else change.after.encode(),
        )

    def _prepare_entry(self, text: str | None, before: str | None) -> str | None:
        """Return an entry as it is stored: without secrets, without what cannot be seen. Raises UsageError."""
        if text is None:
            return None
        found = self._redactor.restore_placeholders(text, before or "")
        if not isinstance(found, str):
            raise UsageError(N_("A placeholder of a secret cannot be kept: {reason}", reason=found.reason))
        return clean_entry(self._redactor.redact(found))


def change_from_revision(revision: Revision) -> EntryChange:
    """Return the change that a row records."""
    return EntryChange(MemoryTarget(revision.name), _decode_text(revision.before), _decode_text(revision.after))


def describe_change(change: EntryChange) -> str:
    """Describe a change in a few words, for lists and notices."""
    if change.before is None:
        return N_("add {quote_entry}", quote_entry=quote_entry(change.after or ""))
    if change.after is None:
        return N_("remove {quote_entry}", quote_entry=quote_entry(change.before))
    return N_(
        "replace {quote_entry} by {quote_entry_2}",
        quote_entry=quote_entry(change.before),
        quote_entry_2=quote_entry(change.after),
    )


def _decode_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()
