"""The Web API half of the fake Slack."""

import json
from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from msgspec import Struct

from hermes.testing.fake_platform import Failing, FakeChat, Shown, ShownFile
from hermes.testing.web_server import broken

ME, BOT, TEAM, APP = "U0BOT", "B0BOT", "T0TEAM", "A0APP"
Body = dict[str, object]
LONGEST = 4_000
"""Characters of a text that `chat.update` takes, and that show as one message."""
READING = ("conversations.history", "conversations.replies", "users.info", "files.info", "reactions.get")
"""Methods that take their arguments as a form only, among others."""
SECTION = 3_000
"""Characters of the text of one section."""


class Home(Protocol):
    """What the Web API needs of the whole."""

    bot_token: str
    app_token: str

    @property
    def url(self) -> str:
        """Where it listens."""

    @property
    def chat(self) -> FakeChat:
        """What tests look at."""

    def ticket(self) -> str:
        """The address of a new connection for news."""

    def stamp(self) -> str:
        """A new message's id: its time."""


class Upload(Struct):
    """A file that is being sent, or was."""

    id: str
    name: str
    content: bytes = b""
    whole: bool = False
    places: list[tuple[str, str]] = []
    """Channels and the messages that show it there."""


class Wrong(Exception):  # noqa: N818 - an answer, not an error of ours
    """An answer with `ok: false`."""


