"""The webhook server: a report is verified, counted and stored before it is acknowledged, and fills a prompt.

Values from outside are untrusted content: the prompt only names them, and they stand in a fenced block of their own.
Only numbers, and true or false, are put into the prompt itself.
"""

import hashlib
import hmac
import logging
import os
import re
from collections import deque
from collections.abc import Mapping
from urllib.parse import parse_qs

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct, UnsetType, structs

from hermes.admin.people.identity import OWNER_ID, PersonIdentity, PersonRole
from hermes.admin.webhooks import (
    GITHUB_COMMENT,
    LOG,
    SIGNATURE_HEADER,
    SignatureScheme,
    WebhookRoute,
    WebhookRouteFile,
    WebhookRoutes,
    compute_mac,
    read_routes_in_thread,
)
from hermes.core.api import NewRun, RunRow
from hermes.core.chats import Batch, InboundEvent, Place, Sender
from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError, HermesError, NotFoundError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platform import GatewayFacade, PlatformContext, SessionRequest
from hermes.gateway.platforms.api_server.errors import ApiRequestError, to_api_error
from hermes.gateway.platforms.api_server.keys import ApiCaller, TurnSlots
from hermes.gateway.platforms.api_server.requests import RequestReader, check_depth, json_response
from hermes.gateway.platforms.api_server.runs import RunOutcome, RunPlan, RunWorker
from hermes.gateway.platforms.api_server.session_lookup import ApiSessions, SessionExtras
from hermes.gateway.platforms.api_server.turns import ApiTurns
from hermes.gateway.platforms.webhook.github_comments import find_comment_chat, is_own_comment
from hermes.markup.links import defuse_links
from hermes.runtime.mailbox import InboundMessage
from hermes.runtime.turn_answers import load_answer
from hermes.sessions.features.skills import build_skills, load_skill_parts
from hermes.sessions.untrusted_text import untrusted_part
from hermes.util.cancellation import run_to_completion
from hermes.util.text import clean_surrogates, strip_control_characters, to_one_line

MAX_CLOCK_SECONDS = 300.0
"""Seconds that a signed time may differ from now."""
_V1_HEADER = "X-Webhook-Signature"
_STRIPE_HEADER, _GITHUB_HEADER, _GITLAB_HEADER = "Stripe-Signature", "X-Hub-Signature-256", "X-Gitlab-Token"
_MAX_SIGNATURES = 8
_FORM_TYPE = "application/x-www-form-urlencoded"
_CONTENT_TYPES = ("application/json", _FORM_TYPE)
_MAX_FORM_FIELDS = 1_000
_FIELD = re.compile(r"\{([A-Za-z_][\w.-]{0,200})\}", re.ASCII)
_WHOLE_PAYLOAD = "payload"
MAX_REPORT_TEXT = 50_000
"""Characters of a report that the agent gets at most."""
_ABSENT = "(not there)"
_LOG = logging.getLogger(__name__)
MAX_REPORT_BYTES = 1_000_000
"""Bytes of the largest report."""
_CONNECTIONS = 256
_MAX_TURNS = 64
"""Reports that are worked on at the same time; more wait."""
_MAX_LOGGED = 2_000
_UNKNOWN_ROUTE_SECRET = os.urandom(32).hex()


class VerifiedReport(Struct, frozen=True):
    """A report whose signature is valid.

    `digest` is the same for the same report sent again. It covers what was signed, since nothing else of a request can
    be trusted.
    """

    digest: str


