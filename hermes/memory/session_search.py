"""The `session_search` tool: finds earlier messages by words, reads around one, or lists sessions. No
model is asked.

A session that holds untrusted content passes that on with what is found in it: the result carries its
sources.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Literal

from msgspec import Meta, Struct

from hermes.core.errors import HermesError, ToolError
from hermes.core.messages import Provenance, Role, Source
from hermes.store.records import SearchHit, SearchQuery, SessionPreview, SessionRow, StoredMessage
from hermes.store.store import Store
from hermes.tools.session import ToolContext
from hermes.tools.taint import provenance_from_sources, sources_from_provenance
from hermes.tools.tool import Parallel, Tool, ToolOutput, tool
from hermes.util.text import to_one_line

MOST_SESSIONS = 10
MOST_AROUND = 20
_MAX_HITS = 60
"""Hits that are grouped by session."""
_HITS_OF_SESSION = 3
_HITS_OF_ONLY_SESSION = 20
"""Hits of one session that are shown, and of the only one that is searched."""
_ENDS = 2
_LINE = 300
_MESSAGE = 1_500
_CENTER_MESSAGE = 20_000
"""Characters of a message beside the one that is meant, and of that one."""


_ROLES: Mapping[str, tuple[Role, ...]] = {"": (), **{role: (role,) for role in (Role.USER, Role.ASSISTANT, Role.TOOL)}}


OpenProfile = Callable[[str], AbstractAsyncContextManager[Store]]
"""Opens the store of another profile of the owner's. Raises HermesError for one that may not be searched."""


class SearchArguments(Struct, frozen=True, kw_only=True):
    """What is asked of `session_search`."""

    query: Annotated[str, Meta(description='Words, or a "phrase"; empty: list sessions.')] = ""
    session_id: Annotated[str, Meta(description="Only this session; alone: its beginning and end.")] = ""
    around_message_id: Annotated[int, Meta(description="Read around this message.")] = 0
    role_filter: Annotated[
        Literal["", "user", "assistant", "tool"], Meta(description="Only messages of this role.")
    ] = ""
    sort: Annotated[Literal["relevance", "newest", "oldest"], Meta(description="Order of what is found.")] = "relevance"
    limit: Annotated[int, Meta(description="Sessions: at most 10.")] = 5
    window: Annotated[int, Meta(description="Messages around it: at most 20.")] = 0
    profile: Annotated[str, Meta(description="Another profile.")] = ""


def build_session_search_tool(store: Store, *, person: str = "", open_profile: OpenProfile | None = None) -> Tool:
    """Build the tool over this person's sessions; an empty `person` means the owner's.

    Without `open_profile` no other profile can be searched.
    """

    @tool(
        "session_search",
        parallel=Parallel.SAFE,
        repeatable=True,
        cap=30_000,
        summary=lambda args: f"search the past: {args.get('query') or args.get('session_id') or 'newest sessions'}",
    )
    async def session_search(ctx: ToolContext, arguments: SearchArguments) -> ToolOutput:
        """Search earlier conversations (all of them are kept), read on in one, or list them."""
        profile = arguments.profile.strip()
        if not profile:
            return await _search_store(store, arguments, person, ctx.session_id)
        if person or open_profile is None:
            return ToolOutput(text="No other profile can be searched here.", failed=True, is_own_text=True)
        try:
            async with open_profile(profile) as other:
                return await _search_store(other, arguments, person, ctx.session_id)
        except HermesError as error:
            raise ToolError(error.message, error.hint) from error

    return session_search


async def _search_store(store: Store, asked: SearchArguments, person: str, running: str) -> ToolOutput:
    """Search one store; the session that runs is left out."""
    session_id = asked.session_id
    if session_id and not await _belongs_to(store, session_id, person):
        return ToolOutput(text=f"There is no session {to_one_line(session_id, 80)}.", failed=True, is_own_text=True)
    if asked.around_message_id:
        window = max(1, min(asked.window or asked.limit, MOST_AROUND))
        return await _read_around(store, session_id, asked.around_message_id, window)
    count = max(1, min(asked.limit, MOST_SESSIONS))
    if not asked.query.strip():
        return await _list_sessions(store, session_id, count, person)
    search = SearchQuery(
        query=asked.query,
        limit=_MAX_HITS,
        newest=asked.sort == "newest",
        session=session_id or None,
        roles=_ROLES[asked.role_filter],
        person=person,
    )
    own = () if session_id else (running, *await store.sessions.list_lineage(running))
    hits = [hit for hit in await store.search.run_query(search) if hit.session_id not in own]
    of_one = _HITS_OF_ONLY_SESSION if session_id else _HITS_OF_SESSION
    return await _group_hits(store, hits, (count, of_one), oldest=asked.sort == "oldest")


async def _belongs_to(store: Store, session_id: str, person: str) -> bool:
    """Return whether a session is this person's."""
    row = await store.sessions.get(session_id)
    return row is not None and row.user_id == person


