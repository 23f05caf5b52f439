"""A Telegram on loopback: people, and the Bot API for one bot, by long polls or a webhook.

What it does is written from Telegram's documentation and judged by python-telegram-bot in the tests.
"""

import asyncio
import contextlib
import itertools
import json
import mimetypes
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from aiohttp import web

from hermes.testing.chats.fake import Failing, FakeChat
from hermes.testing.chats.listener import Listener, broken
from hermes.testing.chats.telegram_api import ME, ApiError, Body, Calls, Params, Upload, bad

_PAUSE = 0.02
"""Seconds between two attempts to hand an update to a webhook; the real server takes its time."""
_KINDS = {"image": "photo", "video": "video", "audio": "audio"}
_ALLOWED_PORTS = "443, 80, 88, 8443"


class Fake(FakeChat):
    """Telegram for one bot."""

    def __init__(self) -> None:
        super().__init__()
        self.token = f"{ME['id']}:{secrets.token_urlsafe(26)}"
        self.chats: dict[int, Body] = {}
        self.bodies: dict[str, Body] = {}
        """Every message, by its id."""
        self.files: dict[str, Upload] = {}
        self.drafts: dict[str, list[str]] = {}
        """What was shown as being written, by draft."""
        self.topics: set[tuple[int, int]] = set()
        self.blocked: set[int] = set()
        """People who have blocked the bot."""
        self.commands: list[Body] = []
        self.answered: list[Body] = []
        """The presses that were answered."""
        self.updates: dict[int, Body] = {}
        """What is not confirmed yet, by its number."""
        self.polls = 0
        self.webhook: Body = {}
        self._told: dict[str, Body] = {}
        """The update that a message came with."""
        self._again: list[Body] = []
        self._names: dict[str, int] = {}
        self._numbers = itertools.count(900_001)
        self._ids = itertools.count(11)
        self._poller: asyncio.Future[ApiError] | None = None
        self._polling: list[web.Request] = []
        self._posting: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._calls = Calls(self)
        self._listener = Listener(
            [
                web.route("*", "/bot{token}/{method}", self._call),
                web.get("/file/bot{token}/in/{file}", self._download),
            ]
        )

    @property
    def chat(self) -> FakeChat:
        """The fake itself."""
        return self

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._listener.url

    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME`."""
        return {"token": self.token, "base_url": self.url}

    # Its life.

    async def start(self) -> None:
        """Listen."""
        await self._listener.start()

    async def close(self) -> None:
        """Stop, and free everything."""
        await self._unhook()
        await self.down()

    async def down(self) -> None:
        """Break every connection."""
        self._poller = None
        await self._listener.down()

    async def up(self) -> None:
        """Listen again."""
        await self._listener.start()

    async def drop(self) -> None:
        """Break the long polls."""
        for request in self._polling:
            broken(request)

    # People.

    def chat_id(self, chat: str) -> str:
        """The number of a chat of that name."""
        return str(self._number(chat))

    def _number(self, chat: str) -> int:
        if chat.removeprefix("-").isdigit():
            return int(chat)
        return self._names.setdefault(chat, -1_001_000_000_000 - len(self._names))

    def next_id(self) -> int:
        """A new message's id."""
        return next(self._ids)

    def place(self, chat: str, person: str = "") -> Body:
        """Make sure that there is such a chat."""
        number = self._number(chat or person)
        shared = number < 0
        kind = "private" if not shared else "channel" if chat.startswith("channel") else "supergroup"
        named: Body = {"title": chat, "is_forum": True} if shared else {"first_name": f"Person {number}"}
        return self.chats.setdefault(number, {"id": number, "type": kind, **named})

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        person: str = "",
        thread: str = "",
        mention: bool = False,
        reply_to: str = "",
        files: Sequence[Path] = (),
    ) -> str:
        """A person says something; several files are an album."""
        place = self.place(chat, person or self.person)
        body: Body = {"from": _person(person or self.person), "chat": place}
        number = place["id"]
        if thread and isinstance(number, int):
            self.topics.add((number, int(thread)))
            body |= {"message_thread_id": int(thread), "is_topic_message": True}
        if reply_to:
            body["reply_to_message"] = {k: v for k, v in self.bodies[reply_to].items() if k != "reply_to_message"}
        words = f"@{ME['username']} {text}" if mention else text
        marks = _marks(words)
        if not files:
            return self.tell("message", {**body, "text": words, **({"entities": marks} if marks else {})})
        album: Body = {"media_group_id": str(next(self._numbers))} if len(files) > 1 else {}
        said = [
            self.tell("message", {**body, **album, **self._attached(path), **(_caption(words, marks) if not n else {})})
            for n, path in enumerate(files)
        ]
        return said[0]

    def _attached(self, path: Path) -> Body:
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        kept = self.keep(Upload(path.name, path.read_bytes(), media_type))
        kind = "voice" if path.suffix in (".ogg", ".oga") else _KINDS.get(media_type.split("/")[0], "document")
        if kind == "photo":
            small = {**kept, "width": 90, "height": 60, "file_size": 10, "file_id": "small"}
            return {"photo": [small, kept]}
        return {kind: kept}

    def keep(self, upload: Upload) -> Body:
        """A file that can be fetched from now on."""
        number = f"file{len(self.files)}"
        self.files[number] = upload
        return {
            "file_id": number,
            "file_unique_id": f"u{number}",
            "file_size": len(upload.content),
            "file_name": upload.name,
            "mime_type": upload.media_type,
            "width": 800,
            "height": 600,
            "duration": 1,
        }

    def tell(self, kind: str, body: Body) -> str:
        """Something happened, as an update of any kind; a message's id where it is one."""
        if "message" in kind or "post" in kind:
            body = {"message_id": self.next_id(), "date": int(time.time()), **body}
            self.bodies[str(body["message_id"])] = body
        number = next(self._numbers)
        update: Body = {"update_id": number, kind: body}
        self.updates[number] = update
        message_id = str(body.get("message_id", ""))
        self._told[message_id] = update
        self._arrived.set()
        return message_id

    async def again(self, message_id: str) -> None:
        """Deliver an update once more, whatever was confirmed."""
        self._again.append(self._told[message_id])
        self._arrived.set()

    async def press(self, message_id: str, token: str, *, person: str = "") -> None:
        """A person presses a button."""
        if token not in [data for _, data in self.messages[message_id].buttons]:
            raise ValueError(f"the message has no button {token!r}")
        self.tell(
            "callback_query",
            {
                "id": str(next(self._numbers)),
                "from": _person(person or self.person),
                "message": self.bodies[message_id],
                "chat_instance": "1",
                "data": token,
            },
        )

    # Calls.

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"].lower()
        if request.match_info["token"] != self.token:
            return _failed(ApiError(401, "Unauthorized"))
        try:
            params = await _params(request)
            if method in self._calls.sends:
                return await self._send(request, method, params)
            return _done(await self._other(request, method, params))
        except ApiError as error:
            if error.code == 400:
                self.refused.append(f"{method}: {error.description}")
            return _failed(error)

    async def _send(self, request: web.Request, method: str, params: Params) -> web.StreamResponse:
        failing = self.next_failure()
        if failing is not None and not failing.after:
            return _broken(request, failing)
        result = await self._calls.sends[method](params)
        return _broken(request, failing) if failing is not None else _done(result)

    async def _other(self, request: web.Request, method: str, params: Params) -> object:
        match method:
            case "getupdates":
                return await self._poll(request, params)
            case "setwebhook":
                return await self._hook(params)
            case "deletewebhook":
                await self._unhook()
                if params.flag("drop_pending_updates"):
                    self.updates.clear()
                return True
            case "getwebhookinfo":
                waiting = len(self.updates)
                return {"url": "", "has_custom_certificate": False, "pending_update_count": waiting, **self.webhook}
        call = self._calls.others.get(method)
        if call is None:
            raise ApiError(404, "Not Found: method not found")
        return await call(params)

    async def _poll(self, request: web.Request, params: Params) -> object:
        if self.webhook:
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first",
            )
        self.polls += 1
        offset, timeout = params.number("offset"), params.number("timeout")
        if self._poller is not None and not self._poller.done():
            words = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            self._poller.set_result(ApiError(409, words))
            self._arrived.set()
        mine = self._poller = asyncio.get_running_loop().create_future()
        for number in [number for number in self.updates if offset > 0 and number < offset]:
            del self.updates[number]
        self._polling.append(request)
        self.news()
        try:
            async with asyncio.timeout(timeout):
                return await self._next(params, mine)
        except TimeoutError:
            return []
        finally:
            self._polling.remove(request)
            mine.cancel()

    async def _next(self, params: Params, mine: "asyncio.Future[ApiError]") -> list[Body]:
        allowed = params.value("allowed_updates")
        limit = min(max(params.number("limit", 100), 1), 100)
        while True:
            self._arrived.clear()
            found, self._again = [*self._again, *self.updates.values()], []
            found = [one for one in found if not allowed or (isinstance(allowed, list) and list(one)[1] in allowed)]
            if found:
                return found[:limit]
            await self._arrived.wait()
            if mine.done():
                raise mine.result()

    async def _hook(self, params: Params) -> bool:
        if not params.text("url"):
            await self._unhook()
            return True
        await self._unhook()
        self.webhook = {"url": params.text("url"), "secret": params.text("secret_token")}
        self._posting = asyncio.create_task(self._post(), name="webhook of the fake Telegram")
        return True

    async def _unhook(self) -> None:
        self.webhook = {}
        posting, self._posting = self._posting, None
        if posting is not None:
            posting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await posting

    async def _post(self) -> None:
        """Hand updates to the webhook, one after the other, each until it is taken."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": str(self.webhook["secret"])}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while True:
                self._arrived.clear()
                waiting, self._again = [*self._again, *self.updates.values()], []
                for update in waiting:
                    await self._hand_over(session, update, headers)
                    self.updates.pop(int(str(update["update_id"])), None)
                    self.news()
                await self._arrived.wait()

    async def _hand_over(self, session: aiohttp.ClientSession, update: Body, headers: dict[str, str]) -> None:
        for number in itertools.count():
            await asyncio.sleep(_PAUSE if number else 0)
            if await self._posted(session, update, headers):
                return

    async def _posted(self, session: aiohttp.ClientSession, update: Body, headers: dict[str, str]) -> bool:
        try:
            async with session.post(str(self.webhook["url"]), json=update, headers=headers) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def _download(self, request: web.Request) -> web.StreamResponse:
        found = self.files.get(request.match_info["file"])
        if request.match_info["token"] != self.token or found is None:
            return web.Response(status=404)
        return web.Response(body=found.content)


def _person(person: str) -> Body:
    return {"id": int(person), "is_bot": False, "first_name": f"Person {person}", "username": f"person{person}"}


def _marks(text: str) -> list[Body]:
    """The ranges that the server finds in what people write: names and commands."""
    found: list[Body] = []
    at = 0
    for word in text.split(" "):
        size = len(word.encode("utf-16-le")) // 2
        if word.startswith("@") and len(word) > 1:
            found.append({"type": "mention", "offset": at, "length": size})
        elif word.startswith("/") and at == 0 and len(word) > 1:
            found.append({"type": "bot_command", "offset": at, "length": size})
        at += size + 1
    return found


def _caption(text: str, marks: list[Body]) -> Body:
    return {"caption": text, **({"caption_entities": marks} if marks else {})} if text else {}


async def _params(request: web.Request) -> Params:
    values: Body = dict(request.query)
    files: dict[str, Upload] = {}
    if request.content_type == "application/json":
        try:
            given = json.loads(await request.read() or b"{}")
        except ValueError:
            raise bad("can't parse JSON") from None
        values |= given
    elif request.can_read_body:
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                files[name] = Upload(value.filename, value.file.read(), value.content_type)
            else:
                values[name] = value if isinstance(value, str) else bytes(value).decode()
    return Params(values, files)


def _done(result: object) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _failed(error: ApiError) -> web.Response:
    body: Body = {"ok": False, "error_code": error.code, "description": error.description}
    if error.retry_after is not None:
        body["parameters"] = {"retry_after": int(error.retry_after)}
    return web.json_response(body, status=error.code)


def _broken(request: web.Request, failing: Failing) -> web.Response:
    if failing.drop:
        return broken(request)
    said = {
        400: "Bad Request: can't parse entities: the fake was told to fail",
        403: "Forbidden: bot was blocked by the user",
        404: "Bad Request: chat not found",
        413: "Request Entity Too Large",
        429: f"Too Many Requests: retry after {int(failing.retry_after or 1)}",
    }.get(failing.status, "Internal Server Error")
    status = 400 if failing.status == 404 else failing.status
    wait = failing.retry_after if failing.status == 429 else None
    return _failed(ApiError(status, said, wait))
