"""Administer stored sessions, for every front-end."""

import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct, field, structs

from hermes.admin.home_services import open_existing_store
from hermes.config.home import HermesHome, locate_home
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import BusyError, NotFoundError, StoreError, UsageError
from hermes.core.messages import Message
from hermes.core.sub_agents import SubAgentState, brings_reports
from hermes.i18n.messages import N_
from hermes.runtime.locks import find_lock_owner, session_lock
from hermes.sessions.formats.openai_format import to_openai
from hermes.sessions.session_lookup import find_session, row_to_dict
from hermes.store.records import PROGRAM_SOURCES, SUB_AGENT_SOURCE, MessageState, SearchQuery, SessionRow, StoredMessage
from hermes.store.store import Store
from hermes.store.sub_agents import SubAgentRow
from hermes.util.text import strip_control_characters, to_one_line

CUT_OFF = "cut_off"
"""The outcome of a turn whose process ended before it did: whoever opens the session next goes on with it."""
MAX_TITLE_LENGTH = 200
"""The most characters of a session's title."""


@asynccontextmanager
async def open_session_admin(environ: Mapping[str, str]) -> "AsyncIterator[SessionAdmin]":
    """Open the sessions of this home.

    Raises NotFoundError when the home has none yet, so that looking creates nothing.
    """
    home = locate_home(environ)
    async with open_existing_store(home) as store:
        if store is None:
            raise NotFoundError(
                N_("There are no sessions in {root} yet.", root=home.root), 'Start one: hermes -z "..."'
            )
        yield SessionAdmin(store, home)


class SubAgentNode(Struct, kw_only=True):
    """A sub-agent in the tree; its id is that of its session."""

    id: str
    number: int
    name: str
    state: SubAgentState
    steps: int = 0
    cost_usd: float | None = None
    sub_agents: "list[SubAgentNode]" = field(default_factory=list)


class SessionNode(Struct, kw_only=True):
    """A session in the tree; `turns` says with how many turns of its parent a branch began."""

    id: str
    title: str
    updated_at: float
    messages: int
    folder: str = ""
    turns: int = 0
    branches: "list[SessionNode]" = field(default_factory=list)
    sub_agents: list[SubAgentNode] = field(default_factory=list)

    @property
    def latest_update(self) -> float:
        """The time of the last message, in this session or its branches."""
        return max([self.updated_at, *(one.latest_update for one in self.branches)])


