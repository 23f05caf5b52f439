"""Every change of MEMORY.md and USER.md: proposed, decided, written, undone; a row for each entry that changes.

A change is a row first (`store/revisions.py`), then the file, then the row says so. A process that dies in between
leaves the row `applying`; whoever comes next looks at the file and settles it.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes.core.errors import HermesError, NotFoundError, UsageError
from hermes.memory.files import Change, Notebook, Target, changed, clean, meant, quoted
from hermes.safety.secrets.redactor import Redactor
from hermes.store.revisions import Author, NewRevision, Revision, RevisionState, writing_alone
from hermes.store.store import Store
from hermes.util.cancellation import whole

KIND = "memory"
WAITING = 50
"""Changes that may wait for a person at once; more of them nobody reads."""
_REASON = 600
_UNDOING = "undo: "
"""How `decided_by` begins while a change is being undone."""

Action = Literal["add", "replace", "remove"]


class Operation(Struct, frozen=True, kw_only=True):
    """One change."""

    action: Action
    content: str = ""
    old_text: str = ""
    """A part of the entry that is meant."""


class Origin(Struct, frozen=True, kw_only=True):
    """Who wants a change, and why. `sources` are the untrusted sources that stood in the conversation."""

    author: Author
    reason: str = ""
    sources: tuple[str, ...] = ()
    session_id: str = ""
    turn_id: str = ""


class Outcome(Struct, frozen=True):
    """What came of some operations: the changes' numbers, the entries as they stand now, and what was there already."""

    ids: tuple[int, ...]
    entries: tuple[str, ...]
    known: tuple[str, ...]
    changes: tuple[Change, ...] = ()


class _Plan:
    """Entries while operations are done on them, each with what stood in its place at first."""

    def __init__(self, target: Target, before: tuple[str, ...]) -> None:
        self.before = before
        self.known: list[str] = []
        self._target = target
        self._slots: list[tuple[str | None, str | None]] = [(entry, entry) for entry in before]

    def after(self) -> tuple[str, ...]:
        """The entries as they are to stand."""
        return tuple(now for _, now in self._slots if now is not None)

    def changes(self) -> tuple[Change, ...]:
        """What differs in the end, an entry each."""
        return tuple(Change(self._target, first, now) for first, now in self._slots if first != now)

    def put(self, old: str | None, new: str | None) -> None:
        """A new entry in the place of an old one. Raises UsageError when it stands elsewhere already."""
        if old is None and new in self.after():
            self.known.append(new or "")
            return
        changed(self.after(), Change(self._target, old, new))
        if old is None:
            self._slots.append((None, new))
            return
        at = next(place for place, (_, now) in enumerate(self._slots) if now == old)
        self._slots[at] = (self._slots[at][0], new)


