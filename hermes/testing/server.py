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

from hermes.testing.legal import problems
from hermes.testing.line import ClientClosedError, Link, read_request, send
from hermes.testing.plan import Plan, plan
from hermes.testing.recorded import RecordedRequest, Recorder
from hermes.testing.script import Delivery, Fail, Model, Reply, ScriptedModel


class ScriptedServer(Recorder):
    """Serves `model` (or a list of replies) on the loopback interface while its context is open.

    `url` ends in /v1; paths work with and without it. With `strict` (the default) a request that a real vendor would
    refuse is answered with a 400 and does not reach the script. With `api_key` a request without that key gets a 401.
    `keep` limits how many requests keep their bodies. A script function that raises ends its connection, and the error
    is raised again when the context closes.
    """

    def __init__(
        self,
        model: Model | Iterable[Reply],
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        strict: bool = True,
        api_key: str = "",
        keep: int | None = None,
        context_length: int | None = None,
    ) -> None:
        super().__init__()
        self.model: Model = ScriptedModel(model) if isinstance(model, Iterable) else model
        self.url = ""
        self.errors: list[BaseException] = []
        self._port = port
        self._tls = tls
        self._strict = strict
        self._api_key = api_key
        self._keep = keep
        self._context_length = context_length
        self.max_connections = 2048
        """More at the same time get a 503."""
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Link(loop, self._accept), "127.0.0.1", self._port, backlog=1024, ssl=self._tls
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

    def _accept(self, link: Link) -> None:
        self._connections += 1
        self._start(self._serve(link, self._connections))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)
        self.changed()

    async def _serve(self, link: Link, connection_id: int) -> None:
        """Answer one connection's requests, one after the other."""
        request: RecordedRequest | None = None
        full = len(self._tasks) > self.max_connections
        try:
            while (request := await read_request(link, connection_id)) is not None:
                self.record(request)
                answer = await self._decide(Fail(503, message="too many connections") if full else None, request, link)
                await send(answer, link, hold=lambda: self.hold(request))
                request.answered_at = time.monotonic()
                self._forget_body(request)
                self.changed()
                if full or not link.reusable:
                    break
        except ClientClosedError:
            if request is not None and request.answered_at is None:
                request.closed_early_at = link.closed_at
                self.changed()
        finally:
            link.close()

    async def _decide(self, refusal: Fail | None, request: RecordedRequest, link: Link) -> Plan:
        """The answer to a request: to the model if it is for the model, else one of ours."""
        if refusal is None and self._api_key and self._api_key not in _keys(request):
            refusal = Fail(401, message="Incorrect API key provided.", code="invalid_api_key")
        if refusal is None and request.number < 0:
            return self._other(request)
        try:
            if refusal is None and self._strict and (found := problems(request)):
                refusal = Fail(400, message="; ".join(found))
            reply = refusal or self.model.reply(request)
            if not isinstance(reply, msgspec.Struct):
                reply = await link.unless_closed(reply)
            return plan(reply, request)
        except msgspec.DecodeError as error:
            return plan(Fail(400, message=f"We could not parse the JSON body of your request: {error}"), request)

    def _forget_body(self, request: RecordedRequest) -> None:
        if self._keep is not None and request.number >= self._keep:
            request.body = b""

    def _other(self, request: RecordedRequest) -> Plan:
        """Model lists, health, what was received so far (for a harness in another process), and 404."""
        path = request.path.partition("?")[0].removeprefix("/v1").rstrip("/")
        routes: dict[str, Callable[[], dict[str, object]]] = {
            "/health": lambda: {"status": "ok"},
            "/models": self._models,
            "/received": self._received,
        }
        if request.method == "POST" and path == "/forget":
            self.requests.clear()
            return plan(Fail(200, body={}), request)
        if request.method in {"GET", "HEAD"} and path in routes:
            delivery = Delivery(at=0) if request.method == "HEAD" else Delivery()
            return plan(Fail(200, body=routes[path](), delivery=delivery), request)
        return plan(Fail(404, message=f"Invalid URL ({request.method} {request.path})"), request)

    def _models(self) -> dict[str, object]:
        """One model, described for every kind of client at once."""
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

    def _received(self) -> dict[str, object]:
        sizes = [{"wire": request.wire, "bytes": request.size} for request in self.requests]
        first = self.requests[0].body.decode(errors="replace") if self.requests else ""
        return {"requests": sizes, "first": first}


def _keys(request: RecordedRequest) -> tuple[str, str]:
    return request.headers.get("authorization", "").removeprefix("Bearer "), request.headers.get("x-api-key", "")
