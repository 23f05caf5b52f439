"""The REST half of the fake Discord."""

import base64
import json
import math
import re
import time
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import unquote

from aiohttp import BodyPartReader, web
from msgspec import Struct

from hermes.testing.fake_platform import Failing, FakeChat, Shown, ShownFile
from hermes.testing.web_server import broken

ME, GUILD, ROLE = "500", "7000", "7100"
Body = dict[str, object]
VOICE_FLAG = 1 << 13
NONCE_SECONDS = 120.0
"""How long a nonce is remembered; Discord says "the past few minutes"."""


class Home(Protocol):
    """What the REST half needs of the whole."""

    def user_of(self, token: str) -> str:
        """Who has this token; empty: nobody."""

    async def deliver(self, body: Body) -> str:
        """A person's message; its id."""

    async def tell_members(self, kind: str, body: Body) -> None:
        """People's clients are told what the bot has done."""

    @property
    def url(self) -> str:
        """Where it listens."""

    @property
    def socket_url(self) -> str:
        """Where clients connect for news."""

    @property
    def chat(self) -> FakeChat:
        """What tests look at."""

    def snowflake(self) -> str:
        """A new id."""

    def place(self, chat: str, thread: str = "") -> str:
        """Make sure that a channel is known; its id."""

    def reacted(self, message_id: str, reactions: tuple[str, ...]) -> None:
        """The agent's reactions to a message are now these."""


