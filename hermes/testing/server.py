"""A scripted model server on a real socket: HTTP/1.1 over asyncio streams, all three wires, every request recorded.

For instance:

    async with ScriptedServer([Say("hello")]) as server:
        ...                       # point a client at server.url
        assert server.requests[0].last_user_text == "hi"
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Self

import msgspec

from hermes.testing.answer_plan import AnswerPlan, plan_answer
from hermes.testing.http_connection import ClientClosedError, ClientConnection, read_request, send_answer
from hermes.testing.recorded import RecordedRequest, RequestRecorder
from hermes.testing.request_checks import find_problems
from hermes.testing.script import Fail, Reply, ReplyDelivery, ReplyModel, ScriptedModel
from hermes.testing.template_rules import NAMED_RULES, TemplateRules


class ScriptedServer(RequestRecorder):
    """Serves `model` (or a list of replies) on the loopback interface while its context is open.

    `url` ends in /v1; paths work with and without it. With `strict` (the default) a request that a real vendor would
    refuse is answered with a 400 and does not reach the script; a name (`mistral`, `gemma` ...) or a rule set of
    `template_rules` adds what that server's template or validator refuses. With `api_key` a request without that key
    gets a 401. `keep` limits how many requests keep their bodies. A script function that raises ends its connection,
    and the error is raised again when the context closes.
    """

    def __init__(
        self,
        model: ReplyModel | Iterable[Reply],
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        strict: bool | str | TemplateRules = True,
        api_key: str = "",
        keep: int | None = None,
        context_length: int | None = None,
    ) -> None:
        super().__init__()
        self.model: ReplyModel = ScriptedModel(model) if isinstance(model, Iterable) else model
        self.url = ""
        self.errors: list[BaseException] = []
        self._port = port
        self._tls = tls
        self._strict = bool(strict)
        self._rules = NAMED_RULES[strict] if isinstance(strict, str) else strict
        self._api_key = api_key
        self._kept_bodies = keep
        self._context_length = context_length
        self.max_connections = 2048
        """Connections beyond this number get a 503."""
        self._connection_count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(loop, self._accept_connection),
            "127.0.0.1",
            self._port,
            backlog=1024,
            ssl=self._tls,
        )
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            await self.drop_connections()
            await self._server.wait_closed()
        if error is None and self.errors:
            raise self.errors[0]

    async def drop_connections(self) -> None:
        """Close every connection at once, answered or not."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._tasks)

    def _accept_connection(self, connection: ClientConnection) -> None:
        self._connection_count += 1
        self._start_task(self._serve_connection(connection, self._connection_count))

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)
        self.notify_waiters()

    async def _serve_connection(self, connection: ClientConnection, connection_id: int) -> None:
        """Answer one connection's requests, one after the other."""
        request: RecordedRequest | None = None
        full = len(self._tasks) > self.max_connections
        try:
            while (request := await read_request(connection, connection_id)) is not None:
                self.record_request(request)
                answer = await self._choose_answer(
                    Fail(503, message="too many connections") if full else None, request, connection
                )
                await send_answer(answer, connection, hold=lambda: self.hold_reply(request))
                request.answered_at = time.monotonic()
                self._forget_body(request)
                self.notify_waiters()
                if full or not connection.reusable:
                    break
        except ClientClosedError:
            if request is not None and request.answered_at is None:
                request.closed_early_at = connection.closed_at
                self.notify_waiters()
        finally:
            connection.close()

    async def _choose_answer(
        self, refusal: Fail | None, request: RecordedRequest, connection: ClientConnection
    ) -> AnswerPlan:
        """Return the answer to a request: the model's if it is for the model, else one of ours."""
        if refusal is None and self._api_key and self._api_key not in _request_keys(request):
            refusal = Fail(401, message="Incorrect API key provided.", code="invalid_api_key")
        if refusal is None and request.number < 0:
            return self._answer_other(request)
        try:
            reply = refusal or self._find_refusal(request) or self.model.reply(request)
            if not isinstance(reply, msgspec.Struct):
                reply = await connection.run_unless_closed(reply)
            return plan_answer(reply, request)
        except msgspec.DecodeError as error:
            return plan_answer(Fail(400, message=f"We could not parse the JSON body of your request: {error}"), request)

    def _find_refusal(self, request: RecordedRequest) -> Fail | None:
        """Return why a real vendor would refuse the request."""
        if self._strict and (found := find_problems(request)):
            return Fail(400, message="; ".join(found))
        return self._rules.find_refusal(request) if isinstance(self._rules, TemplateRules) else None

    def _forget_body(self, request: RecordedRequest) -> None:
        if self._kept_bodies is not None and request.number >= self._kept_bodies:
            request.body = b""

    def _answer_other(self, request: RecordedRequest) -> AnswerPlan:
        """Answer model lists, health, the received requests (for a harness in another process), and 404."""
        path = request.path.partition("?")[0].removeprefix("/v1").rstrip("/")
        routes: dict[str, Callable[[], dict[str, object]]] = {
            "/health": lambda: {"status": "ok"},
            "/models": self._list_models,
            "/received": self._list_received,
        }
        if request.method == "POST" and path == "/forget":
            self.requests.clear()
            return plan_answer(Fail(200, body={}), request)
        if request.method in {"GET", "HEAD"} and path in routes:
            delivery = ReplyDelivery(at=0) if request.method == "HEAD" else ReplyDelivery()
            return plan_answer(Fail(200, body=routes[path](), delivery=delivery), request)
        return plan_answer(Fail(404, message=f"Invalid URL ({request.method} {request.path})"), request)

    def _list_models(self) -> dict[str, object]:
        """List one model, described for every kind of client at once."""
        about: dict[str, object] = {
            "id": "mock-model",
            "object": "model",
            "created": 1_760_000_000,
            "owned_by": "script",
            "type": "model",
            "display_name": "Mock model",
            "created_at": "2025-10-09T08:53:20Z",
        }
        if self._context_length is not None:
            about["context_length"] = self._context_length
        return {"object": "list", "data": [about], "has_more": False, "first_id": about["id"], "last_id": about["id"]}

    def _list_received(self) -> dict[str, object]:
        sizes = [{"wire": request.wire, "bytes": request.size} for request in self.requests]
        first = self.requests[0].body.decode(errors="replace") if self.requests else ""
        return {"requests": sizes, "first": first}


def _request_keys(request: RecordedRequest) -> tuple[str, str]:
    return request.headers.get("authorization", "").removeprefix("Bearer "), request.headers.get("x-api-key", "")
