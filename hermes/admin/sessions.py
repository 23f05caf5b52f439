"""Administration of sessions, shared by every front-end."""

import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct, field

from hermes.config.home import Home, locate_home
from hermes.core.errors import BusyError, NotFoundError, StoreError, UsageError
from hermes.i18n.messages import phrase
from hermes.runtime.locks import session_lock
from hermes.sessions.formats.openai_format import Plain, to_openai
from hermes.sessions.session_lookup import find_session, to_plain
from hermes.store.rows import MessageState, StoredMessage
from hermes.store.store import Store
from hermes.util.clock import SystemClock
from hermes.util.text import inert, one_line

MOST_TITLE = 200
"""Characters of a session's title."""


@asynccontextmanager
async def stored_sessions(environ: Mapping[str, str]) -> "AsyncIterator[Sessions]":
    """The sessions of this home. Raises NotFoundError when the home has none yet, so that looking creates nothing."""
    home = locate_home(environ)
    home.check()
    if not home.database.exists():
        raise NotFoundError(f"There are no sessions in {home.root} yet.", 'Start one: hermes -z "..."')
    store = await Store.open(home.root, SystemClock())
    try:
        yield Sessions(store, home)
    finally:
        await store.close()


@asynccontextmanager
async def open_store(home: Home) -> "AsyncIterator[Store | None]":
    """The home's store; None, with nothing created, when there is none yet."""
    home.check()
    if not home.database.exists():
        yield None
        return
    store = await Store.open(home.root, SystemClock())
    try:
        yield store
    finally:
        await store.close()


class Node(Struct, kw_only=True):
    """A session in the tree; of a branch `turns` says with how many turns of the one above it began."""

    id: str
    title: str
    updated_at: float
    messages: int
    turns: int = 0
    branches: "list[Node]" = field(default_factory=list)

    @property
    def newest(self) -> float:
        """When something was said last, here or below."""
        return max([self.updated_at, *(one.newest for one in self.branches)])


