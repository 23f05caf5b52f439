"""The requests of the fake homeserver."""

import json
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from hermes.testing.fake_platform import Failing, Shown, ShownFile
from hermes.testing.web_server import broken
from tests.vendors.matrix_state import ME, SERVER, Body, Room, State, name_of
from tests.vendors.matrix_sync import News, wrong

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
EVENT_LIMIT = 65_536
V1 = "/_matrix/client/v1"
V3 = "/_matrix/client/v3"
_CODES = {400: "M_BAD_JSON", 403: "M_FORBIDDEN", 404: "M_NOT_FOUND", 429: "M_LIMIT_EXCEEDED"}


class Api:
    """Answers as a homeserver does."""

    def __init__(self, fake: State) -> None:
        self._fake = fake
        self._news = News(fake)
        self.sent: dict[tuple[str, str], str] = {}
        """What was sent, by device and transaction."""
        self._dropped = ""
        """A request whose connection was broken: aiohttp makes it a second time by itself, and that breaks too."""

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
            web.get(f"{V3}/sync", self._known(self._news.sync)),
            web.get(f"{room}/joined_members", self._known(self._news.members)),
            web.get(f"{room}/state/{{kind}}", self._known(self._news.missing)),
            web.get(f"{room}/messages", self._known(self._news.messages)),
            web.get(f"{room}/event/{{event}}", self._known(self._news.event)),
            web.post(f"{room}/join", self._known(self._join)),
            web.post(V3 + "/join/{room}", self._known(self._join)),
            web.put(f"{room}/send/{{kind}}/{{txn}}", self._known(self._send)),
            web.put(f"{room}/redact/{{event}}/{{txn}}", self._known(self._redact)),
            web.put(f"{room}/typing/{{user}}", self._known(self._typing)),
            web.post(f"{room}/receipt/{{kind}}/{{event}}", self._known(self._receipt)),
            web.get(
                "/_matrix/client/v1/rooms/{room}/relations/{event}/{rel}/{kind}", self._known(self._news.relations)
            ),
            web.post("/_matrix/media/v3/upload", self._known(self._upload)),
            web.get("/_matrix/client/v1/media/download/{server}/{media}", self._known(self._download)),
            web.get("/_matrix/client/v1/media/download/{server}/{media}/{name}", self._known(self._download)),
        ]

    # Who asks.

    def _known(self, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            if self._token(request) not in self._fake.tokens:
                return wrong(401, "M_UNKNOWN_TOKEN", "Unrecognised access token", soft_logout=False)
            name = request.match_info.get("room")
            if name is not None and name not in self._fake.rooms:
                return wrong(403, "M_FORBIDDEN", "You aren't a member of the room")
            return await handler(request)

        return answer

    def _token(self, request: web.Request) -> str:
        return request.headers.get("Authorization", "").removeprefix("Bearer ") or request.query.get("access_token", "")

    def _room(self, request: web.Request) -> Room:
        return self._fake.rooms[request.match_info["room"]]

    async def _versions(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"versions": ["v1.1", "v1.6", "v1.11"], "unstable_features": {}})

    async def _login(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        if wanted.get("password") != self._fake.password:
            return wrong(403, "M_FORBIDDEN", "Invalid username or password")
        device = str(wanted.get("device_id") or secrets.token_hex(5).upper())
        token = "fake-token-" + secrets.token_urlsafe(12)
        self._fake.tokens[token] = device
        return web.json_response({"user_id": ME, "access_token": token, "device_id": device, "home_server": SERVER})

    async def _whoami(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"user_id": ME, "device_id": self._fake.tokens[self._token(request)], "is_guest": False}
        )

    async def _profile(self, request: web.Request) -> web.Response:
        return web.json_response({"displayname": name_of(request.match_info["user"])})

    async def _get_data(self, request: web.Request) -> web.Response:
        found = self._fake.account_data.get(request.match_info["kind"])
        return web.json_response(found) if found is not None else wrong(404, "M_NOT_FOUND", "Account data not found")

    async def _put_data(self, request: web.Request) -> web.Response:
        self._fake.account_data[request.match_info["kind"]] = await request.json()
        return web.json_response({})

    async def _join(self, request: web.Request) -> web.Response:
        room = self._room(request)
        if not room.invited and ME not in room.members:
            return wrong(403, "M_FORBIDDEN", "You are not invited to this room.")
        if room.invited:
            room.invited = ""
            room.members.append(ME)
            content: Body = {"membership": "join", "displayname": name_of(ME)}
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
            return _failed(request, failing)
        txn = (self._fake.tokens[self._token(request)], request.match_info["txn"])
        if txn not in self.sent:
            raw = await request.read()
            if len(raw) > EVENT_LIMIT - 1000:
                self._fake.refused.append(f"an event of {len(raw)} bytes")
                return wrong(413, "M_TOO_LARGE", "event too large")
            refusal = await self._sent(self._room(request), kind, json.loads(raw), txn)
            if refusal is not None:
                return refusal
        if failing is not None:
            return broken(request)
        return web.json_response({"event_id": self.sent[txn]})

    async def _sent(self, room: Room, kind: str, content: Body, txn: tuple[str, str]) -> web.Response | None:
        related = content.get("m.relates_to")
        about: Body = related if isinstance(related, dict) else {}
        target = str(about.get("event_id", ""))
        if (
            about.get("rel_type") in ("m.replace", "m.annotation", "m.thread")
            and self._fake.event(room, target) is None
        ):
            return wrong(400, "M_UNKNOWN", "Can't send relation to unknown event")
        event_id = self.sent[txn] = await self._fake.happen(room, ME, kind, content)
        if kind == "m.reaction":
            self._fake.offers.setdefault(target, []).append((event_id, str(about["key"])))
            self._reacted(target)
        elif about.get("rel_type") == "m.replace":
            fresh = content["m.new_content"]
            if isinstance(fresh, dict):
                self._fake.change(target, str(fresh["body"]), _buttons(fresh), str(fresh.get("format", "")))
        else:
            self._show(room, event_id, content, about)
        return None

    def _show(self, room: Room, event_id: str, content: Body, about: Body) -> None:
        files: tuple[ShownFile, ...] = ()
        text = str(content["body"])
        if "url" in content:
            file = self._fake.media[str(content["url"]).rpartition("/")[2]]
            files = (ShownFile(str(content["filename"]), file.content, file.media_type, _voice_seconds(content)),)
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
        self._fake.reactions[target] = tuple(self._fake.offered(target))
        self._fake.news()

    async def _redact(self, request: web.Request) -> web.Response:
        event_id = request.match_info["event"]
        for target, known in self._fake.offers.items():
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
        media = self._fake.keep(request.query.get("filename", ""), content, request.content_type)
        return web.json_response({"content_uri": media})

    async def _download(self, request: web.Request) -> web.Response:
        found = self._fake.media.get(request.match_info["media"])
        if found is None:
            return wrong(404, "M_NOT_FOUND", "Not found")
        return web.Response(body=found.content, content_type=found.media_type or "application/octet-stream")


def _voice_seconds(content: Body) -> float:
    """Return the length that clients show of a voice message (MSC3245); 0 for anything else."""
    about = content.get("org.matrix.msc1767.audio")
    if content.get("org.matrix.msc3245.voice") is None or not isinstance(about, dict):
        return 0.0
    return float(about["duration"]) / 1000


def _failed(request: web.Request, failing: Failing) -> web.Response:
    if failing.drop:
        return broken(request)
    more: Body = {} if failing.retry_after is None else {"retry_after_ms": int(failing.retry_after * 1000)}
    return wrong(failing.status, _CODES.get(failing.status, "M_UNKNOWN"), "failed", **more)


def _buttons(content: Body) -> tuple[tuple[str, str], ...]:
    tokens, labels = content.get("hermes.buttons"), content.get("hermes.labels")
    if not isinstance(tokens, list) or not isinstance(labels, list):
        return ()
    return tuple((str(label), str(token)) for label, token in zip(labels, tokens, strict=True))
