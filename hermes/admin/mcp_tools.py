"""The tools by which other programs read this home over the Model Context Protocol: the owner's sessions, their
messages, a search over them, scheduled jobs. Nothing here writes.

Secrets are taken out of all that is returned. Text that came from elsewhere into a session is fenced and marked, so
that a model that reads it here knows it for what it is.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Raw, Struct

from hermes.core.encoding import Plain, to_json
from hermes.core.errors import NotFoundError
from hermes.core.messages import (
    ImagePart,
    Part,
    Provenance,
    ReasoningPart,
    Role,
    Source,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from hermes.i18n.messages import N_
from hermes.mcp.serving.calls import McpCall, Result
from hermes.mcp.serving.served_tools import AnswerCall, ServedTool, build_schema, decode_arguments, make_result
from hermes.safety.fencing import fence_untrusted_text
from hermes.util.text import clean_surrogates

if TYPE_CHECKING:
    from hermes.admin.cron import CronAdmin
    from hermes.admin.sessions import SessionAdmin
    from hermes.sessions.app import App
    from hermes.store.records import SessionRow, StoredMessage

_MAX_TEXT = 4_000
"""The most characters of one part of a message."""
_MAX_PAGE_CHARACTERS = 60_000
"""The most characters of a page of messages; a page ends before the message that goes beyond."""
_BATCH = 20
"""Messages that are loaded at once."""
_HISTORY = 10
Limit = Annotated[int, Meta(ge=1, le=100, description="How many at most.")]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class ServedHome(Struct, frozen=True):
    """What is read."""

    sessions: "SessionAdmin"
    jobs: "CronAdmin"
    redact: Callable[[str], str]


OpenHome = Callable[[], Awaitable[ServedHome | None]]
"""Returns the home that is read; None while it has nothing yet."""


class ListConversations(Struct, forbid_unknown_fields=True):
    """The arguments of `conversations_list`."""

    limit: Limit = 20
    cursor: Annotated[str, Meta(max_length=200, description="`next_cursor` of the page before.")] = ""
    folder: Annotated[str, Meta(max_length=4_096, description="Only those that began in this folder.")] = ""


class GetConversation(Struct, forbid_unknown_fields=True):
    """The arguments of `conversation_get`."""

    conversation_id: Name


class ReadMessages(Struct, forbid_unknown_fields=True):
    """The arguments of `messages_read`."""

    conversation_id: Name
    limit: Limit = 30
    after: Annotated[
        int, Meta(ge=0, le=1 << 53, description="Only messages behind this one: `next_after` of the page before.")
    ] = 0


class SearchMessages(Struct, forbid_unknown_fields=True):
    """The arguments of `messages_search`."""

    query: Annotated[str, Meta(min_length=1, max_length=500, description="Words that the message holds.")]
    limit: Limit = 20
    offset: Annotated[int, Meta(ge=0, le=10_000)] = 0
    newest: Annotated[bool, Meta(description="The newest first, in the place of the best.")] = False


class ListJobs(Struct, forbid_unknown_fields=True):
    """The arguments of `jobs_list`."""

    limit: Limit = 50
    offset: Annotated[int, Meta(ge=0, le=100_000)] = 0


class GetJob(Struct, forbid_unknown_fields=True):
    """The arguments of `job_status`."""

    job: Annotated[str, Meta(min_length=1, max_length=200, description="Its id or its name.")]


class AskQuestion(Struct, forbid_unknown_fields=True):
    """The arguments of `ask`."""

    question: Annotated[str, Meta(min_length=1, max_length=100_000, description="What the agent is to answer or do.")]


class ReadTools:
    """The tools. `open_home` is called with the first call that needs it, and may be called again."""

    def __init__(self, open_home: OpenHome) -> None:
        self._open_home = open_home

    def list_tools(self) -> list[ServedTool]:
        """Return the tools, each marked as one that only reads."""
        return [
            _build_tool(
                "conversations_list",
                "List the owner's conversations, newest first.",
                ListConversations,
                self._list_conversations,
            ),
            _build_tool(
                "conversation_get",
                "Tell what is known of one conversation, without its messages.",
                GetConversation,
                self._get_conversation,
            ),
            _build_tool(
                "messages_read",
                "Read the messages of a conversation in order, a page at a time.",
                ReadMessages,
                self._read_messages,
            ),
            _build_tool(
                "messages_search",
                "Find messages in all conversations by their words.",
                SearchMessages,
                self._search_messages,
            ),
            _build_tool("jobs_list", "List the scheduled jobs.", ListJobs, self._list_jobs),
            _build_tool(
                "job_status", "Tell the state of a scheduled job, and how its last runs ended.", GetJob, self._get_job
            ),
        ]

    async def _list_conversations(self, arguments: Raw, _: McpCall) -> Result:
        given = decode_arguments(arguments, ListConversations)
        home = await self._open_home()
        if home is None:
            return make_result({"conversations": [], "next_cursor": None})
        rows = await home.sessions.list_page(given.limit + 1, folder=given.folder or None, before=given.cursor or None)
        page = rows[: given.limit]
        more = page[-1].id if len(rows) > given.limit else None
        return _make_safe_result(home, {"conversations": [_describe_session(row) for row in page], "next_cursor": more})

    async def _get_conversation(self, arguments: Raw, _: McpCall) -> Result:
        home, row = await self._find_session(decode_arguments(arguments, GetConversation).conversation_id)
        return _make_safe_result(home, _describe_session(row))

    async def _read_messages(self, arguments: Raw, _: McpCall) -> Result:
        given = decode_arguments(arguments, ReadMessages)
        home, row = await self._find_session(given.conversation_id)
        page, more = await _read_page(home, row.id, given)
        return _make_safe_result(home, {"conversation_id": row.id, "messages": page, "next_after": more})

    async def _search_messages(self, arguments: Raw, _: McpCall) -> Result:
        given = decode_arguments(arguments, SearchMessages)
        home = await self._open_home()
        if home is None:
            return make_result({"hits": []})
        from hermes.store.records import SearchQuery

        search = SearchQuery(query=given.query, limit=given.limit, offset=given.offset, newest=given.newest)
        found = await home.sessions.search_own_messages(search, home.redact)
        return _make_safe_result(home, {"hits": [_describe_hit(one) for one in found]})

    async def _list_jobs(self, arguments: Raw, _: McpCall) -> Result:
        given = decode_arguments(arguments, ListJobs)
        home = await self._open_home()
        rows = await home.jobs.list_jobs() if home is not None else []
        page = [_describe_job(one) for one in rows[given.offset : given.offset + given.limit]]
        told: Plain = {"jobs": page, "total": len(rows)}
        return _make_safe_result(home, told) if home is not None else make_result(told)

    async def _get_job(self, arguments: Raw, _: McpCall) -> Result:
        given = decode_arguments(arguments, GetJob)
        home = await self._open_home()
        if home is None:
            raise NotFoundError(N_("There is no job {name}.", name=repr(given.job)))
        job = await home.jobs.get_job(given.job)
        history = await home.jobs.list_history(given.job, _HISTORY)
        kept = ("at", "state", "reason", "by_hand", "began_at", "ended_at", "session_id", "cost_usd", "delivery")
        runs = [{key: one[key] for key in kept} for one in history]
        return _make_safe_result(home, {**_describe_job(job), "runs": runs})

    async def _find_session(self, name: str) -> tuple[ServedHome, "SessionRow"]:
        """Return one of the owner's sessions by its whole id. Raises NotFoundError for anybody else's as for none."""
        home = await self._open_home()
        row = await home.sessions.store.sessions.get(name) if home is not None else None
        if home is None or row is None or row.user_id:
            raise NotFoundError(N_("There is no session {id}.", id=name[:80]))
        return home, row


@asynccontextmanager
async def open_served_home(environ: Mapping[str, str]) -> AsyncIterator[ServedHome | None]:
    """Open this home for reading; yield None, with nothing created, where it has no sessions yet."""
    import asyncio

    from hermes.admin.cron import CronAdmin
    from hermes.admin.home_services import open_existing_store
    from hermes.admin.sessions import SessionAdmin
    from hermes.config.environment import merge_dotenv
    from hermes.config.home import locate_home
    from hermes.config.load import load_settings
    from hermes.sessions.app import App
    from hermes.sessions.features.cron_deps import CronDeps
    from hermes.sessions.secrets import build_redactor
    from hermes.util.clock import SystemClock

    home = locate_home(environ)
    async with open_existing_store(home) as store:
        if store is None:
            yield None
            return
        settings = load_settings(home).settings
        whole = merge_dotenv(environ, home.env_file)
        redactor = await asyncio.to_thread(build_redactor, whole, home, settings)
        deps = CronDeps(
            home=home, settings=settings, process=environ, store=store, redactor=redactor, clock=SystemClock()
        )
        jobs = CronAdmin(deps, lambda options: App(environ, options))
        yield ServedHome(SessionAdmin(store, home), jobs, redactor.redact)


def serve_home_of_app(app: "App") -> ServedHome:
    """Return the home of an App that is open already."""
    from hermes.admin.cron import cron_admin_of_app
    from hermes.admin.sessions import SessionAdmin

    services = app.services
    return ServedHome(SessionAdmin(services.store, services.home), cron_admin_of_app(app), services.redactor.redact)


def build_ask_tool(answer: AnswerCall, *, asks_person: bool) -> ServedTool:
    """Return the tool that asks the agent; `asks_person` says whether its calls may wait for the owner."""
    waits = "What it has to ask the owner about waits: see permissions_list_open."
    refused = "What it would have to ask the owner about is refused."
    return ServedTool(
        name="ask",
        description="Ask the owner's agent; it may use its tools, and costs the owner money. "
        + (waits if asks_person else refused),
        schema=build_schema(AskQuestion),
        answer=answer,
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    )


def _build_tool(name: str, description: str, arguments: type[Struct], answer: AnswerCall) -> ServedTool:
    return ServedTool(
        name=name,
        description=description,
        schema=build_schema(arguments),
        answer=answer,
        annotations={"readOnlyHint": True, "openWorldHint": False},
    )


async def _read_page(home: ServedHome, session_id: str, given: ReadMessages) -> tuple[list[Plain], int | None]:
    """Return the messages of a page, and the last of them where there are more behind it. Only a few are loaded at
    once, however long the session is.
    """
    page: list[Plain] = []
    size, last = 0, given.after
    while batch := await home.sessions.list_messages_after(session_id, last, _BATCH):
        for one in batch:
            told = _describe_message(one, home.redact)
            size += len(to_json(told))
            if page and (len(page) >= given.limit or size > _MAX_PAGE_CHARACTERS):
                return page, last
            page += [told] if told is not None else []
            last = one.id
    return page, None


def _describe_session(row: "SessionRow") -> Plain:
    return {
        "conversation_id": row.id,
        "title": row.title,
        "platform": row.source,
        "folder": row.cwd,
        "model": row.model,
        "kind": row.kind,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "messages": row.message_count,
        "tool_calls": row.tool_call_count,
        "cost_usd": row.cost_usd,
    }


def _describe_hit(hit: Plain) -> Plain:
    kept = ("title", "message_id", "role", "created_at")
    told = {"conversation_id": hit["session_id"], **{key: hit[key] for key in kept}}
    if hit["role"] != Role.TOOL:
        return {**told, "snippet": hit["snippet"]}
    snippet = fence_untrusted_text(str(hit["snippet"]), Provenance(Source.OTHER, "tool"))
    return {**told, "untrusted": True, "snippet": snippet}


def _describe_job(job: Plain) -> Plain:
    kept = ("id", "name", "state", "schedule", "zone", "means", "next_at", "begun", "delivers_to", "wrong")
    return {key: job[key] for key in kept if key in job}


def _describe_message(stored: "StoredMessage", redact: Callable[[str], str]) -> Plain | None:
    """Return a message as it is told; None for one that Hermes itself has written."""
    if stored.message.synthetic:
        return None
    parts = [told for part in stored.message.parts if (told := _describe_part(part, redact)) is not None]
    return {"id": stored.id, "role": str(stored.message.role), "created_at": stored.created_at, "parts": parts}


def _describe_part(part: Part, redact: Callable[[str], str]) -> Plain | None:
    """Return a part as it is told; None for reasoning, and for what Hermes has added to a message."""
    match part:
        case TextPart():
            origin = part.provenance
            if origin is not None and origin.source is Source.PROGRAM:
                return None
            text = _shorten(part.text, redact)
            if origin is not None and origin.is_untrusted:
                return {"type": "text", "untrusted": True, "text": fence_untrusted_text(text, origin)}
            return {"type": "text", "text": text}
        case ToolCallPart():
            return {"type": "call", "tool": part.name, "text": _shorten(part.arguments, redact)}
        case ToolResultPart():
            origin = part.provenance or Provenance(Source.OTHER, part.name)
            text = fence_untrusted_text(_shorten(part.text, redact), origin)
            return {"type": "result", "tool": part.name, "status": str(part.status), "untrusted": True, "text": text}
        case ReasoningPart():
            return None
        case ImagePart():
            return {"type": "image", "media_type": part.media_type}


def _shorten(text: str, redact: Callable[[str], str]) -> str:
    """Return a text without secrets, and cut. What was read is cut behind what is shown, by the length of a long key:
    of a key that is cut in two nothing is known.
    """
    read = clean_surrogates(text[: 2 * _MAX_TEXT])
    safe = redact(read)
    kept = len(safe) if len(text) == len(read) else max(0, len(safe) - _MAX_TEXT)
    shown = safe[: min(_MAX_TEXT, kept)]
    left = max(len(text), len(safe)) - len(shown)
    return f"{shown} [... about {left} characters left out]" if left > 0 else shown


def _make_safe_result(home: ServedHome, value: Plain) -> Result:
    """Return a result without secrets in any of its texts."""
    safe = _redact_texts(value, home.redact)
    assert isinstance(safe, dict)
    return make_result(safe)


def _redact_texts(value: object, redact: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return redact(clean_surrogates(value))
    if isinstance(value, dict):
        return {key: _redact_texts(one, redact) for key, one in value.items()}
    return [_redact_texts(one, redact) for one in value] if isinstance(value, list | tuple) else value
