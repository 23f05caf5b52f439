"""News and histories of the fake homeserver."""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from hermes.testing.web_server import broken
from tests.vendors.matrix_state import Body, Room, State, name_of


class News:
    """Tells what happened."""

    def __init__(self, fake: State) -> None:
        self._fake = fake

    async def sync(self, request: web.Request) -> web.StreamResponse:
        """What is new since a place in the stream; waits for it."""
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

    def _room_news(self, room: Room, after: int, *, first: bool) -> Body | None:
        fresh = [one for one in room.events if one[0] > (0 if room.joined > after else after)]
        if not fresh and not first:
            return None
        window = fresh[-self._fake.window :]
        events = [{name: value for name, value in event.items() if name != "room_id"} for _, event in window]
        state = [self._membership(room, user) for user in room.members] if first or room.joined > after else []
        return {
            "timeline": {"events": events, "limited": len(window) < len(fresh), "prev_batch": self._before(window)},
            "state": {"events": state},
            "ephemeral": {"events": []},
            "account_data": {"events": []},
            "summary": {},
            "unread_notifications": {"highlight_count": 0, "notification_count": 0},
        }

    def _before(self, window: "Sequence[tuple[int, Body]]") -> str:
        return f"t{window[0][0] - 1 if window else self._fake.position}"

    @staticmethod
    def _membership(room: Room, user: str) -> Body:
        content: Body = {"membership": "join", "displayname": name_of(user)}
        about: Body = {"type": "m.room.member", "sender": user, "state_key": user, "origin_server_ts": 1}
        return about | {"event_id": f"$member-{user}-{room.id}", "content": content}

    async def messages(self, request: web.Request) -> web.Response:
        """A page of a room's history, backwards."""
        room, start = self._fake.rooms[request.match_info["room"]], int(request.query["from"][1:])
        stop = int(request.query["to"][1:]) if "to" in request.query else 0
        limit = int(request.query.get("limit", "10"))
        found = [one for one in reversed(room.events) if stop < one[0] <= start]
        page = found[:limit]
        answer: Body = {"start": request.query["from"], "chunk": [event for _, event in page], "state": []}
        if len(found) > limit:
            answer["end"] = f"t{page[-1][0] - 1}"
        return web.json_response(answer)

    async def members(self, request: web.Request) -> web.Response:
        """Who is in a room."""
        room = self._fake.rooms[request.match_info["room"]]
        people = {one: {"display_name": name_of(one), "avatar_url": None} for one in room.members}
        return web.json_response({"joined": people})

    async def missing(self, request: web.Request) -> web.Response:
        """Something that is not there."""
        del request
        return wrong(404, "M_NOT_FOUND", "Event not found.")

    async def event(self, request: web.Request) -> web.Response:
        """One event."""
        found = self._fake.event(self._fake.rooms[request.match_info["room"]], request.match_info["event"])
        return web.json_response(found) if found is not None else wrong(404, "M_NOT_FOUND", "Event not found.")

    async def relations(self, request: web.Request) -> web.Response:
        """The agent's reactions to a message."""
        where = self._fake.rooms[request.match_info["room"]]
        wanted = {one for one, _ in self._fake.offers.get(request.match_info["event"], [])}
        chunk = [event for _, event in where.events if event["event_id"] in wanted]
        return web.json_response({"chunk": chunk})


def wrong(status: int, code: str, error: str, **more: object) -> web.Response:
    """An answer that says what went wrong."""
    return web.json_response({"errcode": code, "error": error, **more}, status=status)


def _stripped(event: Body) -> Body:
    return {name: event[name] for name in ("type", "sender", "state_key", "content")}