class SessionAdmin:
    """Operations on stored sessions."""

    def __init__(self, store: Store, home: HermesHome) -> None:
        self._store = store
        self._home = home

    @property
    def store(self) -> Store:
        """The store of the sessions."""
        return self._store

    @property
    def home(self) -> HermesHome:
        """The home of the sessions."""
        return self._home

    async def list_newest(self, limit: int, *, person: str | None = None, everything: bool = False) -> list[Plain]:
        """List the newest sessions, newest first: of a person, or all; runs of jobs and programs with `everything`."""
        without = () if everything else PROGRAM_SOURCES
        rows = await self._store.sessions.list_recent(limit, person=person, without=without)
        return [row_to_dict(row) | {"kind": row.kind} for row in rows]

    async def list_page(self, limit: int, *, folder: str | None, before: str | None) -> list[SessionRow]:
        """List the owner's sessions, newest first: those that began in a folder, or all, behind the id `before`; none
        of jobs and programs.
        """
        return await self._store.sessions.list_recent(
            limit, before=before, person="", folder=folder, without=PROGRAM_SOURCES
        )

    async def list_messages(self, session_id: str) -> list[Message]:
        """Return the messages of a session as they were said, compressed or not, without those that were undone."""
        return [row.message for row in await self.list_stored_messages(session_id)]

    async def list_stored_messages(self, session_id: str) -> list[StoredMessage]:
        """Return the messages of a session as they were said, each with its place and time."""
        return await self._visible_messages(session_id, hidden=False)

    async def list_messages_after(self, session_id: str, after: int, count: int) -> list[StoredMessage]:
        """Return up to `count` of the messages that `list_stored_messages` returns, behind the message `after` (0: from
        the first).
        """
        made = await self._list_made_messages(session_id)
        return await self._store.messages.read_page(session_id, after, count, made)

    async def list_tree(
        self, limit: int, *, person: str | None = None, everything: bool = False
    ) -> "list[SessionNode]":
        """List the newest sessions with their branches, their sub-agents and the sessions that they branched from: of a
        person, or all; runs of jobs and programs with `everything`.
        """
        without = (SUB_AGENT_SOURCE,) if everything else PROGRAM_SOURCES
        nodes: dict[str, SessionNode] = {}
        roots: list[SessionNode] = []
        for row, parent in await self._store.branches.build_tree(limit, person=person, without=without):
            node = nodes[row.id] = SessionNode(
                id=row.id,
                title=row.title,
                updated_at=row.updated_at,
                messages=row.message_count,
                folder=row.cwd,
                turns=row.branched_at or 0,
            )
            above = nodes.get(parent) if parent is not None else None
            (roots if above is None else above.branches).append(node)
        for root_id, found in _group_sub_agents(await self._store.sub_agents.list_trees([*nodes])).items():
            nodes[root_id].sub_agents += found
        return sorted(roots, key=lambda node: -node.latest_update)

    async def find_session_row(self, name: str) -> Plain:
        """Find the session that `name` means, without its messages."""
        row = await find_session(self._store, name)
        return row_to_dict(row) | {"kind": row.kind}

    async def show_session(self, name: str, *, hidden: bool = False) -> Plain:
        """Return one session with all its messages, compressed or not.

        `hidden` includes the messages that Hermes itself wrote.
        """
        row = await find_session(self._store, name)
        rows = await self._visible_messages(row.id, hidden=hidden)
        epoch = await self._store.epochs.get_open(row.id)
        messages: list[Plain] = []
        task = rows[0].id if rows and row.source == SUB_AGENT_SOURCE else None
        for stored in rows:
            place: Plain = {"id": stored.id, "created_at": stored.created_at}
            # The task of a sub-agent, and the reports that have woken a session, are written by no person.
            shown = hidden or stored.id == task or brings_reports(stored.message)
            messages += [place | plain for plain in to_openai(stored.message, hidden=shown)]
        return {
            **row_to_dict(row),
            "kind": row.kind,
            "outcome": await self._find_outcome(row.id),
            "sub_agents": [to_plain(one) for one in await self._list_sub_agents(row.id)],
            "system_prompt": epoch.frame.system if epoch is not None else "",
            "messages": messages,
        }

    async def _list_sub_agents(self, session_id: str) -> list[SubAgentNode]:
        """Return the sub-agents that a session has had, each with its own."""
        of_parent: dict[str, list[SubAgentNode]] = {}
        found = await self._store.sub_agents.get(session_id)
        _group_sub_agents(
            await self._store.sub_agents.list_tree(found.root_id if found is not None else session_id), of_parent
        )
        return of_parent.get(session_id, [])

    async def _find_outcome(self, session_id: str) -> str:
        """Return how the session's newest turn ended, `running` while it runs, or `cut_off` where its process died and
        nobody has gone on with it; empty without a turn.
        """
        turn = await self._store.turns.get_newest(session_id)
        if turn is None or turn.reason:
            return turn.reason if turn is not None else ""
        return CUT_OFF if find_lock_owner(self._home.locks, session_id) is None else "running"

    async def _visible_messages(self, session_id: str, *, hidden: bool) -> list[StoredMessage]:
        """List what was not undone, in order; messages that stand for others only with `hidden`."""
        made = frozenset(await self._list_made_messages(session_id))
        rows = await self._store.messages.read(session_id, everything=True)
        return [row for row in rows if row.state is not MessageState.UNDONE and (hidden or row.id not in made)]

    async def _list_made_messages(self, session_id: str) -> list[int]:
        """Return the ids of the messages that stand for others, since a compression made them."""
        compactions = await self._store.compactions.list_all(await self._store.sessions.find_tip(session_id))
        return [one for compaction in compactions for one in compaction.made]

    async def search_own_messages(self, search: SearchQuery, redact: Callable[[str], str]) -> list[Plain]:
        """Find messages in the owner's sessions only. Snippets are cut out of texts that went through `redact`."""
        found = await self._store.search.run_query(structs.replace(search, person=""), redact)
        return [row_to_dict(hit) for hit in found]

    async def search_messages(self, query: str, *, limit: int, newest: bool) -> list[Plain]:
        """Find messages that hold the words, newest or best first."""
        hits = await self._store.search.find(query, limit=limit, newest=newest)
        return [row_to_dict(hit) for hit in hits]

    async def rename_session(self, name: str, title: str) -> Plain:
        """Change a session's title and return its row. Raises UsageError for an empty title."""
        row = await find_session(self._store, name)
        title = to_one_line(strip_control_characters(title), MAX_TITLE_LENGTH)
        if not title:
            raise UsageError(N_("The title is empty."))
        await self._store.sessions.rename(row.id, title)
        return row_to_dict(row) | {"title": title}

    async def list_idle(self, seconds: float) -> list[Plain]:
        """List sessions without a new message for that many seconds, the oldest first."""
        return [row_to_dict(row) for row in await self._store.sessions.list_idle(time.time() - seconds)]

    async def delete_idle(self, seconds: float) -> tuple[list[Plain], list[Plain]]:
        """Delete idle sessions with all their data, except open ones; return the deleted and the open ones."""
        gone, held = await self.delete_rows(await self._store.sessions.list_idle(time.time() - seconds))
        return [row_to_dict(row) for row in gone], [row_to_dict(row) for row in held]

    async def delete_rows(self, rows: Sequence[SessionRow]) -> tuple[list[SessionRow], list[SessionRow]]:
        """Delete sessions with all their data, except open ones; return the deleted and the open ones."""
        gone: list[SessionRow] = []
        open_ones: list[SessionRow] = []
        for row in rows:
            session_id = row.id
            try:
                await self._delete_with_sub_agents(session_id, session_id, purge=False)
            except BusyError:
                open_ones.append(row)
                continue
            gone.append(row)
        if gone:
            await self._store.erasure.purge_files()
        return gone, open_ones

    async def _delete_with_sub_agents(self, session_id: str, tip: str, *, purge: bool = True) -> None:
        """Delete a session whose conversation goes on in `tip`, and with the whole conversation the sessions of its
        sub-agents. Raises BusyError while one of them is open.
        """
        below = await self._store.sub_agents.list_below(session_id) if tip == session_id else []
        async with AsyncExitStack() as stack:
            for name in (tip, *below):
                await stack.enter_async_context(session_lock(self._home.locks, name))
            for name in (session_id, *below):
                _delete_session_files(self._home, name)
            await self._store.erasure.delete_session(session_id, purge=purge)
            for name in (session_id, *below):
                (self._home.locks / f"{name}.lock").unlink(missing_ok=True)

    async def compute_statistics(self) -> Plain:
        """Count sessions, messages and tokens, in total and by model and front-end, and measure the files."""
        sums = await self._store.sessions.sum_totals()
        _, count, messages, tokens = sums[0] if sums else ("", 0, 0, 0)
        files = {name: self._home.root / name for name in ("hermes.db", "search.db")}
        return {
            "sessions": count,
            "messages": messages,
            "tokens": tokens,
            "models": [_totals_row(one) for one in await self._store.sessions.sum_totals("model")],
            "sources": [_totals_row(one) for one in await self._store.sessions.sum_totals("source")],
            "bytes": {name: file.stat().st_size for name, file in files.items() if file.exists()},
        }

    async def _delete_unused_copies(self) -> None:
        """Delete the copies of files that only the deleted session's checkpoints had. Raises StoreError."""
        if not self._home.checkpoints.is_dir():
            return
        from hermes.checkpoints.object_store import ObjectStore
        from hermes.checkpoints.retention import CheckpointRetention, collect_contents

        try:
            await collect_contents(
                self._store.checkpoints, ObjectStore(self._home.checkpoints), CheckpointRetention(total=1 << 62)
            )
        except OSError as error:
            raise StoreError(
                N_("The copies of its files cannot be deleted: {strerror}.", strerror=error.strerror)
            ) from None

    async def delete_session(self, name: str) -> str:
        """Delete a session with all its data and files, and describe what was done.

        Raises BusyError while another process has it, or a session that continues it, open.
        """
        row = await find_session(self._store, name)
        tip = await self._store.sessions.find_tip(row.id)
        before = set(await self._store.sessions.list_lineage(tip))
        await self._delete_with_sub_agents(row.id, tip)
        await self._delete_unused_copies()
        if tip == row.id:
            return row.id
        gone = len(before) - len(await self._store.sessions.list_lineage(tip)) - 1
        others = N_(", and with it {gone} more parts of the past of {tip}", gone=gone, tip=tip) if gone > 0 else ""
        return N_(
            "{id}{others}; the messages condensed since then are restored in {tip}",
            id=row.id,
            others=others,
            tip=tip,
        )


