"""A client of Telegram's Bot API with the meaning of its errors, and the server of its webhook."""

import asyncio
import contextlib
import hmac
import json
import mimetypes
import secrets
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.gateway.http.client import (
    REQUEST_SECONDS,
    UPLOAD_SECONDS,
    Kind,
    PlatformRequest,
    PlatformResponse,
    decode_json,
    save_file,
    send_request,
)
from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import N_
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web


_FAULTS_BY_TEXT = (
    ("can't parse", SendFault.BAD_FORMAT),
    ("entit", SendFault.BAD_FORMAT),
    ("http url", SendFault.BAD_FORMAT),
    ("button_", SendFault.BAD_FORMAT),
    ("photo_", SendFault.BAD_FORMAT),
    ("image_process", SendFault.BAD_FORMAT),
    ("wrong file", SendFault.BAD_FORMAT),
    ("file must be", SendFault.BAD_FORMAT),
    ("voice_messages", SendFault.BAD_FORMAT),  # somebody takes none: it is sent as a file then
    ("reaction_", SendFault.BAD_FORMAT),
    ("too long", SendFault.TOO_LONG),
    ("too_long", SendFault.TOO_LONG),
    ("not enough rights", SendFault.FORBIDDEN),
    ("have no rights", SendFault.FORBIDDEN),
    ("forbidden", SendFault.FORBIDDEN),
    ("not found", SendFault.NOT_FOUND),
    ("can't be edited", SendFault.NOT_FOUND),
    ("peer_id_invalid", SendFault.NOT_FOUND),
    ("topic_", SendFault.NOT_FOUND),
    ("upgraded to a supergroup", SendFault.NOT_FOUND),
)
"""Texts in the description of a 400, in lower case, and the faults they mean; the first match counts."""
MAX_UPDATE_BYTES = 1 << 20
"""Bytes of the largest update."""
MAX_WAITING = 64
"""Updates that wait at most; Telegram sends refused ones again."""
STORE_SECONDS = 50.0
"""Seconds that an update may wait until it is on disk."""
MAX_BATCH = 100
MAX_CONNECTIONS = 256
"""Connections that are open at the same time at most; Telegram itself uses 100."""
_SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
_WaitingUpdate = tuple[msgspec.Raw, "asyncio.Future[bool]"]


class TelegramErrorParameters(Struct, frozen=True):
    """Details of an error."""

    retry_after: float | None = None


class TelegramResponse(Struct, frozen=True):
    """The response to every call."""

    ok: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""
    error_code: int = 0
    parameters: TelegramErrorParameters = TelegramErrorParameters()


class TelegramCallError(SendError):
    """A call that Telegram refused, with its error code."""

    def __init__(self, fault: SendFault, message: str, *, code: int, retry_after: float | None = None) -> None:
        # A gateway between us and Telegram lost the answer: what was asked for may have been done.
        super().__init__(fault, message, retry_after=retry_after, uncertain=code in (502, 504))
        self.code = code

    @property
    def is_unchanged(self) -> bool:
        """Whether an edit changed nothing."""
        return "message is not modified" in self.message


class TelegramClient:
    """The Bot API for one token."""

    def __init__(self, http: "aiohttp.ClientSession", base_url: str, token: str) -> None:
        self._http = http
        self._base = base_url.rstrip("/")
        self._token = token

    async def call_method(
        self, method: str, values: Mapping[str, object], kind: type[Kind], *, seconds: float = REQUEST_SECONDS
    ) -> Kind:
        """Call a method and return its result. Raises SendError."""
        body = to_json(values)
        return _decode_result(
            await self._post_request(method, body, {"Content-Type": "application/json"}, seconds), kind
        )

    async def upload_file(
        self, method: str, values: Mapping[str, object], field: str, file: BinaryIO, name: str
    ) -> int:
        """Send a file with a method that sends a message, and return the message's id. Raises SendError."""
        from aiohttp import FormData

        form = FormData(quote_fields=False)
        for key, value in values.items():
            form.add_field(key, value if isinstance(value, str) else to_json(value).decode())
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        form.add_field(field, file, filename=name, content_type=kind)
        return _decode_result(
            await self._post_request(method, form, {}, UPLOAD_SECONDS), TelegramSentMessage
        ).message_id

    async def _post_request(
        self, method: str, body: "bytes | aiohttp.FormData", headers: dict[str, str], seconds: float
    ) -> TelegramResponse:
        url = f"{self._base}/bot{self._token}/{method}"
        call = PlatformRequest(method="POST", url=url, headers=headers, body=body, creates=True, seconds=seconds)
        return _decode_response(await send_request(self._http, call, "Telegram"))

    async def download_file(self, path: str, target: Path) -> None:
        """Download a file. Raises PlatformError."""
        await save_file(self._http, f"{self._base}/file/bot{self._token}/{path.lstrip('/')}", target)