async def _group_hits(store: Store, hits: Sequence[SearchHit], most: tuple[int, int], *, oldest: bool) -> ToolOutput:
    """Format hits by session, the session of the best hit first: at most so many sessions, and hits of each."""
    count, of_one = most
    by_session: dict[str, list[SearchHit]] = {}
    for hit in sorted(hits, key=lambda hit: hit.created_at) if oldest else hits:
        by_session.setdefault(hit.session_id, []).append(hit)
    if not by_session:
        return ToolOutput(text="Nothing was found. Other words may find it; with an empty query sessions are listed.")
    shown = dict(list(by_session.items())[:count])
    glimpses = {one.session.id: one for one in await store.messages.list_previews(list(shown), _ENDS)}
    # A session that was deleted meanwhile has no glimpse.
    lines = [
        line
        for name, found in shown.items()
        if name in glimpses
        for line in _format_hits(glimpses[name], found, of_one)
    ]
    left = len(by_session) - len(shown)
    more = f" {left} more sessions hold some of it." if left else ""
    lines.append(f"[Read on: session_id and around_message_id (the number behind #).{more}]")
    return await _build_output(store, lines, list(shown))


def _format_hits(glimpse: SessionPreview, found: Sequence[SearchHit], most: int) -> list[str]:
    """Format the best hits of a session between its beginning and its end."""
    known = {hit.message_id for hit in found[:most]}
    more = len(found) - most
    return [
        _format_headline(glimpse.session),
        *(_format_row(row, "begins") for row in glimpse.first[:1] if row.id not in known),
        *(f"  #{hit.message_id} {hit.role.value}: {to_one_line(hit.snippet, _LINE)}" for hit in found[:most]),
        *([f"  ... {more} more hits; session_id={glimpse.session.id} finds them"] if more > 0 else []),
        *(_format_row(row, "ends") for row in glimpse.last[-1:] if row.id not in known),
    ]


async def _read_around(store: Store, session_id: str, message_id: int, window: int) -> ToolOutput:
    """Read a message, whole unless it is very long, and beginnings of those around it."""
    if not session_id:
        return ToolOutput(text="Give the session_id too.", failed=True, is_own_text=True)
    rows = await store.messages.read_around(session_id, message_id, window)
    if not rows:
        said = f"Session {to_one_line(session_id, 80)} has no message {message_id}."
        return ToolOutput(text=said, failed=True, is_own_text=True)
    lines = [
        f"#{row.id} {row.message.role.value}, {_format_time(row.created_at)}:\n"
        + _clip_message(row, _CENTER_MESSAGE if row.id == message_id else _MESSAGE)
        for row in rows
    ]
    return await _build_output(store, lines, [session_id])


async def _list_sessions(store: Store, session_id: str, count: int, person: str) -> ToolOutput:
    """List one session, or the newest ones, each with its beginning and end."""
    wanted = [session_id] if session_id else [row.id for row in await store.sessions.list_recent(count, person=person)]
    glimpses = await store.messages.list_previews(wanted, _ENDS)
    if not glimpses:
        said = f"There is no session {to_one_line(session_id, 80)}." if session_id else "Nothing was said before."
        return ToolOutput(text=said, failed=bool(session_id), is_own_text=True)
    lines = [line for glimpse in glimpses for line in _format_preview(glimpse)]
    return await _build_output(store, lines, [one.session.id for one in glimpses])


def _format_preview(glimpse: SessionPreview) -> list[str]:
    rows = [*glimpse.first, *glimpse.last]
    gap = ["  ..."] if glimpse.session.message_count > len(rows) and glimpse.last else []
    return [
        _format_headline(glimpse.session),
        *(_format_row(row) for row in glimpse.first),
        *gap,
        *(_format_row(row) for row in glimpse.last),
    ]


def _format_headline(row: SessionRow) -> str:
    title = f' "{to_one_line(row.title, 80)}"' if row.title else ""
    return f"{row.id}{title}, {_format_time(row.updated_at)}, {row.message_count} messages"


def _format_row(row: StoredMessage, word: str = "") -> str:
    from hermes.store.search.text import extract_message_text

    label = f"{word}: " if word else ""
    return f"  #{row.id} {row.message.role.value}: {label}{to_one_line(extract_message_text(row.message), _LINE)}"


def _clip_message(row: StoredMessage, most: int) -> str:
    from hermes.store.search.text import extract_message_text

    text = extract_message_text(row.message)
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[... {len(text) - most} characters more]"


def _format_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


async def _build_output(store: Store, lines: Sequence[str], session_ids: Sequence[str]) -> ToolOutput:
    return ToolOutput(
        text="\n".join(lines), provenance=_combine_provenance(await store.messages.list_untrusted_sources(session_ids))
    )


def _combine_provenance(origins: Sequence[Provenance]) -> Provenance | None:
    """Return whose words the lines may repeat.

    Those of a file count as untrusted here: it was not read now, so no path says more.
    """
    listed = list(dict.fromkeys(source for origin in origins for source in sources_from_provenance(origin)))
    made = provenance_from_sources(listed)
    return Provenance(Source.OTHER, listed[0]) if made is not None and made.source is Source.FILE else made