def _group_sub_agents(
    rows: Sequence[SubAgentRow], of_parent: dict[str, list[SubAgentNode]] | None = None
) -> dict[str, list[SubAgentNode]]:
    """Return the sub-agents of each session at the top, each with its own; `of_parent` gets those of every session."""
    found: dict[str, list[SubAgentNode]] = {}
    of_parent = {} if of_parent is None else of_parent
    nodes = {row.session_id: _make_sub_agent_node(row) for row in rows}
    for row in rows:
        above = nodes.get(row.parent_id)
        (found.setdefault(row.root_id, []) if above is None else above.sub_agents).append(nodes[row.session_id])
        of_parent.setdefault(row.parent_id, []).append(nodes[row.session_id])
    return found


def _make_sub_agent_node(row: SubAgentRow) -> SubAgentNode:
    return SubAgentNode(
        id=row.session_id,
        number=row.number,
        name=row.task.name,
        state=row.state,
        steps=row.report.steps,
        cost_usd=row.report.cost.usd,
    )


def _totals_row(row: tuple[str, int, int, int]) -> Plain:
    return dict(zip(("key", "sessions", "messages", "tokens"), row, strict=True))


def _delete_session_files(home: HermesHome, session_id: str) -> None:
    """Delete the oversized tool results and the trajectories. Raises StoreError."""
    import glob

    try:
        if (home.spill / session_id).is_dir():
            shutil.rmtree(home.spill / session_id)
        for file in home.trajectories.glob(f"{glob.escape(session_id)}_turn_*.json"):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            N_(
                "The files of session {session_id} cannot be deleted: {strerror}.",
                session_id=session_id,
                strerror=error.strerror,
            )
        ) from None