class TelegramSentMessage(Struct, frozen=True):
    """The id of a message that was sent."""

    message_id: int


def _decode_response(response: PlatformResponse) -> TelegramResponse:
    status = response.status
    try:
        answer = decode_json(response.body, TelegramResponse)
    except msgspec.DecodeError:
        if status < 500:
            odd = N_("What answers is not Telegram's Bot API (HTTP {status}).", status=status)
            raise SendError(SendFault.UNKNOWN, odd) from None
        answer = TelegramResponse(error_code=status)
    if answer.ok:
        return answer
    raise _refusal_error(answer.error_code or status, answer)


def _refusal_error(code: int, answer: TelegramResponse) -> TelegramCallError:
    said = to_one_line(strip_control_characters(answer.description), 200) or f"HTTP {code}"
    words = N_("Telegram refused it: {reason}.", reason=said.rstrip("."))
    if code == 429:
        wait = answer.parameters.retry_after
        return TelegramCallError(
            SendFault.RATE_LIMITED, words, code=code, retry_after=wait if wait is not None else 5.0
        )
    if code >= 500:
        return TelegramCallError(SendFault.TRANSIENT, words, code=code)
    if code in (401, 403):
        return TelegramCallError(SendFault.FORBIDDEN, words, code=code)
    if code == 413:
        return TelegramCallError(SendFault.BAD_FORMAT, words, code=code)
    if code == 409:
        return TelegramCallError(SendFault.TRANSIENT, words, code=code)
    fault = next((fault for part, fault in _FAULTS_BY_TEXT if part in said.lower()), SendFault.UNKNOWN)
    return TelegramCallError(fault, words, code=code)


def _decode_result(answer: TelegramResponse, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(answer.result, type=kind)
    except msgspec.DecodeError as error:
        reason = N_("Telegram answered something that cannot be read ({reason}).", reason=str(error))
        raise SendError(SendFault.UNKNOWN, reason) from None


def connection_error(error: SendError) -> PlatformError:
    """Return the error to raise while connecting: what is wrong with the account, and what to do."""
    code = error.code if isinstance(error, TelegramCallError) else 0
    if code in (401, 404):
        return PlatformRefusedError(
            N_("Telegram does not know this bot token."), N_("Copy it once more from @BotFather.")
        )
    if code == 409:
        return PlatformError(
            N_("Another program receives this bot's messages, with the same token."),
            N_("Stop it, or give each program a bot of its own."),
        )
    return error


class TelegramWebhookServer:
    """The webhook server, as an async context."""

    def __init__(self, url: str, listen: str, secret: str) -> None:
        from aiohttp import web

        from hermes.gateway.http.server import HttpServer, HttpServerLimits

        self.secret = secret or secrets.token_urlsafe(32)
        self._path = urlsplit(url).path or "/"
        self._host, _, port = listen.rpartition(":")
        if not self._host or not port.isdigit():
            raise PlatformRefusedError(N_("`webhook_listen` must be HOST:PORT, such as 127.0.0.1:8443."))
        self._port = int(port)
        self._queue: asyncio.Queue[_WaitingUpdate] = asyncio.Queue(MAX_WAITING)
        application = web.Application(client_max_size=MAX_UPDATE_BYTES)
        application.add_routes([web.post(self._path, self._receive_update)])
        self._http_server = HttpServer(
            application, HttpServerLimits(host=self._host, port=self._port, connections=MAX_CONNECTIONS)
        )

    @property
    def address(self) -> str:
        """The URL that it listens on."""
        return f"http://{self._host}:{self._port}{self._path}"

    async def __aenter__(self) -> "TelegramWebhookServer":
        await self._http_server.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()[1].set_result(False)
        await self._http_server.close()

    async def _receive_update(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        secret = request.headers.get(_SECRET_HEADER, "")
        if not hmac.compare_digest(secret.encode("utf-8", "surrogateescape"), self.secret.encode()):
            return web.Response(status=401)
        try:
            async with asyncio.timeout(STORE_SECONDS):
                body = await request.read()
                json.loads(body)
                stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
                await self._queue.put((msgspec.Raw(body), stored))
                return web.Response(status=200 if await stored else 503)
        except (ValueError, RecursionError):
            return web.Response(status=400)
        except TimeoutError:
            return web.Response(status=503)

    @contextlib.asynccontextmanager
    async def next_updates(self) -> AsyncGenerator[list[msgspec.Raw], None]:
        """Yield the updates that have come, at least one; they count as stored if the context ends without an error."""
        found = [await self._queue.get()]
        while not self._queue.empty() and len(found) < MAX_BATCH:
            found.append(self._queue.get_nowait())
        succeeded = False
        try:
            yield [raw for raw, _ in found]
            succeeded = True
        finally:
            for _, taken in found:
                if not taken.done():
                    taken.set_result(succeeded)
