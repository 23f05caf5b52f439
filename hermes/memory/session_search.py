"""`session_search`: what was ever said, found by words, read around a place, or listed by session. No model is asked.

A session that holds strangers' words gives them on with what is found in it: the result carries their sources.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from hermes.core.messages import Role
from hermes.core.parts import Provenance, Source
from hermes.store.rows import Glimpse, Hit, Search, SessionRow, StoredMessage
from hermes.store.store import Store
from hermes.tools.session import ToolContext
from hermes.tools.taint import provenance_from_sources, sources_from_provenance
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.text import one_line

MOST_SESSIONS = 10
MOST_AROUND = 20
_HITS = 60
"""Hits that are grouped by session."""
_OF_ONE = 3
_OF_ALL = 20
"""Hits of one session that are shown, and of the only one that is searched."""
_ENDS = 2
_LINE = 300
_MESSAGE = 1_500
_MEANT = 20_000
"""Characters of a message beside the one that is meant, and of that one."""


_ROLES: Mapping[str, tuple[Role, ...]] = {"": (), **{role: (role,) for role in (Role.USER, Role.ASSISTANT, Role.TOOL)}}


def session_search_tool(store: Store, *, person: str = "") -> Tool:
    """The tool over what was said in this person's sessions; empty: in the owner's."""

    @tool(
        "session_search",
        parallel=Parallel.SAFE,
        repeatable=True,
        cap=30_000,
        summary=lambda args: f"search the past: {args.get('query') or args.get('session_id') or 'newest sessions'}",
    )
    async def session_search(
        ctx: ToolContext,
        query: Annotated[str, "Words to find; empty: list sessions."] = "",
        session_id: Annotated[str, "Only this session; alone: its beginning and end."] = "",
        around_message_id: Annotated[int, "Read the session around this message."] = 0,
        role_filter: Annotated[Literal["", "user", "assistant", "tool"], "Only messages of this role."] = "",
        sort: Annotated[Literal["relevance", "newest", "oldest"], "Order of what is found."] = "relevance",
        limit: Annotated[int, "Sessions (at most 10), or messages before and after (at most 20)."] = 5,
    ) -> ToolOutput:
        """Search earlier conversations (all of them are kept), read on in one, or list them."""
        if session_id and not await _is_of(store, session_id, person):
            return ToolOutput(text=f"There is no session {one_line(session_id, 80)}.", failed=True, is_own_text=True)
        if around_message_id:
            return await _read(store, session_id, around_message_id, max(1, min(limit, MOST_AROUND)))
        count = max(1, min(limit, MOST_SESSIONS))
        if not query.strip():
            return await _listed(store, session_id, count, person)
        search = Search(
            query=query,
            limit=_HITS,
            newest=sort == "newest",
            session=session_id or None,
            roles=_ROLES[role_filter],
            person=person,
        )
        own = () if session_id else (ctx.session_id, *await store.lineage(ctx.session_id))
        hits = [hit for hit in await store.find(search) if hit.session_id not in own]
        return await _found(store, hits, (count, _OF_ALL if session_id else _OF_ONE), oldest=sort == "oldest")

    return session_search


async def _is_of(store: Store, session_id: str, person: str) -> bool:
    """Whether a session is this person's."""
    row = await store.session(session_id)
    return row is not None and row.user_id == person


async def _found(store: Store, hits: Sequence[Hit], most: tuple[int, int], *, oldest: bool) -> ToolOutput:
    """Hits by session, the session of the best hit first: at most so many sessions, and hits of each."""
    count, of_one = most
    by_session: dict[str, list[Hit]] = {}
    for hit in sorted(hits, key=lambda hit: hit.created_at) if oldest else hits:
        by_session.setdefault(hit.session_id, []).append(hit)
    if not by_session:
        return ToolOutput(text="Nothing was found. Other words may find it; with an empty query sessions are listed.")
    shown = dict(list(by_session.items())[:count])
    glimpses = {one.session.id: one for one in await store.glimpses(list(shown), _ENDS)}
    # A session that was deleted meanwhile has no glimpse.
    lines = [line for name, found in shown.items() if name in glimpses for line in _hits(glimpses[name], found, of_one)]
    left = len(by_session) - len(shown)
    more = f" {left} more sessions hold some of it." if left else ""
    lines.append(f"[Read on: session_id and around_message_id (the number behind #).{more}]")
    return await _told(store, lines, list(shown))


