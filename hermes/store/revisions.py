"""Revisions: changes of what the agent keeps beyond a session (memory, skills): proposed, decided, applied, undone; and
use counts.

The content itself is a file in the home, which its owner writes; a row holds the text before and after.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import N_
from hermes.store.repository import Repository, Transaction, reads, writes

_POLL_SECONDS = 0.01
_PATIENCE = 10.0
_FIELDS = (
    "id, kind, name, author, reason, sources, session_id, turn_id, before, after,"
    " state, made_at, decided_at, decided_by"
)


class RevisionState(StrEnum):
    """The state of a change."""

    PENDING = "pending"
    """It waits for a person."""
    APPLYING = "applying"
    """Its file is being written, or a process died while it was."""
    APPLIED = "applied"
    REJECTED = "rejected"
    UNDONE = "undone"


class RevisionAuthor(StrEnum):
    """The author of a change."""

    MODEL = "model"
    """The model in a conversation, through a tool."""
    REVIEW = "review"
    """The background review after a turn."""
    PERSON = "person"
    IMPORT = "import"


class NewRevision(Struct, frozen=True, kw_only=True):
    """A change about to be stored. `before` and `after` are the contents without and with it (None: nothing).

    `reason` is the evidence in a line or two; `sources` are the untrusted sources that stood in the conversation.
    """

    kind: str
    name: str
    author: RevisionAuthor
    before: bytes | None
    after: bytes | None
    reason: str = ""
    sources: tuple[str, ...] = ()
    session_id: str = ""
    turn_id: str = ""


class Revision(NewRevision, frozen=True, kw_only=True):
    """A stored change; times are in seconds since the epoch."""

    id: int
    state: RevisionState
    made_at: float
    decided_at: float | None = None
    decided_by: str = ""


class UsefulnessCounts(Struct, frozen=True, kw_only=True):
    """Use counts of a kept item, and when it was used last."""

    name: str
    used: int = 0
    helped: int = 0
    failed: int = 0
    last_at: float = 0.0


class RevisionRepository(Repository):
    """Store operations for revisions. Those that change a state return whether they did: of several at once only one
    does.
    """

    @writes
    def add(self, tx: Transaction, change: NewRevision, state: RevisionState) -> int:
        """Store a change, and return its id. It is on disk when this returns."""
        values = msgspec.structs.asdict(change) | {"sources": to_json(change.sources).decode()}
        found = tx.execute(
            "INSERT INTO revisions (kind, name, author, reason, sources, session_id, turn_id, before, after, state,"
            " made_at) VALUES (:kind, :name, :author, :reason, :sources, :session_id, :turn_id, :before, :after,"
            " :state, :made_at) RETURNING id",
            values | {"state": state, "made_at": tx.now},
        ).get
        return int(found)

    @writes
    def transition(
        self,
        tx: Transaction,
        revision_id: int,
        state: RevisionState,
        *,
        expecting: Collection[RevisionState],
        by: str = "",
    ) -> bool:
        """Set a change's state when it has one of `expecting`; return whether it had. `by` says who decided."""
        marks = ", ".join("?" * len(expecting))
        return tx.change_any(
            "UPDATE revisions SET state = ?, decided_at = ?, decided_by = iif(?3 = '', decided_by, ?3)"
            f" WHERE id = ?4 AND state IN ({marks})",
            (state, tx.now, by, revision_id, *expecting),
        )

    async def add_sources(self, revision_id: int, sources: Collection[str]) -> None:
        """Add untrusted sources to those that stood where a change was requested; each is stored once."""
        if sources:
            await self._merge_sources(revision_id, sources)

    @writes
    def _merge_sources(self, tx: Transaction, revision_id: int, sources: Collection[str]) -> None:
        known = tx.execute("SELECT sources FROM revisions WHERE id = ?", (revision_id,)).get
        joined = list(dict.fromkeys([*msgspec.json.decode(known or "[]"), *sources]))
        told = to_json(joined).decode()
        tx.execute("UPDATE revisions SET sources = ? WHERE id = ?", (told, revision_id))

    @reads
    def get(self, tx: Transaction, revision_id: int) -> Revision | None:
        """Return the change of this id, or None."""
        rows = tx.execute(f"SELECT {_FIELDS} FROM revisions WHERE id = ?", (revision_id,)).fetchall()
        return _to_revision(rows[0]) if rows else None

    @reads
    def list_newest(
        self,
        tx: Transaction,
        kind: str,
        *,
        name: str | None = None,
        states: Collection[RevisionState] = (),
        limit: int = 100,
    ) -> list[Revision]:
        """Return changes of a kind, the newest first; of one `name` and in some `states` if these are given."""
        marks = ", ".join("?" * len(states))
        where = f" AND state IN ({marks})" if states else ""
        rows = tx.execute(
            f"SELECT {_FIELDS} FROM revisions WHERE kind = ?1 AND (?2 IS NULL OR name = ?2){where}"
            " ORDER BY id DESC LIMIT ?",
            (kind, name, *states, limit),
        ).fetchall()
        return [_to_revision(row) for row in rows]

    @writes
    def count_use(
        self, tx: Transaction, kind: str, name: str, *, used: int = 0, helped: int = 0, failed: int = 0
    ) -> None:
        """Add to the use counts of a kept item."""
        tx.execute(
            "INSERT INTO usefulness (kind, name, used, helped, failed, last_at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, name) DO UPDATE SET used = used + excluded.used,"
            " helped = helped + excluded.helped, failed = failed + excluded.failed, last_at = excluded.last_at",
            (kind, name, used, helped, failed, tx.now),
        )

    @reads
    def list_usefulness(self, tx: Transaction, kind: str) -> list[UsefulnessCounts]:
        """Return the use counts of everything of a kind, by name."""
        return tx.select_all(
            UsefulnessCounts,
            "SELECT name, used, helped, failed, last_at FROM usefulness WHERE kind = ? ORDER BY name",
            (kind,),
        )


def _to_revision(row: tuple[object, ...]) -> Revision:
    values = dict(zip(_FIELDS.split(", "), row, strict=True))
    values["sources"] = msgspec.json.decode(str(values["sources"]))
    return msgspec.convert(values, Revision)


@contextlib.asynccontextmanager
async def hold_write_lock(lock: Path, what: str) -> AsyncIterator[None]:
    """Hold the lock for writing these files; the kernel releases it when its holder dies.

    Raises BusyError when another process writes for ten seconds, StoreError when the lock cannot be made.
    """
    from hermes.util.file_lock import open_lock_file, try_lock

    with contextlib.ExitStack() as stack:
        try:
            lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = stack.enter_context(open_lock_file(lock))
            async with asyncio.timeout(_PATIENCE):
                while not try_lock(handle):  # noqa: ASYNC110 - the other side is another process
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise BusyError(N_("Another Hermes is writing {what}.", what=what), "Try again in a moment.") from None
        except OSError as error:
            said = N_("The lock of the {what} cannot be made: {strerror}.", what=what, strerror=error.strerror)
            raise StoreError(said, N_("Make {parent} writable.", parent=lock.parent)) from None
        yield