class Sessions:
    """What can be done with stored sessions."""

    def __init__(self, store: Store, home: Home) -> None:
        self._store = store
        self._home = home

    async def newest(self, limit: int) -> list[Plain]:
        """The newest sessions, newest first."""
        return [to_plain(row) | {"kind": row.kind} for row in await self._store.list_sessions(limit)]

    async def tree(self, limit: int) -> "list[Node]":
        """The newest sessions with those that branched from them, and those that they branched from."""
        nodes: dict[str, Node] = {}
        roots: list[Node] = []
        for row, parent in await self._store.session_tree(limit):
            node = nodes[row.id] = Node(
                id=row.id,
                title=row.title,
                updated_at=row.updated_at,
                messages=row.message_count,
                turns=row.branched_at or 0,
            )
            above = nodes.get(parent) if parent is not None else None
            (roots if above is None else above.branches).append(node)
        return sorted(roots, key=lambda node: -node.newest)

    async def find(self, name: str) -> Plain:
        """The session that `name` means, without its messages."""
        row = await find_session(self._store, name)
        return to_plain(row) | {"kind": row.kind}

    async def show(self, name: str, *, hidden: bool = False) -> Plain:
        """One session with all that was said in it, condensed by now or not; `hidden` shows what Hermes itself wrote
        too."""
        row = await find_session(self._store, name)
        rows = await self._said(row.id, hidden=hidden)
        epoch = await self._store.current_epoch(row.id)
        messages: list[Plain] = []
        for stored in rows:
            place: Plain = {"id": stored.id, "created_at": stored.created_at}
            messages += [place | plain for plain in to_openai(stored.message, hidden=hidden)]
        return {
            **to_plain(row),
            "kind": row.kind,
            "system_prompt": epoch.frame.system if epoch is not None else "",
            "messages": messages,
        }

    async def _said(self, session_id: str, *, hidden: bool) -> list[StoredMessage]:
        """What was not taken back, in order; what stands for other messages only with `hidden`."""
        compactions = await self._store.compactions(await self._store.tip(session_id))
        made = {one for compaction in compactions for one in compaction.made}
        rows = await self._store.transcript(session_id, everything=True)
        return [row for row in rows if row.state is not MessageState.UNDONE and (hidden or row.id not in made)]

    async def search(self, query: str, *, limit: int, newest: bool) -> list[Plain]:
        """Messages that hold the words, newest or best first."""
        hits = await self._store.search(query, limit=limit, newest=newest)
        return [to_plain(hit) for hit in hits]

    async def rename(self, name: str, title: str) -> Plain:
        """Give a session another title; the row as it is then. Raises UsageError for a title that says nothing."""
        row = await find_session(self._store, name)
        title = one_line(inert(title), MOST_TITLE)
        if not title:
            raise UsageError(phrase("The title is empty."))
        await self._store.rename_session(row.id, title)
        return to_plain(row) | {"title": title}

    async def idle(self, seconds: float) -> list[Plain]:
        """Conversations in which nothing was said for so long, the oldest first."""
        return [to_plain(row) for row in await self._store.idle_sessions(time.time() - seconds)]

    async def prune(self, seconds: float) -> tuple[list[Plain], list[Plain]]:
        """Delete those with every word of them, but for what is open; what went, and what is open."""
        gone: list[Plain] = []
        open_ones: list[Plain] = []
        for row in await self.idle(seconds):
            session_id = str(row["id"])
            try:
                async with session_lock(self._home.locks, session_id):
                    _delete_files(self._home, session_id)
                    await self._store.delete_session(session_id, purge=False)
                    (self._home.locks / f"{session_id}.lock").unlink(missing_ok=True)
            except BusyError:
                open_ones.append(row)
                continue
            gone.append(row)
        if gone:
            await self._store.purge()
        return gone, open_ones

    async def stats(self) -> Plain:
        """How much there is: sessions, messages, tokens, in all and by model and front-end, and the files' sizes."""
        sums = await self._store.session_sums()
        _, count, messages, tokens = sums[0] if sums else ("", 0, 0, 0)
        files = {name: self._home.root / name for name in ("hermes.db", "search.db")}
        return {
            "sessions": count,
            "messages": messages,
            "tokens": tokens,
            "models": [_sum_row(one) for one in await self._store.session_sums("model")],
            "sources": [_sum_row(one) for one in await self._store.session_sums("source")],
            "bytes": {name: file.stat().st_size for name, file in files.items() if file.exists()},
        }

    async def _forget_copies(self) -> None:
        """Delete the copies of files that only the deleted session's checkpoints had. Raises StoreError."""
        if not self._home.checkpoints.is_dir():
            return
        from hermes.checkpoints.object_store import ObjectStore
        from hermes.checkpoints.retention import Keep, collect

        try:
            await collect(self._store, ObjectStore(self._home.checkpoints), Keep(total=1 << 62))
        except OSError as error:
            raise StoreError(f"The copies of its files cannot be deleted: {error.strerror}.") from None

    async def delete(self, name: str) -> str:
        """Delete a session with every word of it, files that belong to it included; what was done, in words.

        Raises BusyError while another process has it open, or what goes on from it.
        """
        row = await find_session(self._store, name)
        tip = await self._store.tip(row.id)
        before = set(await self._store.lineage(tip))
        async with session_lock(self._home.locks, tip):
            _delete_files(self._home, row.id)
            await self._store.delete_session(row.id)
            (self._home.locks / f"{row.id}.lock").unlink(missing_ok=True)
        await self._forget_copies()
        if tip == row.id:
            return row.id
        gone = len(before) - len(await self._store.lineage(tip)) - 1
        others = f", and with it {gone} more parts of the past of {tip}" if gone > 0 else ""
        return f"{row.id}{others}; what was condensed since then stands in {tip} again as it was"


def _sum_row(row: tuple[str, int, int, int]) -> Plain:
    return dict(zip(("key", "sessions", "messages", "tokens"), row, strict=True))


def _delete_files(home: Home, session_id: str) -> None:
    """Delete the results that were too large for the transcript, and the trajectories. Raises StoreError."""
    import glob

    try:
        if (home.spill / session_id).is_dir():
            shutil.rmtree(home.spill / session_id)
        for file in home.trajectories.glob(f"{glob.escape(session_id)}_turn_*.json"):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"The files of session {session_id} cannot be deleted: {error.strerror}.") from None