class MemoryJournal:
    """All verbs about the memories of one home. `lock` is the file that keeps two processes from writing at once.

    A target that is not in `books` is switched off. Secrets are taken out of whatever is kept.
    """

    def __init__(
        self, books: Mapping[Target, Notebook], store: Store, redactor: Redactor, *, lock: Path, kind: str = KIND
    ) -> None:
        """`kind` is that of its rows: another one for each person whose memories are kept apart."""
        self.books = books
        self._kind = kind
        self._store = store
        self._redactor = redactor
        self._lock = lock

    def book(self, target: Target) -> Notebook:
        """The file of a target. Raises UsageError when it is switched off."""
        if target not in self.books:
            raise UsageError(f"{target.file} is switched off.", "`memory.user_profile_enabled` switches it on.")
        return self.books[target]

    async def entries(self, target: Target) -> tuple[str, ...]:
        """The entries as they stand. Raises UsageError for a file that cannot be a memory."""
        return await asyncio.to_thread(self.book(target).read)

    async def write(self, target: Target, operations: Sequence[Operation], origin: Origin) -> Outcome:
        """Do all of it at once, or nothing. Raises UsageError for what cannot be done, StoreError."""
        async with writing_alone(self._lock, "memories"):
            return await whole(self._write(target, operations, origin))

    async def hold(self, target: Target, operations: Sequence[Operation], origin: Origin) -> Outcome:
        """Write the same down; it waits for a person's yes, each changed entry by itself. Raises UsageError."""
        plan = await self._planned(target, operations)
        ids = [await self.propose(one, origin) for one in plan.changes()]
        return Outcome(tuple(ids), plan.before, tuple(plan.known))

    async def propose(self, change: Change, origin: Origin) -> int:
        """Write one change down; it waits for a yes. Its number, or that of the same one that waits already;
        its row names the sources of both.

        Raises UsageError for one that cannot be. Room is looked for when the yes comes.
        """
        ready = Change(change.target, change.before, self._ready(change.after, change.before))
        book = self.book(ready.target)
        changed(await asyncio.to_thread(book.read), ready)
        if len(ready.after or "") > book.limit:
            raise UsageError(f"It has {len(ready.after or ''):,} characters; {book.target.file} takes {book.limit:,}.")
        waiting = await self.pending()
        for one in waiting:
            if change_of(one) == ready:
                await self._store.add_sources(one.id, origin.sources)
                return one.id
        if len(waiting) >= WAITING:
            raise UsageError(f"{WAITING} changes wait for a person's answer already.", "Let them be answered first.")
        return await self._store.add_revision(self._row(ready, origin), RevisionState.PENDING)

    async def pending(self) -> list[Revision]:
        """The changes that wait for a yes, the newest first."""
        return await self._store.revisions(self._kind, states=(RevisionState.PENDING,), limit=10 * WAITING)

    async def log(self, limit: int = 100) -> list[Revision]:
        """All changes, the newest first."""
        return await self._store.revisions(self._kind, limit=limit)

    async def revision(self, revision_id: int) -> Revision:
        """The change of this number. Raises NotFoundError."""
        found = await self._store.revision(revision_id)
        if found is None or found.kind != self._kind:
            raise NotFoundError(f"There is no change {revision_id} of a memory.", "`hermes memory log` lists them.")
        return found

    async def apply(self, revision_id: int, by: str) -> Revision:
        """Say yes to a change and write it. Raises NotFoundError; UsageError when it does not wait, or does not fit
        what stands there by now; StoreError when it cannot be written. It waits on then."""
        async with writing_alone(self._lock, "memories"):
            revision = await self.revision(revision_id)
            if revision.state is not RevisionState.PENDING:
                decided = f" ({revision.decided_by})" if revision.decided_by else ""
                raise UsageError(f"Change {revision_id} does not wait: it is {revision.state}{decided}.")
            after = await self._fitting(change_of(revision), f"`hermes memory reject {revision_id}` closes it.")
            steps = (RevisionState.PENDING, RevisionState.APPLIED)
            await whole(self._moved(revision, change_of(revision), after, steps, by))
        return await self.revision(revision_id)

    async def reject(self, revision_id: int, by: str) -> Revision:
        """Say no to a change. Raises NotFoundError, UsageError when it does not wait."""
        await self.revision(revision_id)
        expecting = (RevisionState.PENDING,)
        if not await self._store.move_revision(revision_id, RevisionState.REJECTED, expecting=expecting, by=by):
            raise UsageError(f"Change {revision_id} does not wait for an answer.")
        return await self.revision(revision_id)

    async def undo(self, revision_id: int, by: str) -> Revision:
        """Put back what stood there before a change; other entries stay as they are. Raises NotFoundError; UsageError
        when it was not applied, or what it made no longer stands there; StoreError."""
        async with writing_alone(self._lock, "memories"):
            revision = await self.revision(revision_id)
            if revision.state is not RevisionState.APPLIED:
                raise UsageError(f"Change {revision_id} cannot be undone: it is {revision.state}.")
            made = change_of(revision)
            back = Change(made.target, made.after, made.before)
            # What stood there before stands there again, whether or not it would be let in today.
            after = await self._fitting(back, "Nothing was undone.", limited=False)
            steps = (RevisionState.APPLIED, RevisionState.UNDONE)
            await whole(self._moved(revision, back, after, steps, by))
        return await self.revision(revision_id)

    async def settle(self) -> None:
        """Say what became of changes whose process died while it wrote them. One look at the store where there are
        none."""
        if not await self._store.revisions(self._kind, states=(RevisionState.APPLYING,), limit=1):
            return
        async with writing_alone(
            self._lock, "memories"
        ):  # whoever is alive and writes holds the lock until its rows say so
            for revision in await self._store.revisions(self._kind, states=(RevisionState.APPLYING,), limit=1_000):
                with contextlib.suppress(UsageError):  # the file is not one now: it is asked again next time
                    await self._settled(revision)

    async def _settled(self, revision: Revision) -> None:
        entries = await self.entries(Target(revision.name))
        made = change_of(revision).done(entries)
        by = revision.decided_by
        if by.startswith(_UNDOING):
            by = by.removeprefix(_UNDOING)
            state = RevisionState.APPLIED if made else RevisionState.UNDONE
        elif made:
            state = RevisionState.APPLIED
        else:
            state = RevisionState.PENDING if by else RevisionState.REJECTED
            by = by or "its process died before it was written"
        await self._store.move_revision(revision.id, state, expecting=(RevisionState.APPLYING,), by=by)

    async def _write(self, target: Target, operations: Sequence[Operation], origin: Origin) -> Outcome:
        """The lock is held."""
        book = self.book(target)
        plan = await self._planned(target, operations)
        changes, after = plan.changes(), plan.after()
        book.check_room(after, plan.before)
        if not changes:
            return Outcome((), after, tuple(plan.known))
        add, move = self._store.add_revision, self._store.move_revision
        ids = [await add(self._row(one, origin), RevisionState.APPLYING) for one in changes]
        try:
            await asyncio.to_thread(book.write, after)
        except HermesError as error:
            for one in ids:
                await move(one, RevisionState.REJECTED, expecting=(RevisionState.APPLYING,), by=error.message[:_REASON])
            raise
        for one in ids:
            await move(one, RevisionState.APPLIED, expecting=(RevisionState.APPLYING,), by=str(origin.author))
        return Outcome(tuple(ids), after, tuple(plan.known), changes)

    async def _planned(self, target: Target, operations: Sequence[Operation]) -> "_Plan":
        """What the operations come to. Raises UsageError when one of them cannot be done."""
        plan = _Plan(target, await self.entries(target))
        for number, one in enumerate(operations, 1):
            try:
                old = None if one.action == "add" else meant(plan.after(), one.old_text, target.file)
                plan.put(old, None if one.action == "remove" else self._ready(one.content, old))
            except UsageError as error:
                if len(operations) == 1:
                    raise
                raise UsageError(f"Operation {number}: {error.message}", f"Nothing was done. {error.hint}") from None
        return plan

    async def _fitting(self, change: Change, hint: str, *, limited: bool = True) -> tuple[str, ...]:
        """The entries with this change. Raises UsageError, with `hint`, when it does not fit what stands there."""
        book = self.book(change.target)
        before = await asyncio.to_thread(book.read)
        try:
            after = changed(before, change)
        except UsageError as error:
            raise UsageError(error.message, hint) from None
        if limited:
            book.check_room(after, before)
        return after

    async def _moved(
        self,
        revision: Revision,
        change: Change,
        entries: Sequence[str],
        steps: tuple[RevisionState, RevisionState],
        by: str,
    ) -> None:
        """Write entries for a decided change; its row goes from the first state to the second. The lock is held."""
        first, last = steps
        under_way = f"{_UNDOING}{by}" if last is RevisionState.UNDONE else by
        move = self._store.move_revision
        if not await move(revision.id, RevisionState.APPLYING, expecting=(first,), by=under_way):
            raise UsageError(f"Change {revision.id} was answered elsewhere.")
        try:
            await asyncio.to_thread(self.book(change.target).write, entries)
        except HermesError:
            await move(revision.id, first, expecting=(RevisionState.APPLYING,), by=revision.decided_by)
            raise
        await move(revision.id, last, expecting=(RevisionState.APPLYING,), by=by)

    def _row(self, change: Change, origin: Origin) -> NewRevision:
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

    def _ready(self, text: str | None, before: str | None) -> str | None:
        """An entry as it is kept: without secrets, without what cannot be seen. Raises UsageError."""
        if text is None:
            return None
        found = self._redactor.resolve(text, before or "")
        if not isinstance(found, str):
            raise UsageError(f"A placeholder of a secret cannot be kept: {found.reason}")
        return clean(self._redactor.redact(found))


def change_of(revision: Revision) -> Change:
    """The change that a row stands for."""
    return Change(Target(revision.name), _text(revision.before), _text(revision.after))


def described(change: Change) -> str:
    """A change in a few words, for lists and notices."""
    if change.before is None:
        return f"add {quoted(change.after or '')}"
    if change.after is None:
        return f"remove {quoted(change.before)}"
    return f"replace {quoted(change.before)} by {quoted(change.after)}"


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode()
