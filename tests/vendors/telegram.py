"""A Telegram on loopback: people, and the Bot API for one bot, by long polls or a webhook.

What it does is written from Telegram's documentation and judged by python-telegram-bot in the tests.
"""

import itertools
import json
import mimetypes
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from hermes.testing.fake_platform import Failing, FakeChat
from hermes.testing.web_server import Listener, broken
from tests.vendors.telegram_api import ME, ApiError, Body, Calls, Params, Upload, bad
from tests.vendors.telegram_updates import News

_KINDS = {"image": "photo", "video": "video", "audio": "audio"}


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
        self.voiceless: set[int] = set()
        """People who take no voice messages."""
        self.commands: list[Body] = []
        self.chat_commands: dict[str, list[Body]] = {}
        """The menus of single chats, by their ids."""
        self.answered: list[Body] = []
        """The presses that were answered."""
        self.judges: list[Callable[[str, Params, object], None]] = []
        """Told of every call that was carried out: its method in small letters, what it was given, what it answered."""
        self.feed = News(self.news)
        """What was not confirmed yet, polls and the webhook."""
        self._told: dict[str, Body] = {}
        """The update that a message came with."""
        self._names: dict[str, int] = {}
        self._ids = itertools.count(11)
        self._calls = Calls(self)
        self._listener = Listener(
            [
                web.route("*", "/bot{token}/{method}", self._call),
                web.get("/file/bot{token}/in/{file}", self._download),
            ]
        )

    def menu(self) -> list[str]:
        """The names in the menu that everybody sees."""
        return [str(one["command"]) for one in self.commands]

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
        await self.feed.unhook()
        await self.down()

    async def down(self) -> None:
        """Break every connection."""
        await self._listener.down()

    async def up(self) -> None:
        """Listen again."""
        await self._listener.start()

    async def drop(self) -> None:
        """Break the long polls."""
        self.feed.drop()

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
        name: str = "",
    ) -> str:
        """A person says something, under the name that they have chosen; several files are an album."""
        body = self._said(chat, person or self.person, thread)
        if name:
            body["from"] = {**_person(person or self.person), "first_name": name}
        if reply_to:
            body["reply_to_message"] = {k: v for k, v in self.bodies[reply_to].items() if k != "reply_to_message"}
        words = f"@{ME['username']} {text}" if mention else text
        if not files:
            return self.tell("message", body | _words("text", words))
        album: Body = {"media_group_id": str(self.next_id())} if len(files) > 1 else {}
        captions = [_words("caption", words), *({} for _ in files[1:])]
        bodies = [body | album | self._attached(path) | one for path, one in zip(files, captions, strict=True)]
        said = [self.tell("message", one) for one in bodies]
        return said[0]

    def _said(self, chat: str, person: str, thread: str) -> Body:
        place = self.place(chat, person)
        body: Body = {"from": _person(person), "chat": place}
        number = place["id"]
        if thread and isinstance(number, int):
            self.topics.add((number, int(thread)))
            body |= {"message_thread_id": int(thread), "is_topic_message": True}
        return body

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
        message_id = str(body.get("message_id", ""))
        self._told[message_id] = self.feed.add(kind, body)
        return message_id

    async def again(self, message_id: str) -> None:
        """Deliver an update once more, whatever was confirmed."""
        self.feed.repeat(self._told[message_id])

    async def press(self, message_id: str, token: str, *, person: str = "") -> None:
        """A person presses a button."""
        if token not in [data for _, data in self.messages[message_id].buttons]:
            raise ValueError(f"the message has no button {token!r}")
        self.tell(
            "callback_query",
            {
                "id": str(self.next_id()),
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
            result = await self._other(request, method, params)
            self._judge(method, params, result)
            return _done(result)
        except ApiError as error:
            if error.code == 400:
                self.refused.append(f"{method}: {error.description}")
            return _failed(error)

    def _judge(self, method: str, params: Params, result: object) -> None:
        for judge in self.judges:
            judge(method, params, result)

    async def _send(self, request: web.Request, method: str, params: Params) -> web.StreamResponse:
        failing = self.next_failure()
        if failing is not None and not failing.after:
            return _broken(request, failing)
        result = await self._calls.sends[method](params)
        self._judge(method, params, result)
        return _broken(request, failing) if failing is not None else _done(result)

    async def _other(self, request: web.Request, method: str, params: Params) -> object:
        match method:
            case "getupdates":
                return await self.feed.poll(request, params)
            case "setwebhook":
                return await self.feed.hook(params)
            case "deletewebhook":
                await self.feed.unhook()
                if params.flag("drop_pending_updates"):
                    self.feed.updates.clear()
                return True
            case "getwebhookinfo":
                waiting = len(self.feed.updates)
                return {
                    "url": "",
                    "has_custom_certificate": False,
                    "pending_update_count": waiting,
                    **self.feed.webhook,
                }
        call = self._calls.others.get(method)
        if call is None:
            raise ApiError(404, "Not Found: method not found")
        return await call(params)

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


def _words(name: str, text: str) -> Body:
    """A text or a caption, with its ranges."""
    ranges = _marks(text)
    named = "entities" if name == "text" else "caption_entities"
    return {name: text, **({named: ranges} if ranges else {})} if text else {}


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
