"""Calls of Telegram's Bot API, and what its errors mean."""

import asyncio
import json
import mimetypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from hermes.gateway.platform import PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import phrase
from hermes.util.text import clean_surrogates, inert, one_line

if TYPE_CHECKING:
    import aiohttp

R = TypeVar("R")
CALL_SECONDS = 30.0
"""Seconds that a call may take."""
FILE_SECONDS = 300.0
"""Seconds that a file may take."""

_FAULTS = (
    ("can't parse", SendFault.BAD_FORMAT),
    ("entit", SendFault.BAD_FORMAT),
    ("http url", SendFault.BAD_FORMAT),
    ("button_", SendFault.BAD_FORMAT),
    ("photo_", SendFault.BAD_FORMAT),
    ("image_process", SendFault.BAD_FORMAT),
    ("wrong file", SendFault.BAD_FORMAT),
    ("file must be", SendFault.BAD_FORMAT),
    ("reaction_", SendFault.BAD_FORMAT),
    ("too long", SendFault.TOO_LONG),
    ("too_long", SendFault.TOO_LONG),
    ("not enough rights", SendFault.FORBIDDEN),
    ("have no rights", SendFault.FORBIDDEN),
    ("forbidden", SendFault.FORBIDDEN),
    ("voice_messages", SendFault.FORBIDDEN),
    ("not found", SendFault.NOT_FOUND),
    ("can't be edited", SendFault.NOT_FOUND),
    ("peer_id_invalid", SendFault.NOT_FOUND),
    ("topic_", SendFault.NOT_FOUND),
    ("upgraded to a supergroup", SendFault.NOT_FOUND),
)
"""What a description of a 400 holds, in small letters, and what it means; the first that fits."""


class Parameters(Struct, frozen=True):
    """What helps with an error."""

    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class Answer(Struct, frozen=True):
    """What every call is answered with."""

    ok: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""
    error_code: int = 0
    parameters: Parameters = Parameters()


class CallError(SendError):
    """A call was refused: with Telegram's code."""

    def __init__(self, fault: SendFault, message: str, *, code: int, retry_after: float | None = None) -> None:
        # A gateway between us and Telegram lost the answer: what was asked for may have been done.
        super().__init__(fault, message, retry_after=retry_after, uncertain=code in (502, 504))
        self.code = code

    @property
    def unchanged(self) -> bool:
        """Whether an edit changed nothing."""
        return "message is not modified" in self.message


class Calls:
    """The Bot API for one token."""

    def __init__(self, http: "aiohttp.ClientSession", base_url: str, token: str) -> None:
        self._http = http
        self._base = base_url.rstrip("/")
        self._token = token

    async def call(
        self, method: str, values: Mapping[str, object], kind: type[R], *, seconds: float = CALL_SECONDS
    ) -> R:
        """Call a method. Raises SendError."""
        body = msgspec.json.encode(values)
        return _result(await self._post(method, body, {"Content-Type": "application/json"}, seconds), kind)

    async def upload(self, method: str, values: Mapping[str, object], field: str, file: BinaryIO, name: str) -> int:
        """Send a file with a method that sends a message; the message's id. Raises SendError."""
        from aiohttp import FormData

        form = FormData(quote_fields=False)
        for key, value in values.items():
            form.add_field(key, value if isinstance(value, str) else msgspec.json.encode(value).decode())
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        form.add_field(field, file, filename=name, content_type=kind)
        return _result(await self._post(method, form, {}, FILE_SECONDS), Sent).message_id

    async def _post(
        self, method: str, body: "bytes | aiohttp.FormData", headers: Mapping[str, str], seconds: float
    ) -> Answer:
        from aiohttp import ClientConnectorError, ClientError, ClientTimeout

        url = f"{self._base}/bot{self._token}/{method}"
        limit = ClientTimeout(total=seconds, connect=min(seconds, 15.0))
        try:
            async with self._http.post(url, data=body, headers=headers, timeout=limit, allow_redirects=False) as given:
                status, raw = given.status, await given.read()
        except ClientConnectorError:
            raise SendError(SendFault.TRANSIENT, phrase("Telegram cannot be reached.")) from None
        except TimeoutError:
            late = phrase("Telegram did not answer within {seconds} s.", seconds=f"{seconds:g}")
            raise SendError(SendFault.TRANSIENT, late, uncertain=True) from None
        except (ClientError, OSError) as error:
            raise _broken(error) from None
        return _read(status, raw)

    async def download(self, path: str, target: Path, most: int) -> None:
        """Save a file. Raises SendError, and PlatformError when it is larger than `most` bytes."""
        from aiohttp import ClientError, ClientTimeout

        url = f"{self._base}/file/bot{self._token}/{path.lstrip('/')}"
        limit = ClientTimeout(total=FILE_SECONDS)
        try:
            async with self._http.get(url, timeout=limit, allow_redirects=False) as given:
                if given.status != 200:
                    raise PlatformError(phrase("Telegram does not give the file (HTTP {status}).", status=given.status))
                with _private(target) as file:
                    await _save(given.content, file, most)
        except (ClientError, TimeoutError) as error:
            raise _broken(error) from None


