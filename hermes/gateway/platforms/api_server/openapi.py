"""The OpenAPI document of the API server, built from the table of its operations and from the Structs that it reads
and sends. `docs/openapi.json` is the recorded one.
"""

from collections.abc import Mapping, Sequence

import msgspec
from aiohttp import web
from msgspec import Struct

from hermes.client.objects import (
    EVENT_SCHEMA_VERSION,
    RUN_EVENTS,
    SESSION_EVENTS,
    ApprovalDecision,
    ApprovalReceipt,
    DeletedSession,
    ErrorResponse,
    ForkSessionRequest,
    MessagePage,
    NewSessionRequest,
    RenameSessionRequest,
    Run,
    RunRequest,
    SessionAnswer,
    SessionMessageRequest,
    SessionObject,
    SessionPage,
)
from hermes.core.encoding import to_json
from hermes.cron.jobs import JobRequest
from hermes.gateway.platforms.api_server.audio import SpeechRequest, TranscriptionObject
from hermes.gateway.platforms.api_server.keys import ApiScope
from hermes.gateway.platforms.api_server.listings import (
    DeletedJob,
    Health,
    JobHistory,
    JobObject,
    JobPage,
    KeyCapabilities,
    ModelObject,
    ModelPage,
    SkillPage,
    StoppedJob,
    ToolsetPage,
)
from hermes.gateway.platforms.api_server.mcp_endpoint import PATH as MCP_PATH
from hermes.gateway.platforms.api_server.requests import json_response

DOCUMENT_PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{name}"
_NUMBERS = {"limit": "How many at most.", "offset": "How many are passed over."}
_FREE_FORM = {"type": "object", "additionalProperties": True}
_OPENAI = "The format is that of OpenAI's API; docs/api-server.md says what is different."
_MCP = "The messages are those of the Model Context Protocol; docs/mcp.md says what there is."
_ERRORS = {
    "400": "The request makes no sense.",
    "401": "The key is not valid here.",
    "403": "The key lacks the scope or the role, or the request comes from a foreign page.",
    "404": "There is nothing of that name.",
    "409": "It cannot be done as things stand.",
    "429": "Too much is under way, or used up; `Retry-After` says when to come again.",
}
JsonTable = dict[str, object]


class ApiOperation(Struct, frozen=True):
    """A route of the API. `scope` is what its key needs, None: any key; `request` and `response` are the types of the
    bodies, None: an object without a fixed form.
    """

    method: str
    path: str
    summary: str
    scope: ApiScope | None = None
    request: type[Struct] | None = None
    response: type[Struct] | None = None
    status: int = 200
    query: Sequence[str] = ()
    headers: Sequence[str] = ()
    streams: bool = False
    """Whether the answer is a stream of server-sent events."""
    is_public: bool = False
    """Whether it is answered without a key."""
    has_body: bool = True
    """Whether a request that is no GET or DELETE has a body."""
    about: str = ""
    content_type: str = "application/json"
    body_type: str = "application/json"