class Web:
    """Messages and files, and the calls on them."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.history: dict[str, list[Body]] = {}
        """By channel, oldest first; answers in threads too."""
        self.files: dict[str, Upload] = {}
        self.asked: list[tuple[str, Body]] = []
        """Methods and arguments of each call, in order."""
        self.loud: list[str] = []
        """Messages that called everybody."""
        self.rate: dict[str, float] = {}
        """Methods that are refused for so many seconds, once."""

    def routes(self) -> list[web.AbstractRouteDef]:
        """What the server serves of this."""
        return [
            web.route("*", "/api/{method}", self._call),
            web.post("/upload/{file}", self._take),
            web.get("/files/{file}/{name}", self._give),
        ]

    def message(self, channel: str, ts: str) -> Body:
        """A message. Raises `Wrong`."""
        for one in self.history.get(channel, []):
            if one["ts"] == ts:
                return one
        raise Wrong("message_not_found")

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        wanted = await _arguments(request)
        if request.content_type == "application/json" and method in READING:
            self._home.chat.refused.append(f"{method} takes no JSON")
        self.asked.append((method, wanted))
        if method in self.rate:
            return _limited(self.rate.pop(method))
        calls: dict[str, Callable[[Body], Body]] = {
            "auth.test": self._auth,
            "apps.connections.open": lambda _: {"url": self._home.ticket()},
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._read,
            "conversations.replies": self._replies,
            "conversations.info": lambda one: {"channel": _channel(str(one["channel"]))},
            "conversations.open": lambda one: {"channel": {"id": "D" + str(one["users"])}},
            "users.info": lambda one: {"user": _user(str(one["user"]))},
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
            "reactions.get": lambda one: {"message": self.message(str(one["channel"]), str(one["timestamp"]))},
            "assistant.threads.setStatus": self._status,
            "files.getUploadURLExternal": self._upload,
            "files.completeUploadExternal": self._complete,
            "files.info": lambda one: {"file": self._file(self.files[str(one["file"])])},
        }
        sends = method in ("chat.postMessage", "chat.update", "files.completeUploadExternal")
        failing = self._home.chat.next_failure() if sends else None
        if failing is not None and not failing.after:
            return _fail(request, failing)
        try:
            self._entitled(request, method, wanted)
            body = {"ok": True, **calls.get(method, _unknown)(wanted)}
        except Wrong as wrong:
            return web.json_response({"ok": False, "error": str(wrong)})
        except KeyError as missing:
            return web.json_response({"ok": False, "error": "invalid_arguments", "needed": str(missing)})
        return _fail(request, failing) if failing is not None else web.json_response(body)

    def _entitled(self, request: web.Request, method: str, wanted: Body) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or str(wanted.get("token", ""))
        if not token:
            raise Wrong("not_authed")
        if token not in (self._home.bot_token, self._home.app_token):
            raise Wrong("invalid_auth")
        if (token == self._home.app_token) != (method == "apps.connections.open"):
            raise Wrong("not_allowed_token_type")

    def _auth(self, _: Body) -> Body:
        who: Body = {"user_id": ME, "bot_id": BOT, "user": "hermes", "team_id": TEAM, "team": "team"}
        return who | {"url": self._home.url, "is_enterprise_install": False}

    def _post(self, wanted: Body) -> Body:
        channel = self._known(wanted)
        text = str(wanted.get("text") or "")
        blocks = _blocks(wanted)
        if not text and not blocks:
            raise Wrong("no_text")
        if len(text) > 40_000:
            raise Wrong("msg_too_long")
        thread = str(wanted.get("thread_ts") or "")
        if thread:
            self.message(channel, thread)
        return self._put(channel, thread, text, blocks, wanted)

    def _put(
        self, channel: str, thread: str, text: str, blocks: list[Body], wanted: Body, files: tuple[Upload, ...] = ()
    ) -> Body:
        ts = self._home.stamp()
        body: Body = {"type": "message", "user": ME, "bot_id": BOT, "text": text, "ts": ts, "blocks": blocks}
        if thread:
            body["thread_ts"] = thread
        if "metadata" in wanted:
            body["metadata"] = _loaded(wanted["metadata"])
        if files:
            body["subtype"] = "file_share"
            body["files"] = [self._file(one) for one in files]
        self.history.setdefault(channel, []).append(body)
        if any(mark in text for mark in ("<!channel>", "<!here>", "<!everyone>", f"<@{FakeChat.person}>")):
            self.loud.append(ts)
        self._home.chat.put(
            Shown(
                message_id=ts,
                chat=channel,
                thread=thread,
                text=text,
                markup="" if str(wanted.get("mrkdwn")).lower() == "false" else "mrkdwn",
                buttons=_buttons(blocks),
                files=tuple(ShownFile(one.name, one.content) for one in files),
            )
        )
        return {"channel": channel, "ts": ts, "message": body}

    def _update(self, wanted: Body) -> Body:
        channel, ts, text = self._known(wanted), str(wanted["ts"]), str(wanted.get("text") or "")
        message = self.message(channel, ts)
        if message.get("user") != ME:
            raise Wrong("cant_update_message")
        if len(text) > LONGEST:
            raise Wrong("msg_too_long")
        if "blocks" in wanted:
            message["blocks"] = _blocks(wanted)
        message["text"] = text
        message["edited"] = {"user": ME, "ts": self._home.stamp()}
        stored = message["blocks"]
        self._home.chat.change(ts, text, _buttons(stored if isinstance(stored, list) else []), "mrkdwn")
        return {"channel": channel, "ts": ts, "text": text, "message": message}

    def _read(self, wanted: Body) -> Body:
        channel = self._known(wanted)
        shown = [one for one in self.history.get(channel, []) if _in_channel(one)]
        return self._page(shown[::-1], wanted)

    def _replies(self, wanted: Body) -> Body:
        channel, thread = self._known(wanted), str(wanted["ts"])
        self.message(channel, thread)
        whole = self.history[channel]
        return self._page([one for one in whole if thread in (one["ts"], one.get("thread_ts"))], wanted)

    def _page(self, messages: list[Body], wanted: Body) -> Body:
        found = [one for one in messages if _between(float(str(one["ts"])), wanted)]
        begin, limit = int(str(wanted.get("cursor") or 0)), int(str(wanted.get("limit") or 100))
        page = [dict(one) for one in found[begin : begin + limit]]
        if str(wanted.get("include_all_metadata", "")).lower() not in ("1", "true"):
            for one in page:
                one.pop("metadata", None)
        more = len(found) > begin + limit
        cursor = str(begin + limit) if more else ""
        return {"messages": page, "has_more": more, "response_metadata": {"next_cursor": cursor}}

    def _known(self, wanted: Body) -> str:
        channel = str(wanted.get("channel") or wanted.get("channel_id"))
        if channel not in self.history:
            raise Wrong("channel_not_found")
        return channel

    def _react(self, wanted: Body) -> Body:
        reactions = self._reactions(wanted)
        if wanted["name"] in reactions:
            raise Wrong("already_reacted")
        if not str(wanted["name"]).replace("_", "").isalnum():
            raise Wrong("invalid_name")
        self._reacted(wanted, [*reactions, str(wanted["name"])])
        return {}

    def _unreact(self, wanted: Body) -> Body:
        reactions = self._reactions(wanted)
        if wanted["name"] not in reactions:
            raise Wrong("no_reaction")
        self._reacted(wanted, [one for one in reactions if one != wanted["name"]])
        return {}

    def _reactions(self, wanted: Body) -> list[str]:
        stored = self.message(str(wanted["channel"]), str(wanted["timestamp"])).get("reactions", [])
        return [one["name"] for one in stored] if isinstance(stored, list) else []

    def _reacted(self, wanted: Body, names: list[str]) -> None:
        message = self.message(str(wanted["channel"]), str(wanted["timestamp"]))
        self._home.chat.reactions[str(message["ts"])] = tuple(names)
        message["reactions"] = [{"name": one, "users": [ME], "count": 1} for one in names]
        self._home.chat.news()

    def _status(self, wanted: Body) -> Body:
        self.message(str(wanted["channel_id"]), str(wanted["thread_ts"]))
        if str(wanted["status"]):
            self._home.chat.typings.append(str(wanted["channel_id"]))
            self._home.chat.news()
        return {}

    def _upload(self, wanted: Body) -> Body:
        upload = Upload(f"F{len(self.files) + 1}", str(wanted["filename"]), bytes(int(str(wanted["length"]))))
        self.files[upload.id] = upload
        return {"upload_url": f"{self._home.url}/upload/{upload.id}", "file_id": upload.id}

    def _complete(self, wanted: Body) -> Body:
        named = _loaded(wanted["files"])
        uploads = tuple(self.files[str(one["id"])] for one in named) if isinstance(named, list) else ()
        if not uploads or any(not one.whole for one in uploads):
            raise Wrong("file_not_found")
        channel = self._known(wanted)
        thread = str(wanted.get("thread_ts") or "")
        put = self._put(channel, thread, str(wanted.get("initial_comment") or ""), [], {}, uploads)
        for one in uploads:
            one.places.append((channel, str(put["ts"])))
        return {"files": [{"id": one.id, "title": one.name} for one in uploads]}

    def _file(self, upload: Upload) -> Body:
        url = f"{self._home.url}/files/{upload.id}/{upload.name}"
        shares = {channel: [{"ts": ts}] for channel, ts in upload.places}
        about: Body = {"id": upload.id, "name": upload.name, "title": upload.name, "size": len(upload.content)}
        known = {"png": "image/png", "ogg": "audio/ogg"}
        media_type = known.get(upload.name.rpartition(".")[2], "text/plain")
        if media_type == "audio/ogg":
            about["subtype"] = "slack_audio"  # as an audio clip that people record
        where: Body = {"url_private": url, "url_private_download": url, "shares": {"private": shares}}
        return about | where | {"mimetype": media_type, "mode": "hosted", "is_external": False}

    def share(self, name: str, content: bytes) -> Body:
        """A file that a person shows; how a message names it."""
        upload = Upload(f"F{len(self.files) + 1}", name, content, whole=True)
        self.files[upload.id] = upload
        return self._file(upload)

    async def _take(self, request: web.Request) -> web.Response:
        upload = self.files[request.match_info["file"]]
        content = await request.read()
        if len(content) != len(upload.content):
            return web.Response(status=400, text="the length is another")
        upload.content, upload.whole = content, True
        return web.Response(text=f"OK - {len(content)}")

    async def _give(self, request: web.Request) -> web.Response:
        upload = self.files.get(request.match_info["file"])
        if upload is None:
            return web.Response(status=404)
        if request.headers.get("Authorization") != f"Bearer {self._home.bot_token}":
            return web.Response(text="<html>Sign in</html>", content_type="text/html")
        return web.Response(body=upload.content, content_type="text/plain")


def _between(at: float, wanted: Body) -> bool:
    oldest, latest = float(str(wanted.get("oldest") or 0)), float(str(wanted.get("latest") or "inf"))
    wide = str(wanted.get("inclusive", "")).lower() in ("1", "true")
    return oldest < at < latest or (wide and at in (oldest, latest))


def _unknown(_: Body) -> Body:
    raise Wrong("unknown_method")


async def _arguments(request: web.Request) -> Body:
    """As JSON, as a form, or in the address; a form holds lists and objects as JSON."""
    if request.content_type == "application/json":
        return {**request.query, **(await request.json())}
    return {
        **request.query,
        **{name: value for name, value in (await request.post()).items() if isinstance(value, str)},
    }


def _loaded(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value


def _fits(block: dict[str, dict[str, str] | list[Body]]) -> bool:
    text, elements = block.get("text"), block.get("elements")
    if isinstance(text, dict) and not 1 <= len(text["text"]) <= SECTION:
        return False
    return not isinstance(elements, list) or 1 <= len(elements) <= 25


def _blocks(wanted: Body) -> list[Body]:
    blocks = _loaded(wanted.get("blocks") or [])
    if not isinstance(blocks, list) or len(blocks) > 50:
        raise Wrong("invalid_blocks")
    if not all(map(_fits, blocks)):
        raise Wrong("invalid_blocks")
    buttons = _buttons(blocks)
    if any(not 1 <= len(label) <= 75 for label, _ in buttons) or len(dict(buttons)) > len({one for _, one in buttons}):
        raise Wrong("invalid_blocks")
    return blocks


def _buttons(blocks: list[Body]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for block in blocks:
        elements = block.get("elements")
        if block["type"] == "actions" and isinstance(elements, list):
            found += [(one["text"]["text"], one["value"]) for one in elements]
    return tuple(found)


def _in_channel(message: Body) -> bool:
    return message.get("thread_ts") in (None, message["ts"]) or message.get("subtype") == "thread_broadcast"


def _channel(channel: str) -> Body:
    direct = channel.startswith("D")
    return {"id": channel, "name": channel, "is_im": direct, "is_channel": not direct}


def _user(user: str) -> Body:
    return {"id": user, "name": f"person{user}", "is_bot": False, "profile": {"display_name": f"Person{user}"}}


def _limited(after: float) -> web.Response:
    return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": f"{after:g}"})


def _fail(request: web.Request, failing: Failing) -> web.Response:
    if failing.drop:
        return broken(request)
    if failing.status == 429:
        return _limited(failing.retry_after or 1.0)
    if failing.status >= 500:
        return web.Response(status=failing.status, text="upstream connect error")
    names = {403: "restricted_action", 404: "channel_not_found", 401: "invalid_auth", 413: "msg_too_long"}
    return web.json_response({"ok": False, "error": names.get(failing.status, "invalid_blocks")})