def _hits(glimpse: Glimpse, found: Sequence[Hit], most: int) -> list[str]:
    """The best hits of a session between its beginning and its end."""
    known = {hit.message_id for hit in found[:most]}
    more = len(found) - most
    return [
        _headline(glimpse.session),
        *(_row(row, "begins") for row in glimpse.first[:1] if row.id not in known),
        *(f"  #{hit.message_id} {hit.role.value}: {one_line(hit.snippet, _LINE)}" for hit in found[:most]),
        *([f"  ... {more} more hits; session_id={glimpse.session.id} finds them"] if more > 0 else []),
        *(_row(row, "ends") for row in glimpse.last[-1:] if row.id not in known),
    ]


async def _read(store: Store, session_id: str, message_id: int, window: int) -> ToolOutput:
    """A message, whole unless it is very long, and beginnings of those around it."""
    if not session_id:
        return ToolOutput(text="Give the session_id too.", failed=True, is_own_text=True)
    rows = await store.around(session_id, message_id, window)
    if not rows:
        said = f"Session {one_line(session_id, 80)} has no message {message_id}."
        return ToolOutput(text=said, failed=True, is_own_text=True)
    lines = [
        f"#{row.id} {row.message.role.value}, {_moment(row.created_at)}:\n"
        + _whole(row, _MEANT if row.id == message_id else _MESSAGE)
        for row in rows
    ]
    return await _told(store, lines, [session_id])


async def _listed(store: Store, session_id: str, count: int, person: str) -> ToolOutput:
    """One session, or the newest ones, each with its beginning and end."""
    wanted = [session_id] if session_id else [row.id for row in await store.list_sessions(count, person=person)]
    glimpses = await store.glimpses(wanted, _ENDS)
    if not glimpses:
        said = f"There is no session {one_line(session_id, 80)}." if session_id else "Nothing was said before."
        return ToolOutput(text=said, failed=bool(session_id), is_own_text=True)
    lines = [line for glimpse in glimpses for line in _seen(glimpse)]
    return await _told(store, lines, [one.session.id for one in glimpses])


def _seen(glimpse: Glimpse) -> list[str]:
    rows = [*glimpse.first, *glimpse.last]
    gap = ["  ..."] if glimpse.session.message_count > len(rows) and glimpse.last else []
    return [
        _headline(glimpse.session),
        *(_row(row) for row in glimpse.first),
        *gap,
        *(_row(row) for row in glimpse.last),
    ]


def _headline(row: SessionRow) -> str:
    title = f' "{one_line(row.title, 80)}"' if row.title else ""
    return f"{row.id}{title}, {_moment(row.updated_at)}, {row.message_count} messages"


def _row(row: StoredMessage, word: str = "") -> str:
    from hermes.store.search.text import message_text

    label = f"{word}: " if word else ""
    return f"  #{row.id} {row.message.role.value}: {label}{one_line(message_text(row.message), _LINE)}"


def _whole(row: StoredMessage, most: int) -> str:
    from hermes.store.search.text import message_text

    text = message_text(row.message)
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[... {len(text) - most} characters more]"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


async def _told(store: Store, lines: Sequence[str], session_ids: Sequence[str]) -> ToolOutput:
    return ToolOutput(text="\n".join(lines), provenance=_made_of(await store.strangers(session_ids)))


def _made_of(origins: Sequence[Provenance]) -> Provenance | None:
    """Whose words the lines may repeat. A file's are a stranger's here: it was not read now, so no path says more."""
    listed = list(dict.fromkeys(source for origin in origins for source in sources_from_provenance(origin)))
    made = provenance_from_sources(listed)
    return Provenance(Source.OTHER, listed[0]) if made is not None and made.source is Source.FILE else made