class Upload(Struct, frozen=True):
    """A file of a message."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"
    about: Body = {}
    """What is known of a voice message."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of ours
    """An answer with an error: status, Discord's code, and what is said."""

    def __init__(self, status: int, code: int, message: str, errors: Body | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Body = {"message": message, "code": code} | ({"errors": errors} if errors else {})


def user_body(user: str) -> Body:
    """A user as Discord writes one; the bot is `ME`, everybody else a person called after the id."""
    bot = user == ME
    name = "hermes" if bot else f"person{user}"
    return {
        "id": user,
        "username": name,
        "discriminator": "0",
        "global_name": None if bot else name.title(),
        "avatar": None,
        "bot": bot,
        "public_flags": 0,
    }


def channel_body(channel: str) -> Body:
    """A channel of the server as Discord writes one."""
    place: Body = {"id": channel, "type": 0, "guild_id": GUILD, "name": channel, "position": 0, "nsfw": False}
    return place | {"permission_overwrites": [], "parent_id": None, "topic": None}


def thread_body(thread: str, parent: str, name: str = "") -> Body:
    """A thread as Discord writes one."""
    life: Body = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": "2024-01-01T00:00:00+00:00"}
    place: Body = {"id": thread, "type": 11, "guild_id": GUILD, "parent_id": parent, "name": name or thread}
    counts: Body = {"owner_id": ME, "message_count": 0, "member_count": 1, "thread_metadata": life | {"locked": False}}
    return place | counts


def member_body(*roles: str) -> Body:
    """What a server knows of somebody in it."""
    return {"roles": roles, "joined_at": "2024-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}


def message_body(message_id: str, channel: str, author: Body, text: str, files: Sequence[Body] = ()) -> Body:
    """A message as Discord writes one."""
    return {
        "id": message_id,
        "channel_id": channel,
        "author": author,
        "content": text,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": list(files),
        "embeds": [],
        "components": [],
        "pinned": False,
        "type": 0,
        "flags": 0,
    }


def answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """JSON with exactly the content type that Discord sends: clients take anything else for text."""
    return web.Response(
        body=json.dumps(body).encode(), status=status, headers={"content-type": "application/json", **(headers or {})}
    )


class Rest:
    """Channels, messages and files, and the calls on them."""

    def __init__(self, fake: Home) -> None:
        self._fake = fake
        self.channels: dict[str, Body] = {}
        self.history: dict[str, Body] = {}
        self.files: dict[str, Upload] = {}
        self.promised: dict[str, str] = {}
        """Files that were announced: the name that each will have, by what messages call it."""
        self.uploaded: dict[str, bytes] = {}
        """What was put in their places."""
        self.silent_channels: set[str] = set()
        """Channels that take no voice messages."""
        self.commands: list[Body] = []
        """The application's commands."""
        self.shown_callbacks: list[str] = []
        """What interactions were answered with at once."""
        self.waiting: dict[str, int] = {}
        """Presses, and the type of the answer that each got; 0 while it has none."""
        self.pinged: list[str] = []
        """Messages that rang somebody: with `allowed_mentions` of nobody there is none."""
        self.nonces: dict[str, tuple[float, str]] = {}
        self.bucket = 1000
        """Requests of one kind in one channel in `bucket_seconds`."""
        self.bucket_seconds = 5.0
        self.asked: list[str] = []
        """Method and path of each request, in order."""
        self._spent: dict[str, tuple[float, int]] = {}

    def routes(self) -> list[web.AbstractRouteDef]:
        """What the server serves of this."""
        return [
            web.get("/attachments/{file}/{name}", self._download),
            web.put("/uploads/{file:.*}", self._store_upload),
            web.route("*", "/api/v10/{path:.*}", self._call),
        ]

    def keep(self, uploads: Sequence[Upload]) -> list[Body]:
        """Store files; how a message names them."""
        found: list[Body] = []
        for upload in uploads:
            file_id = self._fake.snowflake()
            self.files[file_id] = upload
            url = f"{self._fake.url}/attachments/{file_id}/{upload.name}"
            one: Body = {"id": file_id, "filename": upload.name, "size": len(upload.content), "url": url}
            found.append(one | {"proxy_url": url, "content_type": _media_type(upload.name)} | upload.about)
        return found

    def refer(self, body: Body, message_id: str) -> None:
        """Make a message an answer to another."""
        body["type"] = 19
        body["message_reference"] = {"type": 0, "message_id": message_id, "channel_id": body["channel_id"]}
        body["referenced_message"] = self.history.get(message_id)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.asked.append(f"{request.method} {path}")
        try:
            limited, headers = self._limited(request.method, path)
            if limited is not None:
                return limited
            answered = await self._route(request, path)
            answered.headers.update(headers)
            return answered
        except Refused as refused:
            return answer(refused.body, refused.status)

    def _limited(self, method: str, path: str) -> tuple[web.Response | None, dict[str, str]]:
        parts = path.split("/")
        key = f"{method} {'/'.join(parts[:3])}"
        now = time.monotonic()
        began, spent = self._spent.get(key, (now, 0))
        if now - began >= self.bucket_seconds:
            began, spent = now, 0
        self._spent[key] = (began, spent + 1)
        after = began + self.bucket_seconds - now
        headers = {
            "X-RateLimit-Limit": str(self.bucket),
            "X-RateLimit-Remaining": str(max(0, self.bucket - spent - 1)),
            "X-RateLimit-Reset": f"{time.time() + after:.3f}",
            "X-RateLimit-Reset-After": f"{after:.3f}",
            "X-RateLimit-Bucket": f"{method}-{'-'.join(parts[:1] + parts[2:3])}".lower(),
            "Via": "1.1 google",
        }
        if spent < self.bucket:
            return None, headers
        self._fake.chat.refused.append(f"{key} beyond the limit of its bucket")
        return _too_fast(after, headers), headers

    async def _route(self, request: web.Request, path: str) -> web.StreamResponse:
        public = path.startswith("interactions/")
        user = self._fake.user_of(request.headers.get("Authorization", "").removeprefix("Bot "))
        if not public and not user:
            raise Refused(401, 0, "401: Unauthorized")
        match [request.method, *path.split("/")]:
            case ["GET", "gateway", "bot"]:
                limit = {"total": 1000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
                return answer({"url": self._fake.socket_url, "shards": 1, "session_start_limit": limit})
            case ["GET", "users", "@me"]:
                return answer(user_body(user))
            case ["GET", "oauth2", "applications", "@me"] | ["GET", "applications", "@me"]:
                return answer(_application())
            case ["PUT", "applications", application, "commands"] if application == ME:
                return self._set_commands(await request.json())
            case ["POST", "users", "@me", "channels"]:
                return answer(self.channels[self._fake.place("9" + str((await request.json())["recipient_id"]))])
            case ["POST", "interactions", interaction, _, "callback"]:
                return await self._callback(request, interaction)
            case [method, "channels", channel, *rest]:
                if channel not in self.channels:
                    raise Refused(404, 10003, "Unknown Channel")
                if user != ME and (method, rest) == ("POST", ["messages"]):
                    return await self._take(request, channel, user)
                return await self._channel(request, method, channel, rest)
        raise Refused(404, 0, "404: Not Found")

    async def _channel(self, request: web.Request, method: str, channel: str, rest: list[str]) -> web.StreamResponse:
        match [method, *rest]:
            case ["GET"]:
                return answer(self.channels[channel])
            case ["POST", "typing"]:
                self._fake.chat.typings.append(channel)
                self._fake.chat.news()
                return web.Response(status=204)
            case ["GET", "messages"]:
                return answer(self._page(channel, request))
            case ["POST", "messages"]:
                return await self._post(request, channel)
            case ["POST", "attachments"]:
                return answer(self._promise(await request.json()))
            case ["POST", "threads"] | ["POST", "messages", _, "threads"]:
                return answer(self._thread(channel, await request.json()), 201)
            case [_, "messages", message_id, *more]:
                if self.history.get(message_id, {}).get("channel_id") != channel:
                    raise Refused(404, 10008, "Unknown Message")
                return await self._message(request, method, message_id, more)
        raise Refused(404, 0, "404: Not Found")

    async def _message(self, request: web.Request, method: str, message_id: str, rest: list[str]) -> web.StreamResponse:
        match [method, *rest]:
            case ["GET"]:
                return answer(self.history[message_id])
            case ["PATCH"]:
                return await self._patch(request, message_id)
            case ["DELETE"]:
                del self.history[message_id]
                self._fake.chat.messages.pop(message_id, None)
                return web.Response(status=204)
            case ["PUT" | "DELETE", "reactions", emoji, "@me"]:
                self._react(message_id, unquote(emoji), given=method == "PUT")
                return web.Response(status=204)
        raise Refused(404, 0, "404: Not Found")

    def _page(self, channel: str, request: web.Request) -> list[Body]:
        query = request.query
        limit = int(query.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise Refused(400, 50035, "Invalid Form Body", {"limit": {"_errors": [{"code": "NUMBER_TYPE_MAX"}]}})
        stored = [one for one in self.history.values() if one["channel_id"] == channel]
        stored.sort(key=lambda one: int(str(one["id"])))
        if "after" in query:
            stored = [one for one in stored if int(str(one["id"])) > int(query["after"])][:limit]
        elif "before" in query:
            stored = [one for one in stored if int(str(one["id"])) < int(query["before"])]
        return stored[::-1][:limit]

    def _thread(self, parent: str, wanted: Body) -> Body:
        thread = self._fake.snowflake()
        self.channels[thread] = thread_body(thread, parent, str(wanted["name"]))
        return self.channels[thread]

    async def _take(self, request: web.Request, channel: str, user: str) -> web.StreamResponse:
        """A person says something through a client of their own."""
        wanted, uploads = await _form(request)
        _check(wanted, uploads)
        text = str(wanted.get("content") or "").strip()
        body = message_body(self._fake.snowflake(), channel, user_body(user), text, self.keep(uploads))
        if f"<@{ME}>" in text:
            body["mentions"] = [user_body(ME)]
        if reply := _answered(wanted):
            self.refer(body, reply)
        await self._fake.deliver(body)
        return answer(body)

    def _promise(self, wanted: Body) -> Body:
        """Say where announced files are to be put."""
        places: list[Body] = []
        rows = wanted.get("files")
        for one in rows if isinstance(rows, list) else []:
            if not one.get("filename") or int(one.get("file_size", 0)) <= 0:
                raise Refused(400, 50035, "Invalid Form Body")
            name = f"{self._fake.snowflake()}/{one['filename']}"
            self.promised[name] = str(one["filename"])
            url = f"{self._fake.url}/uploads/{name}"
            places.append({"id": one.get("id", 0), "upload_url": url, "upload_filename": name})
        return {"attachments": places}

    async def _store_upload(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["file"]
        if "Authorization" in request.headers:
            self._fake.chat.refused.append("the token was sent to where files are put")
        if name not in self.promised:
            return web.Response(status=404)
        self.uploaded[name] = await request.read()
        return web.Response()

    def _claim(self, channel: str, wanted: Body) -> list[Upload]:
        """Return the files of a message that were uploaded before it."""
        rows = wanted.get("attachments")
        named = [one for one in rows if "uploaded_filename" in one] if isinstance(rows, list) else []
        flags = wanted.get("flags", 0)
        if isinstance(flags, int) and flags & VOICE_FLAG:
            if channel in self.silent_channels:
                raise Refused(400, 50173, "Cannot send voice messages in this channel")
            if wanted.get("content") or wanted.get("embeds") or wanted.get("components"):
                raise Refused(400, 50159, "Voice messages do not support additional content")
            if len(named) != 1:
                raise Refused(400, 50160, "Voice messages must have a single audio attachment")
            points = base64.b64decode(str(named[0].get("waveform", "")), validate=True)
            if not 1 <= len(points) <= 256 or not float(named[0].get("duration_secs", 0)) > 0:
                raise Refused(400, 50161, "Voice messages must have supporting metadata")
        found = []
        for one in named:
            content = self.uploaded.get(str(one["uploaded_filename"]))
            if content is None:
                raise Refused(400, 50146, "Uploaded file not found")
            about = {key: one[key] for key in ("duration_secs", "waveform") if key in one}
            found.append(Upload(str(one["filename"]), content, _media_type(str(one["filename"])), about))
        return found

    async def _post(self, request: web.Request, channel: str) -> web.StreamResponse:
        wanted, uploads = await _form(request)
        failing = self._fake.chat.next_failure()
        if failing is not None and not failing.after:
            return self._fail(request, failing)
        uploads += self._claim(channel, wanted)
        _check(wanted, uploads)
        message = self._accept(channel, wanted, uploads)
        await self._fake.tell_members("MESSAGE_CREATE", message)
        if failing is not None:
            return self._fail(request, failing)
        return answer(message | ({"nonce": wanted["nonce"]} if "nonce" in wanted else {}))

    def _fail(self, request: web.Request, failing: Failing) -> web.Response:
        if failing.drop:
            return broken(request)
        if failing.status == 429:
            return _too_fast(failing.retry_after or 1.0, {"Via": "1.1 google"})
        return answer({"message": "the fake was told to fail", "code": 0}, failing.status)

    def _accept(self, channel: str, wanted: Body, uploads: list[Upload]) -> Body:
        nonce = str(wanted.get("nonce", ""))
        at, known = self.nonces.get(nonce, (0.0, ""))
        if known and wanted.get("enforce_nonce") and time.monotonic() - at < NONCE_SECONDS:
            return self.history[known]
        text = str(wanted.get("content") or "").strip()
        body = message_body(self._fake.snowflake(), channel, user_body(ME), text, self.keep(uploads))
        body["components"] = wanted.get("components") or []
        body["flags"] = wanted.get("flags", 0)
        reply = _answered(wanted)
        if reply:
            self.refer(body, reply)
        message_id = str(body["id"])
        self.history[message_id] = body
        if nonce:
            self.nonces[nonce] = (time.monotonic(), message_id)
        self._ping(message_id, text, wanted.get("allowed_mentions"))
        parent = self.channels[channel].get("parent_id")
        self._fake.chat.put(
            Shown(
                message_id=message_id,
                chat=str(parent or channel),
                thread=channel if parent else "",
                text=text,
                reply_to=reply,
                buttons=_buttons(body["components"]),
                files=tuple(
                    ShownFile(one.name, one.content, one.media_type, float(str(one.about.get("duration_secs", 0))))
                    for one in uploads
                ),
            )
        )
        return body

    def _ping(self, message_id: str, text: str, allowed: object) -> None:
        parse = allowed.get("parse") if isinstance(allowed, dict) else ["everyone", "users", "roles"]
        rings = {"everyone": ("@everyone", "@here"), "users": ("<@",), "roles": ("<@&",)}
        for kind, marks in rings.items():
            if isinstance(parse, list) and kind in parse and any(mark in text for mark in marks):
                self.pinged.append(message_id)

    async def _patch(self, request: web.Request, message_id: str) -> web.StreamResponse:
        wanted, uploads = await _form(request)
        failing = self._fake.chat.next_failure()
        if failing is not None and not failing.after:
            return self._fail(request, failing)
        message = self.history[message_id]
        if message["author"] != user_body(ME):
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        _check(message | wanted, uploads)
        changed = message | {key: wanted[key] for key in ("content", "components", "flags") if key in wanted}
        changed["edited_timestamp"] = changed["timestamp"]
        self.history[message_id] = changed
        self._fake.chat.change(message_id, str(changed["content"]).strip(), _buttons(changed["components"]))
        await self._fake.tell_members("MESSAGE_UPDATE", changed)
        return self._fail(request, failing) if failing is not None else answer(changed)

    def _react(self, message_id: str, emoji: str, *, given: bool) -> None:
        if emoji.isascii():
            raise Refused(400, 10014, "Unknown Emoji")
        message = self.history[message_id]
        known = message.get("reactions")
        rest = [one for one in known if one["emoji"]["name"] != emoji] if isinstance(known, list) else []
        if given:
            rest.append({"count": 1, "me": True, "emoji": {"id": None, "name": emoji}, "burst_colors": []})
        message["reactions"] = rest
        self._fake.reacted(message_id, tuple(one["emoji"]["name"] for one in rest))

    def _set_commands(self, rows: object) -> web.StreamResponse:
        """Take the whole list of commands, as a bulk overwrite does."""
        commands = rows if isinstance(rows, list) else []
        names = [str(one.get("name", "")) for one in commands]
        if len(commands) > 100 or len(set(names)) != len(names):
            raise Refused(400, 30032, "Maximum number of application commands reached (100)")
        for one in commands:
            if not re.fullmatch(r"[-_\w]{1,32}", str(one["name"])) or str(one["name"]).lower() != one["name"]:
                raise Refused(400, 50035, "Invalid Form Body")
            if not 1 <= len(str(one.get("description", ""))) <= 100:
                raise Refused(400, 50035, "Invalid Form Body")
        self.commands[:] = commands
        self._fake.chat.news()
        known: Body = {"application_id": ME, "version": "1", "default_member_permissions": None, "nsfw": False}
        return answer([{"id": self._fake.snowflake(), **known, **one} for one in commands])

    async def _callback(self, request: web.Request, interaction: str) -> web.StreamResponse:
        if interaction not in self.waiting:
            raise Refused(404, 10062, "Unknown interaction")
        if self.waiting[interaction]:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        wanted = await request.json()
        kind = int(wanted["type"])
        if kind == 4:
            self.shown_callbacks.append(str(wanted["data"]["content"]))
        self.waiting[interaction] = kind
        self._fake.chat.news()
        if request.query.get("with_response") in ("1", "true"):
            return answer({"interaction": {"id": interaction, "type": 3}, "resource": {"type": kind}})
        return web.Response(status=204)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            self._fake.chat.refused.append("the token was sent to where files lie")
        upload = self.files.get(request.match_info["file"])
        if upload is None:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=upload.content, content_type=upload.media_type)


def _too_fast(after: float, headers: dict[str, str]) -> web.Response:
    body: Body = {"message": "You are being rate limited.", "retry_after": round(after, 3), "global": False}
    more = {"Retry-After": str(math.ceil(after)), "X-RateLimit-Scope": "user", "X-RateLimit-Remaining": "0"}
    return answer(body, 429, headers | more)


async def _form(request: web.Request) -> tuple[Body, list[Upload]]:
    """What a message's request holds: as JSON, or as a form with `payload_json` and `files[n]`."""
    if request.content_type == "application/json":
        return dict(await request.json()), []
    wanted: Body = {}
    uploads: list[Upload] = []
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            raise Refused(400, 50035, "Invalid Form Body")
        if part.name == "payload_json":
            wanted = json.loads(await part.text())
        elif part.name is not None and part.name.startswith("file"):
            media_type = part.headers.get("Content-Type", "application/octet-stream")
            uploads.append(Upload(part.filename or "", bytes(await part.read()), media_type))
    return wanted, uploads


def _check(wanted: Body, uploads: list[Upload]) -> None:
    text = str(wanted.get("content") or "")
    if len(text) > 2000:
        told: Body = {"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}
        raise Refused(400, 50035, "Invalid Form Body", {"content": {"_errors": [told]}})
    if not text.strip() and not uploads and not wanted.get("attachments"):
        raise Refused(400, 50006, "Cannot send an empty message")
    if len(str(wanted.get("nonce") or "")) > 25:
        raise Refused(400, 50035, "Invalid Form Body", {"nonce": {"_errors": [{"code": "NONCE_TYPE_TOO_LONG"}]}})
    if not _showable(wanted.get("components") or []):
        raise Refused(400, 50035, "Invalid Form Body", {"components": {"_errors": [{"code": "BASE_TYPE_BAD_LENGTH"}]}})


def _showable(rows: object) -> bool:
    """Whether buttons are as Discord takes them."""
    if not isinstance(rows, list) or len(rows) > 5 or any(len(row["components"]) > 5 for row in rows):
        return False
    tokens = _buttons(rows)
    fits = all(1 <= len(label) <= 80 and 1 <= len(token) <= 100 for label, token in tokens)
    return fits and len({token for _, token in tokens}) == len(tokens)


def _answered(wanted: Body) -> str:
    reference = wanted.get("message_reference")
    return str(reference["message_id"]) if isinstance(reference, dict) else ""


def _buttons(rows: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(rows, list):
        return ()
    return tuple((str(one["label"]), str(one["custom_id"])) for row in rows for one in row["components"])


def _application() -> Body:
    texts: Body = {"id": ME, "name": "hermes", "icon": None, "description": "", "verify_key": "", "flags": 0}
    return texts | {"bot_public": True, "bot_require_code_grant": False, "owner": user_body("1001")}


def _media_type(name: str) -> str:
    known = {"png": "image/png", "ogg": "audio/ogg", "txt": "text/plain; charset=utf-8", "mp4": "video/mp4"}
    return known.get(name.rpartition(".")[2], "application/octet-stream")