def verify_report(
    scheme: SignatureScheme, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> VerifiedReport | None:
    """Return the verified report, or None if the request carries no valid signature."""
    key = secret.encode()
    timestamped = headers.get(SIGNATURE_HEADER) or headers.get(_STRIPE_HEADER)
    if timestamped is not None and scheme in (SignatureScheme.AUTO, SignatureScheme.V2):
        return _verify_timestamped(key, timestamped, body, now)
    if scheme in (SignatureScheme.AUTO, SignatureScheme.GITHUB) and (given := headers.get(_GITHUB_HEADER)) is not None:
        return _verify_hmac(key, given.removeprefix("sha256="), body) if given.startswith("sha256=") else None
    if scheme in (SignatureScheme.AUTO, SignatureScheme.V1) and (given := headers.get(_V1_HEADER)) is not None:
        return _verify_hmac(key, given.removeprefix("sha256="), body)
    if scheme in (SignatureScheme.AUTO, SignatureScheme.GITLAB) and (given := headers.get(_GITLAB_HEADER)) is not None:
        good = hmac.compare_digest(_sha256(given.encode("utf-8", "surrogateescape")), _sha256(key))
        return VerifiedReport(_sha256(body).hex()) if good else None
    return None


def _verify_timestamped(key: bytes, given: str, body: bytes, now: float) -> VerifiedReport | None:
    fields = [one.strip().partition("=") for one in given.split(",", _MAX_SIGNATURES)]
    moments = [value for name, _, value in fields if name == "t"]
    if len(moments) != 1 or not moments[0].isascii() or not moments[0].isdigit() or len(moments[0]) > 12:
        return None
    signed = moments[0].encode() + b"." + body
    good = False
    for name, _, value in fields:
        good |= name == "v1" and _is_same_digest(compute_mac(key, signed), value)
    if not good or abs(now - int(moments[0])) > MAX_CLOCK_SECONDS:
        return None
    return VerifiedReport(_sha256(signed).hex())


def _verify_hmac(key: bytes, given: str, body: bytes) -> VerifiedReport | None:
    return VerifiedReport(_sha256(body).hex()) if _is_same_digest(compute_mac(key, body), given) else None


def _is_same_digest(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.strip().lower().encode("utf-8", "surrogateescape"))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class FilledPrompt(Struct, frozen=True):
    """A prompt and the reported values; `plain` is both in one text, for recipients that are no model."""

    prompt: str
    reported: str
    plain: str


def fill_prompt(template: str, payload: object) -> FilledPrompt:
    """Fill a template with the fields of a payload."""
    fields: dict[str, str] = {}

    def name_field(match: re.Match[str]) -> str:
        value = payload if match[1] == _WHOLE_PAYLOAD else value_at_path(payload, match[1])
        if isinstance(value, bool | int | float):
            return _format_value(value)
        fields[match[1]] = _format_value(value)
        return f"[{match[1]}]"

    def insert_value(match: re.Match[str]) -> str:
        return _format_value(payload if match[1] == _WHOLE_PAYLOAD else value_at_path(payload, match[1]))

    prompt = _FIELD.sub(name_field, template)
    reported = "\n".join(f"[{name}]: {text}" for name, text in fields.items())
    return FilledPrompt(prompt, _truncate_text(reported), _truncate_text(_FIELD.sub(insert_value, template)))


def value_at_path(payload: object, path: str) -> object:
    """Return the value at a dotted path; None if there is none."""
    for name in path.split("."):
        if isinstance(payload, Mapping):
            payload = payload.get(name)
        elif isinstance(payload, list) and name.isdigit() and int(name) < len(payload):
            payload = payload[int(name)]
        else:
            return None
    return payload


def ignore_reason(route: WebhookRoute, event: str, payload: object) -> str:
    """Return why a report is ignored; empty if it is accepted."""
    if route.events and event not in route.events:
        return "event"
    for path, accepted in route.filters.items():
        values = accepted if isinstance(accepted, tuple) else (accepted,)
        if _format_value(value_at_path(payload, path)) not in map(_format_value, values):
            return f"filter {path}"
    return ""


def event_type(headers: Mapping[str, str], payload: object) -> str:
    """Return the event type that the headers or the payload name; empty if none does."""
    for name in ("X-GitHub-Event", "X-Gitlab-Event", "X-Event-Key", "X-Event-Type"):
        if name in headers:
            return headers[name]
    found = value_at_path(payload, "type") or value_at_path(payload, "event")
    return found if isinstance(found, str) else ""


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return clean_surrogates(value)
    return _ABSENT if value is None else to_json(value).decode()


def _truncate_text(text: str) -> str:
    return (
        text
        if len(text) <= MAX_REPORT_TEXT
        else f"{text[:MAX_REPORT_TEXT]}\n[{len(text) - MAX_REPORT_TEXT:,} more characters]"
    )


class StoredWebhookRun(Struct, frozen=True):
    """What is stored with a run to work on its report after a restart."""

    route: str
    system: str = ""
    chat: str | UnsetType = UNSET
    """The issue or pull request of a report that is answered by a comment."""


class WebhookServer:
    """Accepts reports and works on them."""

    def __init__(
        self, gateway: GatewayFacade, context: PlatformContext, routes: WebhookRoutes, bounds: HttpServerLimits
    ) -> None:
        self._gateway = gateway
        self._context = context
        self._configured_routes = routes
        self._route_file = WebhookRouteFile(gateway.app.services.home)
        self._reader = RequestReader(MAX_REPORT_BYTES)
        self._sessions = ApiSessions(gateway, context.name, ())
        self._turns = ApiTurns(gateway)
        self._slots = TurnSlots(_MAX_TURNS)
        self._store = gateway.app.services.store
        self._report_times: dict[str, deque[float]] = {}
        """By route, the times at which reports were accepted, by the gateway's clock."""
        self.worker = RunWorker(gateway, self._turns, self._plan_run, self._deliver_outcome)
        application = web.Application(client_max_size=MAX_REPORT_BYTES)
        application.add_routes(
            [web.post("/webhooks/{route}", self._receive_report), web.get("/health", self._get_health)]
        )
        self.http_server = HttpServer(application, structs.replace(bounds, connections=_CONNECTIONS))

    async def close(self) -> None:
        """Close everything; accepted reports are worked on at the next start."""
        await self.http_server.close()
        await self.worker.close()
        await self._turns.close()

    async def _get_health(self, request: web.Request) -> web.Response:
        del request
        return json_response({"status": "ok"})

    async def _receive_report(self, request: web.Request) -> web.Response:
        try:
            return await self._accept_report(request)
        except HermesError as error:
            said = to_api_error(error)
            return json_response(said.body, said.status, said.headers)

    async def _accept_report(self, request: web.Request) -> web.Response:
        """Accept a report. It is on disk when this responds with 202."""
        if request.content_type not in _CONTENT_TYPES or "Origin" in request.headers:
            raise ApiRequestError(
                415, "A report is JSON or a form, with the type application/json or that of a form, and of no page."
            )
        name = request.match_info["route"]
        body = await self._reader.read_bytes(request)
        route = await self._find_route(name)
        secret = route.secret if route is not None else _UNKNOWN_ROUTE_SECRET
        now = self._context.clock.now()
        scheme = route.scheme if route is not None else WebhookRoute(secret=secret).scheme
        proof = verify_report(scheme, secret, request.headers, body, now)
        if proof is None or route is None:
            raise ApiRequestError(401, "The report is not signed with the secret of such a route, or too long ago.")
        is_form = request.content_type == _FORM_TYPE and not body.lstrip().startswith(b"{")
        payload = _parse_form(body) if is_form else _parse_report(body)  # curl -d calls whatever it sends a form
        why = ignore_reason(route, event_type(request.headers, payload), payload)
        if why:
            return json_response({"status": "ignored", "why": why})
        return await self._store_report(name, route, payload, proof.digest)

    async def _store_report(self, name: str, route: WebhookRoute, payload: object, digest: str) -> web.Response:
        owner, idem = f"{self._context.name}:{name}", digest
        known = await self._store.api.find_run_by_key(owner, idem, bytes.fromhex(digest))
        if known is not None or await self._store.chats.has_event(self._context.name, digest):
            return json_response({"status": "known"})
        chat = find_comment_chat(payload) if route.deliver == GITHUB_COMMENT else ""
        if route.deliver == GITHUB_COMMENT and (not chat or is_own_comment(payload)):
            return json_response({"status": "ignored", "why": "no issue or pull request, or a comment of our own"})
        self._check_rate(name, route)
        prompt = fill_prompt(route.prompt, payload)
        if route.deliver_only:
            plain = self._gateway.app.redact_text(prompt.plain)
            await self._deliver_text(route, plain, chat, key=f"webhook:{owner}:{digest}")
            place, sender = Place(self._context.name, name), Sender(name)
            inbound_event = InboundEvent(event_id=digest, place=place, sender=sender)
            noted = await self._store.chats.record_batch(self._context.name, Batch((inbound_event,)))
            await self._store.chats.dismiss_events([one.id for one in noted], "delivered")
            return json_response({"status": "delivered"}, 202)
        run_id = f"hook_{hashlib.sha256(f'{owner}:{digest}'.encode()).hexdigest()[:32]}"
        caller = self._make_caller(owner, route)
        inbound = await self._build_inbound(name, route, caller, prompt)
        session = self._sessions.make_session(caller, run_id, self._sessions.fresh_session_id(), create=True)
        request = _narrow_request(session.request, route)
        run = NewRun(
            id=run_id,
            owner=owner,
            idem=idem,
            digest=bytes.fromhex(digest),
            session_id=request.session_id,
            letter_id=new_queued_message_id(),
            letter=inbound.encode(),
            wish=to_json(StoredWebhookRun(name, chat=chat or UNSET)),
        )
        async with self._gateway.hold_session(request):
            row = await run_to_completion(self._begin_run(run))
        return json_response({"status": "taken" if row.session_id == run.session_id else "known", "id": row.id}, 202)

    async def _build_inbound(
        self, name: str, route: WebhookRoute, caller: ApiCaller, filled: FilledPrompt
    ) -> InboundMessage:
        """Build the message to the session: the prompt is the owner's, the reported values are untrusted content."""
        services = self._gateway.app.services
        skills = (
            await load_skill_parts(
                build_skills(services.home, services.settings, services.environ, services.store), route.skills
            )
            if route.skills
            else []
        )
        reported = [untrusted_part(filled.reported, f"webhook {name}")] if filled.reported else []
        prompt = self._gateway.app.redact_text(filled.prompt)
        folder = route.folder or self._sessions.working_folder(caller.person)
        return InboundMessage(text=prompt, cwd=folder, quoted=(*skills, *reported))

    async def _begin_run(self, run: NewRun) -> RunRow:
        row = await self._store.api.begin_run(run)
        if row.session_id == run.session_id:
            self.worker.start_run(row)
        return row

    def _plan_run(self, row: RunRow) -> RunPlan | None:
        """Return how to work on a report; None if its route has been removed."""
        name = msgspec.json.decode(row.wish, type=StoredWebhookRun).route
        route = self._cached_route(name)
        if route is None:
            return None
        caller = self._make_caller(row.owner, route)
        session = self._sessions.make_session(caller, row.id, row.session_id, SessionExtras(model=route.model))
        return RunPlan(_narrow_request(session.request, route), self._slots.take_slot(caller, promised=True))

    async def _deliver_outcome(self, row: RunRow, end: RunOutcome) -> None:
        """Queue the outcome of a report for delivery."""
        stored = msgspec.json.decode(row.wish, type=StoredWebhookRun)
        name = stored.route
        route = self._cached_route(name)
        text = await load_answer(self._store, row.turn_id) if row.turn_id else ""
        if end.state != "completed":
            text = f"{text}\n\n(The webhook {name} did not come to its end: {end.error or end.reason})".strip()
        if await self._gateway.app.services.store.messages.list_untrusted_sources([row.session_id]):
            text = defuse_links(text)
        if route is not None and text and text != "[SILENT]":
            try:
                await self._deliver_text(route, text, stored.chat or "", key=f"webhook:{row.id}")
            except (NotFoundError, UsageError) as error:
                self._context.report(f"{self._context.name}: {name}: {error}")

    async def _deliver_text(self, route: WebhookRoute, text: str, chat: str, *, key: str) -> None:
        if route.deliver == LOG:
            self._context.report(f"{self._context.name}: {to_one_line(strip_control_characters(text), _MAX_LOGGED)}")
        elif route.deliver == GITHUB_COMMENT:
            await self._gateway.deliver_to_place(Place(self._context.name, chat), text, key=key)
        else:
            await self._gateway.deliver_text(route.deliver, text, key=key)

    def _make_caller(self, owner: str, route: WebhookRoute) -> ApiCaller:
        """Return the caller in whose name a report is worked on."""
        role = PersonRole(route.role)
        return ApiCaller(
            owner, owner, frozenset(), PersonIdentity(OWNER_ID if role is PersonRole.OWNER else owner, role)
        )

    async def _find_route(self, name: str) -> WebhookRoute | None:
        try:
            added = await read_routes_in_thread(self._route_file)
        except ConfigError as error:
            self._context.report(f"{self._context.name}: {error}")
            added = {}
        return self._register_secret(name, self._configured_routes.get(name) or added.get(name))

    def _cached_route(self, name: str) -> WebhookRoute | None:
        """Return a route; a known one without checking the file for changes."""
        try:
            return self._configured_routes.get(name) or self._register_secret(
                name, self._route_file.read_routes().get(name)
            )
        except ConfigError:
            return None

    def _register_secret(self, name: str, route: WebhookRoute | None) -> WebhookRoute | None:
        if route is not None:
            self._gateway.app.services.redactor.add_secret(f"webhook_{name}", route.secret)
        return route

    def _check_rate(self, name: str, route: WebhookRoute) -> None:
        """Count a report. Raises ApiRequestError when there were too many within a minute."""
        now = self._context.clock.now()
        times = self._report_times.setdefault(name, deque())
        while times and not now - 60 < times[0] <= now:
            times.popleft()
        if len(times) >= route.per_minute:
            wait = str(max(1, int(times[0] + 61 - now)))
            raise ApiRequestError(429, "Too much was reported within a minute.", headers={"Retry-After": wait})
        times.append(now)


def _narrow_request(request: SessionRequest, route: WebhookRoute) -> SessionRequest:
    """Return the request with the folder of a route, and with its tools: never more than the role has."""
    options = request.options
    if route.folder:
        options = structs.replace(options, cwd=route.folder)
    if isinstance(route.toolsets, tuple):
        limit, enabled = options.toolset_limit, options.enabled_toolsets
        kept = tuple(
            one for one in route.toolsets if (limit is None or one in limit) and (enabled is None or one in enabled)
        )
        options = structs.replace(options, enabled_toolsets=kept, toolset_limit=kept)
    return structs.replace(request, options=options)


def _parse_form(body: bytes) -> object:
    """Return the report in a form: the JSON in its field `payload`, as GitHub sends it by default, else its fields."""
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=_MAX_FORM_FIELDS)
    except (ValueError, UnicodeDecodeError) as error:
        raise ApiRequestError(400, f"The report is no form: {error}") from None
    if len(values := fields.get("payload", [])) == 1:
        return _parse_report(values[0].encode())
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _parse_report(body: bytes) -> object:
    try:
        payload: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise ApiRequestError(400, f"The report is not JSON: {error}") from None
    check_depth(payload)
    return payload