_PAGE = ("limit", "offset")
_RUNS, _SESSIONS, _JOBS = ApiScope.RUNS, ApiScope.SESSIONS, ApiScope.JOBS
OPERATIONS: Sequence[ApiOperation] = (
    ApiOperation("POST", "/v1/runs", "Begin a run", _RUNS, RunRequest, Run, 202, headers=("Idempotency-Key",)),
    ApiOperation("GET", "/v1/runs/{id}", "Get a run", _RUNS, None, Run),
    ApiOperation(
        *("GET", "/v1/runs/{id}/events", "Follow the events of a run", _RUNS),
        headers=("Last-Event-ID",),
        streams=True,
        about="Each event's data is a `RunEvent`; `run.ended` is the last. Kinds and fields are added within a version "
        "of the schema, and never changed or taken away.",
    ),
    ApiOperation(
        *("POST", "/v1/runs/{id}/approval", "Answer an approval question", ApiScope.APPROVE),
        *(ApprovalDecision, ApprovalReceipt),
        about="The key needs the scope `runs`, too.",
    ),
    ApiOperation("POST", "/v1/runs/{id}/stop", "Stop a run", _RUNS, None, Run, 202, has_body=False),
    ApiOperation("GET", "/v1/sessions", "List the key's sessions", _SESSIONS, None, SessionPage, query=_PAGE),
    ApiOperation("POST", "/v1/sessions", "Create a session", _SESSIONS, NewSessionRequest, SessionObject, 201),
    ApiOperation("GET", "/v1/sessions/{id}", "Get a session", _SESSIONS, None, SessionObject),
    ApiOperation("PATCH", "/v1/sessions/{id}", "Rename a session", _SESSIONS, RenameSessionRequest, SessionObject),
    ApiOperation("DELETE", "/v1/sessions/{id}", "Delete a session", _SESSIONS, None, DeletedSession),
    ApiOperation(
        *("GET", "/v1/sessions/{id}/messages", "List a session's messages", _SESSIONS, None, MessagePage), query=_PAGE
    ),
    ApiOperation(
        *("POST", "/v1/sessions/{id}/fork", "Branch a session", _SESSIONS, ForkSessionRequest, SessionObject, 201)
    ),
    ApiOperation(
        *("POST", "/v1/sessions/{id}/chat", "Send a message, and wait for the answer", _SESSIONS),
        *(SessionMessageRequest, SessionAnswer),
    ),
    ApiOperation(
        *("POST", "/v1/sessions/{id}/chat/stream", "Send a message, and stream the answer", _SESSIONS),
        SessionMessageRequest,
        streams=True,
        about="Each event's data is one of `SessionEventData`, by the event's name; `turn_ended` or `error` ends it.",
    ),
    ApiOperation("GET", "/api/jobs", "List jobs", _JOBS, None, JobPage),
    ApiOperation("POST", "/api/jobs", "Create a job", _JOBS, JobRequest, JobObject, 201),
    ApiOperation("GET", "/api/jobs/{id}", "Get a job", _JOBS, None, JobObject),
    ApiOperation("PATCH", "/api/jobs/{id}", "Change a job", _JOBS, JobRequest, JobObject),
    ApiOperation("DELETE", "/api/jobs/{id}", "Remove a job", _JOBS, None, DeletedJob),
    ApiOperation(
        *("GET", "/api/jobs/{id}/history", "List the outcomes of a job", _JOBS, None, JobHistory), query=("limit",)
    ),
    ApiOperation("POST", "/api/jobs/{id}/run", "Run a job now", _JOBS, None, JobObject, 202, has_body=False),
    ApiOperation("POST", "/api/jobs/{id}/stop", "Stop a job's run", _JOBS, None, StoppedJob, has_body=False),
    ApiOperation("POST", "/api/jobs/{id}/{verb}", "Pause or resume a job", _JOBS, None, JobObject, has_body=False),
    ApiOperation("POST", "/v1/chat/completions", "Answer a conversation", ApiScope.CHAT, about=_OPENAI),
    ApiOperation("POST", "/v1/responses", "Create a response", ApiScope.CHAT, about=_OPENAI),
    ApiOperation("GET", "/v1/responses/{id}", "Get a response", ApiScope.CHAT, about=_OPENAI),
    ApiOperation("DELETE", "/v1/responses/{id}", "Delete a response", ApiScope.CHAT, about=_OPENAI),
    ApiOperation(
        *("POST", "/v1/responses/{id}/cancel", "Stop a response", ApiScope.CHAT), has_body=False, about=_OPENAI
    ),
    ApiOperation(
        *("POST", "/v1/audio/speech", "Speak a text", ApiScope.CHAT, SpeechRequest),
        content_type="audio/mpeg",
        about=f"{_OPENAI} The answer is the sound, in the format that was asked for.",
    ),
    ApiOperation(
        *("POST", "/v1/audio/transcriptions", "Write down what is said", ApiScope.CHAT, None, TranscriptionObject),
        body_type="multipart/form-data",
        about=_OPENAI,
    ),
    ApiOperation("POST", MCP_PATH, "Ask the MCP server", ApiScope.MCP, about=_MCP),
    ApiOperation("DELETE", MCP_PATH, "End a session of the MCP server", ApiScope.MCP, about=_MCP),
    ApiOperation("GET", "/v1/models", "List the models", None, None, ModelPage, about=_OPENAI),
    ApiOperation("GET", "/v1/models/{id}", "Get a model", None, None, ModelObject, about=_OPENAI),
    ApiOperation("GET", "/v1/capabilities", "What this key may do", None, None, KeyCapabilities),
    ApiOperation("GET", "/v1/skills", "List the skills", ApiScope.ADMIN, None, SkillPage),
    ApiOperation("GET", "/v1/toolsets", "List the tool sets", ApiScope.ADMIN, None, ToolsetPage),
    ApiOperation("GET", "/health", "Whether something is here", None, None, Health, is_public=True),
    ApiOperation("GET", "/v1/health", "Whether something is here", None, None, Health, is_public=True),
    ApiOperation("GET", "/health/detailed", "How the gateway is", ApiScope.ADMIN),
    ApiOperation(
        "GET", "/metrics", "Metrics in the text format of Prometheus", ApiScope.ADMIN, content_type="text/plain"
    ),
    ApiOperation("GET", DOCUMENT_PATH, "This document"),
)
"""Every route of the server."""


def document_route(version: str) -> web.RouteDef:
    """Return the route that serves the document."""

    async def get_document(request: web.Request) -> web.Response:
        del request
        return json_response(build_openapi(version))

    return web.get(DOCUMENT_PATH, get_document)


