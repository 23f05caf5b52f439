"""Administration of sessions, shared by every front-end."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from hermes.app.openai_form import Plain, to_openai
from hermes.config.home import locate_home
from hermes.core.errors import NotFoundError, UsageError
from hermes.store.rows import SessionRow
from hermes.store.store import Store
from hermes.util.clock import SystemClock


@asynccontextmanager
async def stored_sessions(environ: Mapping[str, str]) -> "AsyncIterator[Sessions]":
    """The sessions of this home. Raises NotFoundError when the home has none yet, so that looking creates nothing."""
    home = locate_home(environ)
    if not home.database.exists():
        raise NotFoundError(f"There are no sessions in {home.root} yet.", 'Start one: hermes -z "..."')
    store = await Store.open(home.root, SystemClock())
    try:
        yield Sessions(store)
    finally:
        await store.close()


async def find_session(store: Store, name: str) -> SessionRow:
    """The one session whose id begins with `name` or whose title it is. Raises NotFoundError or UsageError."""
    found = await store.find_sessions(name)
    exact = [row for row in found if row.id == name]
    if len(found) > 1 and not exact:
        ids = ", ".join(row.id for row in found[:5])
        raise UsageError(f"{name!r} could be {len(found)} sessions: {ids}.", "Type more of the id.")
    if not found:
        raise NotFoundError(f"There is no session {name!r}.", "`hermes sessions list` shows them.")
    return (exact or found)[0]


class Sessions:
    """What can be done with stored sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def newest(self, limit: int) -> list[Plain]:
        """The newest sessions, newest first."""
        return [_plain(row) for row in await self._store.list_sessions(limit)]

    async def show(self, name: str, *, hidden: bool = False) -> Plain:
        """One session with its messages; `hidden` shows what Hermes itself wrote too."""
        row = await find_session(self._store, name)
        rows = await self._store.transcript(row.id)
        epoch = await self._store.current_epoch(row.id)
        messages: list[Plain] = []
        for stored in rows:
            place: Plain = {"id": stored.id, "created_at": stored.created_at}
            messages += [place | plain for plain in to_openai(stored.message, hidden=hidden)]
        return {**_plain(row), "system_prompt": epoch.frame.system if epoch is not None else "", "messages": messages}

    async def search(self, query: str, *, limit: int, newest: bool) -> list[Plain]:
        """Messages that hold the words, newest or best first."""
        hits = await self._store.search(query, limit=limit, newest=newest)
        return [_plain(hit) for hit in hits]

    async def delete(self, name: str) -> str:
        """Delete a session with every word of it; returns its id."""
        row = await find_session(self._store, name)
        await self._store.delete_session(row.id)
        return row.id


def _plain(row: object) -> Plain:
    plain: Plain = msgspec.to_builtins(row)
    return plain