async def _save(content: "aiohttp.StreamReader", file: BinaryIO, most: int) -> None:
    size = 0
    async for chunk in content.iter_chunked(1 << 18):
        size += len(chunk)
        if size > most:
            raise PlatformError(phrase("The file is larger than {limit} MB.", limit=most >> 20))
        await asyncio.to_thread(file.write, chunk)


def _private(target: Path) -> BinaryIO:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _broken(error: Exception) -> SendError:
    """An error of the connection; its own words may hold the address, and in that the token."""
    kind = type(error).__name__
    return SendError(
        SendFault.TRANSIENT, phrase("The connection to Telegram broke ({kind}).", kind=kind), uncertain=True
    )


class Sent(Struct, frozen=True):
    """Of a message that was sent, its id."""

    message_id: int


def _read(status: int, raw: bytes) -> Answer:
    try:
        answer = decoded(raw, Answer)
    except (ValueError, RecursionError, msgspec.DecodeError):
        if status < 500:
            odd = phrase("What answers is not Telegram's Bot API (HTTP {status}).", status=status)
            raise SendError(SendFault.UNKNOWN, odd) from None
        answer = Answer(error_code=status)
    if answer.ok:
        return answer
    raise _refused(answer.error_code or status, answer)


def decoded(raw: bytes | msgspec.Raw, kind: type[R]) -> R:
    """JSON as a value. Raises ValueError and `msgspec.DecodeError`.

    Half a character, which people can send, is a mistake to the fast reader, and would stop all that came with it.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        whole = clean_surrogates(json.dumps(json.loads(bytes(raw)), ensure_ascii=False))
        return msgspec.json.decode(whole, type=kind)


def _refused(code: int, answer: Answer) -> CallError:
    said = one_line(inert(answer.description), 200) or f"HTTP {code}"
    words = phrase("Telegram refused it: {reason}.", reason=said.rstrip("."))
    if code == 429:
        wait = answer.parameters.retry_after
        return CallError(SendFault.RATE_LIMITED, words, code=code, retry_after=wait if wait is not None else 5.0)
    if code >= 500:
        return CallError(SendFault.TRANSIENT, words, code=code)
    if code in (401, 403):
        return CallError(SendFault.FORBIDDEN, words, code=code)
    if code == 413:
        return CallError(SendFault.BAD_FORMAT, words, code=code)
    if code == 409:
        return CallError(SendFault.TRANSIENT, words, code=code)
    fault = next((fault for part, fault in _FAULTS if part in said.lower()), SendFault.UNKNOWN)
    return CallError(fault, words, code=code)


def _result(answer: Answer, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(answer.result, type=kind)
    except msgspec.DecodeError as error:
        reason = phrase("Telegram answered something that cannot be read ({reason}).", reason=str(error))
        raise SendError(SendFault.UNKNOWN, reason) from None


def refusal(error: SendError) -> PlatformError:
    """The same while connecting: what is wrong with the account, and what to do."""
    code = error.code if isinstance(error, CallError) else 0
    if code in (401, 404):
        return PlatformRefusedError(
            phrase("Telegram does not know this bot token."), phrase("Copy it once more from @BotFather.")
        )
    if code == 409:
        return PlatformError(
            phrase("Another program receives this bot's messages, with the same token."),
            phrase("Stop it, or give each program a bot of its own."),
        )
    return error