def build_openapi(version: str) -> JsonTable:
    """Return the document, of OpenAPI 3.1, for this version of Hermes."""
    paths: dict[str, JsonTable] = {}
    schemas = _build_schemas()
    error = {"application/json": {"schema": _reference_to(ErrorResponse)}}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _describe_operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hermes",
            "version": version,
            "description": "Runs, events, sessions and jobs of a Hermes agent; see docs/programs.md.",
            "x-event-schema": EVENT_SCHEMA_VERSION,
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "responses": {
                f"Error{status}": {"description": said, "content": error} for status, said in _ERRORS.items()
            },
            "schemas": schemas,
        },
    }


def format_openapi(version: str) -> bytes:
    """Return the document as people read it."""
    return msgspec.json.format(to_json(build_openapi(version))) + b"\n"


def _build_schemas() -> JsonTable:
    types: set[type[Struct]] = {*RUN_EVENTS.values(), *SESSION_EVENTS.values(), ErrorResponse}
    for one in OPERATIONS:
        types.update(kind for kind in (one.request, one.response) if kind is not None)
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, schema_hook=_allow_anything, ref_template=_REFERENCE)
    events = {_event_name(kind): _describe_event(kind, data) for kind, data in RUN_EVENTS.items()}
    references = {kind: _REFERENCE.format(name=_event_name(kind)) for kind in RUN_EVENTS}
    event = {
        "description": "An event of a run. Programs pass over the kinds and fields that they do not know.",
        "oneOf": [{"$ref": one} for one in references.values()],
        "discriminator": {"propertyName": "type", "mapping": references},
    }
    streamed = {
        "description": "The data of an event of a streamed answer. Its kind is the name of the event.",
        "anyOf": [{"title": kind, **_reference_to(data)} for kind, data in SESSION_EVENTS.items()],
    }
    return dict(sorted({**components, **events, "RunEvent": event, "SessionEventData": streamed}.items()))


def _allow_anything(kind: type) -> JsonTable:
    """Return the schema of `object`, which is any JSON; msgspec knows the others."""
    if kind is object:
        return {"description": "Any JSON."}
    raise NotImplementedError


def _event_name(kind: str) -> str:
    """Return the name of the schema of a kind of events: RunToolStartedEvent of `run.tool_started`."""
    return "".join(part.capitalize() for part in kind.replace(".", "_").split("_")) + "Event"


def _describe_event(kind: str, data: type[Struct]) -> JsonTable:
    return {
        "type": "object",
        "properties": {
            "type": {"const": kind},
            "run_id": {"type": "string"},
            "data": _reference_to(data),
            "version": {"type": "integer", "minimum": 1},
        },
        "required": ["type", "run_id", "data", "version"],
    }


def _describe_operation(one: ApiOperation) -> JsonTable:
    found: JsonTable = {
        "operationId": _operation_id(one),
        "summary": one.summary,
        "x-scope": one.scope.value if one.scope is not None else None,
        "parameters": _describe_parameters(one),
        "responses": _describe_responses(one),
    }
    if one.about:
        found["description"] = one.about
    if one.is_public:
        found["security"] = []
    if one.has_body and one.method not in ("GET", "DELETE"):
        content = {one.body_type: {"schema": _schema_of(one.request)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _operation_id(one: ApiOperation) -> str:
    words = one.path.replace("{", "").replace("}", "").replace(".", "/").split("/")
    return "_".join([one.method.lower(), *filter(None, words)])


def _describe_parameters(one: ApiOperation) -> list[JsonTable]:
    found: list[JsonTable] = []
    for part in one.path.split("/"):
        if part.startswith("{"):
            schema = {"type": "string", **({"enum": ["pause", "resume"]} if part == "{verb}" else {})}
            found.append({"name": part.strip("{}"), "in": "path", "required": True, "schema": schema})
    for name in one.query:
        number = {"type": "integer", "minimum": 0}
        found.append({"name": name, "in": "query", "description": _NUMBERS[name], "schema": number})
    return found + [{"name": name, "in": "header", "schema": {"type": "string"}} for name in one.headers]


def _describe_responses(one: ApiOperation) -> JsonTable:
    if one.streams:
        event = "RunEvent" if one.path.endswith("/events") else "SessionEventData"
        schema = {"type": "string", "contentMediaType": "application/json", "contentSchema": _reference(event)}
        content: JsonTable = {"text/event-stream": {"schema": schema}}
    elif one.content_type == "application/json":
        content = {one.content_type: {"schema": _schema_of(one.response)}}
    else:
        content = {one.content_type: {"schema": {"type": "string"}}}
    found: JsonTable = {str(one.status): {"description": one.summary, "content": content}}
    if not one.is_public:
        found |= {status: {"$ref": f"#/components/responses/Error{status}"} for status in _ERRORS}
    return found


def _schema_of(kind: type[Struct] | None) -> Mapping[str, object]:
    return _reference_to(kind) if kind is not None else _FREE_FORM


def _reference_to(kind: type[Struct]) -> JsonTable:
    return _reference(kind.__name__)


def _reference(name: str) -> JsonTable:
    return {"$ref": _REFERENCE.format(name=name)}
