"""The requests of the fake homeserver."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from hermes.testing.chats.fake import Shown, ShownFile
from hermes.testing.chats.listener import broken

if TYPE_CHECKING:
    from hermes.testing.chats.matrix import Fake, Room

Body: TypeAlias = dict[str, object]
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
SERVER = "fake.test"
ME = f"@hermes:{SERVER}"
EVENT_LIMIT = 65_536
V3 = "/_matrix/client/v3"
_CODES = {400: "M_BAD_JSON", 403: "M_FORBIDDEN", 404: "M_NOT_FOUND", 429: "M_LIMIT_EXCEEDED"}


class Api:
    """Answers as a homeserver does."""

    def __init__(self, fake: "Fake") -> None:
        self._fake = fake
        self.tokens: dict[str, str] = {fake.token: "DEVICE0"}
        """Access tokens, and the devices that they are for."""
        self.sent: dict[tuple[str, str], str] = {}
        """What was sent, by device and transaction."""
        self.media: dict[str, ShownFile] = {}
        self.account_data: dict[str, Body] = {}
        self._dropped = ""
        """A request whose connection was broken: aiohttp makes it a second time by itself, and that breaks too."""
        self.offers: dict[str, list[tuple[str, str]]] = {}
        """By message, the agent's reactions: their event ids and keys."""

    def routes(self) -> list[web.AbstractRouteDef]:
        """Everything that is answered."""
        room = V3 + "/rooms/{room}"
        return [
            web.get("/_matrix/client/versions", self._versions),
            web.post(f"{V3}/login", self._login),
            web.get(f"{V3}/account/whoami", self._known(self._whoami)),
            web.get(f"{V3}/profile/{{user}}", self._profile),
            web.get(f"{V3}/profile/{{user}}/displayname", self._profile),
            web.get(f"{V3}/user/{{user}}/account_data/{{kind}}", self._known(self._get_data)),
            web.put(f"{V3}/user/{{user}}/account_data/{{kind}}", self._known(self._put_data)),
            web.get(f"{V3}/sync", self._known(self._sync)),
            web.get(f"{room}/joined_members", self._known(self._members)),
            web.get(f"{room}/state/{{kind}}", self._known(self._missing)),
            web.get(f"{room}/messages", self._known(self._messages)),
            web.get(f"{room}/event/{{event}}", self._known(self._event)),
            web.post(f"{room}/join", self._known(self._join)),
            web.post(V3 + "/join/{room}", self._known(self._join)),
            web.put(f"{room}/send/{{kind}}/{{txn}}", self._known(self._send)),
            web.put(f"{room}/redact/{{event}}/{{txn}}", self._known(self._redact)),
            web.put(f"{room}/typing/{{user}}", self._known(self._typing)),
            web.post(f"{room}/receipt/{{kind}}/{{event}}", self._known(self._receipt)),
            web.get("/_matrix/client/v1/rooms/{room}/relations/{event}/{rel}/{kind}", self._known(self._relations)),
            web.post("/_matrix/media/v3/upload", self._known(self._upload)),
            web.get("/_matrix/client/v1/media/download/{server}/{media}", self._known(self._download)),
            web.get("/_matrix/client/v1/media/download/{server}/{media}/{name}", self._known(self._download)),
        ]

    # For the fake.

    def keep(self, name: str, content: bytes, media_type: str) -> str:
        """Keep a file; its `mxc:` address."""
        media = secrets.token_urlsafe(12)
        self.media[media] = ShownFile(name, content, media_type)
        return f"mxc://{SERVER}/{media}"

    @staticmethod
    def event(room: "Room", event_id: str) -> Body | None:
        """An event of a room."""
        return next((event for _, event in room.events if event["event_id"] == event_id), None)

    @staticmethod
    def body(event: Body) -> str:
        """What an event says."""
        content = event["content"]
        return str(content.get("body", "")) if isinstance(content, dict) else ""

    def offered(self, message_id: str) -> list[str]:
        """The keys that the agent has put below a message."""
        return [key for _, key in self.offers.get(message_id, [])]

    # Who asks.

    def _known(self, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            if self._token(request) not in self.tokens:
                return _wrong(401, "M_UNKNOWN_TOKEN", "Unrecognised access token", soft_logout=False)
            name = request.match_info.get("room")
            if name is not None and name not in self._fake.rooms:
                return _wrong(403, "M_FORBIDDEN", "You aren't a member of the room")
            return await handler(request)

        return answer

    def _token(self, request: web.Request) -> str:
        return request.headers.get("Authorization", "").removeprefix("Bearer ") or request.query.get("access_token", "")

    def _room(self, request: web.Request) -> "Room":
        return self._fake.rooms[request.match_info["room"]]

    async def _versions(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"versions": ["v1.1", "v1.6", "v1.11"], "unstable_features": {}})

    async def _login(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        if wanted.get("password") != self._fake.password:
            return _wrong(403, "M_FORBIDDEN", "Invalid username or password")
        device = str(wanted.get("device_id") or secrets.token_hex(5).upper())
        token = "fake-token-" + secrets.token_urlsafe(12)
        self.tokens[token] = device
        return web.json_response({"user_id": ME, "access_token": token, "device_id": device, "home_server": SERVER})

    async def _whoami(self, request: web.Request) -> web.Response:
        return web.json_response({"user_id": ME, "device_id": self.tokens[self._token(request)], "is_guest": False})

    async def _profile(self, request: web.Request) -> web.Response:
        return web.json_response({"displayname": _name(request.match_info["user"])})

    async def _get_data(self, request: web.Request) -> web.Response:
        found = self.account_data.get(request.match_info["kind"])
        return web.json_response(found) if found is not None else _wrong(404, "M_NOT_FOUND", "Account data not found")

    async def _put_data(self, request: web.Request) -> web.Response:
        self.account_data[request.match_info["kind"]] = await request.json()
        return web.json_response({})

    # News.

    async def _sync(self, request: web.Request) -> web.StreamResponse:
        fake, since = self._fake, request.query.get("since", "")
        fake.syncs.append(since)
        after = int(since.removeprefix("s")) if since else 0
        cut, until = fake.cut, asyncio.get_running_loop().time() + int(request.query.get("timeout", "0")) / 1000
        while since and fake.position <= after:
            wait = until - asyncio.get_running_loop().time()
            if wait <= 0:
                break
            try:
                async with asyncio.timeout(wait), fake.waiting:
                    await fake.waiting.wait()
            except TimeoutError:
                break
            if fake.cut != cut:
                return broken(request)
        return web.json_response(self._news(after, first=not since))

    def _news(self, after: int, *, first: bool) -> Body:
        joined: Body = {}
        invited: Body = {}
        for room in self._fake.rooms.values():
            if room.invited:
                if after < room.events[-1][0]:
                    invited[room.id] = {
                        "invite_state": {"events": [_stripped(one) for _, one in room.events if "state_key" in one]}
                    }
            elif (found := self._room_news(room, after, first=first)) is not None:
                joined[room.id] = found
        return {
            "next_batch": f"s{self._fake.position}",
            "rooms": {"join": joined, "invite": invited, "leave": {}},
            "presence": {"events": []},
            "account_data": {"events": []},
            "to_device": {"events": []},
            "device_lists": {"changed": [], "left": []},
            "device_one_time_keys_count": {},
        }

    def _room_news(self, room: "Room", after: int, *, first: bool) -> Body | None:
        fresh = [one for one in room.events if one[0] > (0 if room.joined > after else after)]
        if not fresh and not first:
            return None
        window = fresh[-self._fake.window :]
        before = window[0][0] - 1 if window else self._fake.position
        events = [{name: value for name, value in event.items() if name != "room_id"} for _, event in window]
        state = [self._membership(room, user) for user in room.members] if first or room.joined > after else []
        return {
            "timeline": {"events": events, "limited": len(window) < len(fresh), "prev_batch": f"t{before}"},
            "state": {"events": state},
            "ephemeral": {"events": []},
            "account_data": {"events": []},
            "summary": {},
            "unread_notifications": {"highlight_count": 0, "notification_count": 0},
        }

    @staticmethod
    def _membership(room: "Room", user: str) -> Body:
        content: Body = {"membership": "join", "displayname": _name(user)}
        about: Body = {"type": "m.room.member", "sender": user, "state_key": user, "origin_server_ts": 1}
        return about | {"event_id": f"$member-{user}-{room.id}", "content": content}

    async def _messages(self, request: web.Request) -> web.Response:
        room, start = self._room(request), int(request.query["from"][1:])
        stop = int(request.query["to"][1:]) if "to" in request.query else 0
        limit = int(request.query.get("limit", "10"))
        found = [one for one in reversed(room.events) if stop < one[0] <= start]
        page = found[:limit]
        answer: Body = {"start": request.query["from"], "chunk": [event for _, event in page], "state": []}
        if len(found) > limit:
            answer["end"] = f"t{page[-1][0] - 1}"
        return web.json_response(answer)

    async def _members(self, request: web.Request) -> web.Response:
        people = {one: {"display_name": _name(one), "avatar_url": None} for one in self._room(request).members}
        return web.json_response({"joined": people})

    async def _missing(self, request: web.Request) -> web.Response:
        del request
        return _wrong(404, "M_NOT_FOUND", "Event not found.")

    async def _event(self, request: web.Request) -> web.Response:
        found = self.event(self._room(request), request.match_info["event"])
        return web.json_response(found) if found is not None else _wrong(404, "M_NOT_FOUND", "Event not found.")

    async def _relations(self, request: web.Request) -> web.Response:
        where = self._room(request)
        wanted = {one for one, _ in self.offers.get(request.match_info["event"], [])}
        chunk = [event for _, event in where.events if event["event_id"] in wanted]
        return web.json_response({"chunk": chunk})

    async def _join(self, request: web.Request) -> web.Response:
        room = self._room(request)
        if not room.invited and ME not in room.members:
            return _wrong(403, "M_FORBIDDEN", "You are not invited to this room.")
        if room.invited:
            room.invited = ""
            room.members.append(ME)
            content: Body = {"membership": "join", "displayname": _name(ME)}
            await self._fake.happen(room, ME, "m.room.member", content, state_key=ME)
            room.joined = self._fake.position
        return web.json_response({"room_id": room.id})

    # What the agent does.

    async def _send(self, request: web.Request) -> web.StreamResponse:
        kind = request.match_info["kind"]
        if request.match_info["txn"] == self._dropped:
            self._dropped = ""
            return broken(request)
        failing = self._fake.next_failure() if kind == "m.room.message" else None
        if failing is not None and failing.drop:
            self._dropped = request.match_info["txn"]
        if failing is not None and not failing.after:
            if failing.drop:
                return broken(request)
            more: Body = {} if failing.retry_after is None else {"retry_after_ms": int(failing.retry_after * 1000)}
            return _wrong(failing.status, _CODES.get(failing.status, "M_UNKNOWN"), "failed", **more)
        txn = (self.tokens[self._token(request)], request.match_info["txn"])
        if txn not in self.sent:
            raw = await request.read()
            if len(raw) > EVENT_LIMIT - 1000:
                self._fake.refused.append(f"an event of {len(raw)} bytes")
                return _wrong(413, "M_TOO_LARGE", "event too large")
            wrong = await self._sent(self._room(request), kind, json.loads(raw), txn)
            if wrong is not None:
                return wrong
        if failing is not None:
            return broken(request)
        return web.json_response({"event_id": self.sent[txn]})

    async def _sent(self, room: "Room", kind: str, content: Body, txn: tuple[str, str]) -> web.Response | None:
        related = content.get("m.relates_to")
        about: Body = related if isinstance(related, dict) else {}
        target = str(about.get("event_id", ""))
        if about.get("rel_type") in ("m.replace", "m.annotation", "m.thread") and self.event(room, target) is None:
            return _wrong(400, "M_UNKNOWN", "Can't send relation to unknown event")
        event_id = self.sent[txn] = await self._fake.happen(room, ME, kind, content)
        if kind == "m.reaction":
            self.offers.setdefault(target, []).append((event_id, str(about["key"])))
            self._reacted(target)
        elif about.get("rel_type") == "m.replace":
            fresh = content["m.new_content"]
            if isinstance(fresh, dict):
                self._fake.change(target, str(fresh["body"]), _buttons(fresh), str(fresh.get("format", "")))
        else:
            self._show(room, event_id, content, about)
        return None

    def _show(self, room: "Room", event_id: str, content: Body, about: Body) -> None:
        files: tuple[ShownFile, ...] = ()
        text = str(content["body"])
        if "url" in content:
            file = self.media[str(content["url"]).rpartition("/")[2]]
            files = (ShownFile(str(content["filename"]), file.content, file.media_type),)
            text = "" if text == content["filename"] else text
        answers = about.get("m.in_reply_to")
        falls_back = bool(about.get("is_falling_back"))
        shown = Shown(
            message_id=event_id,
            chat=room.id,
            thread=str(about["event_id"]) if about.get("rel_type") == "m.thread" else "",
            text=text,
            markup=str(content.get("format", "")),
            reply_to=str(answers["event_id"]) if isinstance(answers, dict) and not falls_back else "",
            buttons=_buttons(content),
            files=files,
        )
        self._fake.put(shown)

    def _reacted(self, target: str) -> None:
        self._fake.reactions[target] = tuple(self.offered(target))
        self._fake.news()

    async def _redact(self, request: web.Request) -> web.Response:
        event_id = request.match_info["event"]
        for target, known in self.offers.items():
            if any(one == event_id for one, _ in known):
                known[:] = [one for one in known if one[0] != event_id]
                self._reacted(target)
        sent = await self._fake.happen(
            self._room(request), ME, "m.room.redaction", {"redacts": event_id}, redacts=event_id
        )
        return web.json_response({"event_id": sent})

    async def _typing(self, request: web.Request) -> web.Response:
        if (await request.json()).get("typing"):
            self._fake.typings.append(request.match_info["room"])
            self._fake.news()
        return web.json_response({})

    async def _receipt(self, request: web.Request) -> web.Response:
        self._fake.receipts.append(request.match_info["event"])
        self._fake.news()
        return web.json_response({})

    async def _upload(self, request: web.Request) -> web.Response:
        content = await request.read()
        media = self.keep(request.query.get("filename", ""), content, request.content_type)
        return web.json_response({"content_uri": media})

    async def _download(self, request: web.Request) -> web.Response:
        found = self.media.get(request.match_info["media"])
        if found is None:
            return _wrong(404, "M_NOT_FOUND", "Not found")
        return web.Response(body=found.content, content_type=found.media_type or "application/octet-stream")


def _wrong(status: int, code: str, error: str, **more: object) -> web.Response:
    return web.json_response({"errcode": code, "error": error, **more}, status=status)


def _name(user: str) -> str:
    return user[1:].partition(":")[0].capitalize()


def _stripped(event: Body) -> Body:
    return {name: event[name] for name in ("type", "sender", "state_key", "content")}


def _buttons(content: Body) -> tuple[tuple[str, str], ...]:
    tokens, labels = content.get("hermes.buttons"), content.get("hermes.labels")
    if not isinstance(tokens, list) or not isinstance(labels, list):
        return ()
    return tuple((str(label), str(token)) for label, token in zip(labels, tokens, strict=True))
