"""A fake ntfy server: topics with a cache, streams of JSON lines, attachments."""

import asyncio
import time
from collections.abc import Sequence
from email.header import decode_header, make_header
from pathlib import Path

import msgspec
from aiohttp import web

from hermes.testing.fake_platform import FakeChat, Shown, ShownFile
from hermes.testing.web_server import Listener, broken

TOPIC = "a-topic"


class Fake(FakeChat):
    """One topic. People are whoever writes to it; `person` is the topic, as the platform sees it."""

    person = TOPIC
    stranger = ""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[dict[str, object]] = []
        self._files: dict[str, ShownFile] = {}
        self._streams: set[asyncio.Queue[dict[str, object] | None]] = set()
        self._server = Listener(
            [
                web.get(f"/{TOPIC}/json", self._subscribe),
                web.post(f"/{TOPIC}", self._post),
                web.get("/file/{name}", self._file),
            ]
        )
        self._count = 0

    def options(self) -> dict[str, object]:
        """The topic on this server."""
        return {"topic": TOPIC, "server": self._server.url, "owners": [TOPIC]}

    async def start(self) -> None:
        """Listen."""
        await self._server.start()

    async def close(self) -> None:
        """Stop."""
        await self.drop()
        await self._server.down()

    async def down(self) -> None:
        """Stop listening."""
        await self.drop()
        await self._server.down()

    async def up(self) -> None:
        """Listen again."""
        await self._server.start()

    async def drop(self) -> None:
        """End every stream."""
        for one in self._streams:
            one.put_nowait(None)

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
        """Somebody publishes a message."""
        del chat, person, thread, mention, reply_to
        more: dict[str, object] = {}
        for path in files:
            content = await asyncio.to_thread(path.read_bytes)
            name = f"f{len(self._files)}"
            self._files[name] = ShownFile(path.name, content)
            more["attachment"] = {"name": path.name, "url": f"{self._server.url}/file/{name}", "size": len(content)}
        return self._publish({"message": text, **more})

    async def again(self, message_id: str) -> None:
        """A line that is sent a second time."""
        line = next(one for one in self._lines if one["id"] == message_id)
        for one in self._streams:
            one.put_nowait(line)

    def _publish(self, line: dict[str, object]) -> str:
        self._count += 1
        made = {"id": f"m{self._count:08d}", "time": int(time.time()), "event": "message", "topic": TOPIC, **line}
        self._lines.append(made)
        for one in self._streams:
            one.put_nowait(made)
        return str(made["id"])

    async def _subscribe(self, request: web.Request) -> web.StreamResponse:
        since = request.query.get("since", "")
        stream: asyncio.Queue[dict[str, object] | None] = asyncio.Queue(10_000)
        answer = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await answer.prepare(request)
        known = self._after(since)
        wanted = set(request.query["tags"].split(",")) if "tags" in request.query else set()
        for line in list(known):
            if wanted <= set(_tags(line)):
                await answer.write(msgspec.json.encode(line) + b"\n")
        if request.query.get("poll"):
            return answer
        self._streams.add(stream)
        try:
            await answer.write(b'{"event":"open"}\n')
            while (news := await stream.get()) is not None:
                await answer.write(msgspec.json.encode(news) + b"\n")
        finally:
            self._streams.discard(stream)
        return answer

    def _after(self, since: str) -> list[dict[str, object]]:
        if since == "all" or since.isdecimal():
            return [one for one in self._lines if since == "all" or float(str(one["time"])) >= float(since)]
        at = next((number for number, one in enumerate(self._lines) if one["id"] == since), -1)
        return self._lines[at + 1 :]

    async def _post(self, request: web.Request) -> web.Response:
        body = await request.read()
        failing = self.next_failure()
        if failing is not None and not failing.after:
            return self._failed(request, failing.status, failing.retry_after, drop=failing.drop)
        tags = [one for one in request.headers.get("Tags", "").split(",") if one]
        name = request.headers.get("Filename", "")
        if not name and len(body) > 4096:
            self.refused.append(f"a message of {len(body)} bytes")
        files = (ShownFile(name, body),) if name else ()
        text = _unfolded(request.headers.get("Message", "")) if name else body.decode("utf-8")
        message_id = self._publish({"message": text, "tags": tags})
        self.put(Shown(message_id=message_id, chat=TOPIC, text=text, files=files))
        if failing is not None:
            return self._failed(request, failing.status, failing.retry_after, drop=failing.drop)
        return web.json_response({"id": message_id, "event": "message"})

    def _failed(self, request: web.Request, status: int, retry_after: float | None, *, drop: bool) -> web.Response:
        if drop:
            return broken(request)
        headers = {"Retry-After": str(int(retry_after))} if retry_after is not None else {}
        return web.json_response({"error": "failed"}, status=status, headers=headers)

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=self._files[request.match_info["name"]].content)


def _unfolded(header: str) -> str:
    return str(make_header(decode_header(header)))


def _tags(line: dict[str, object]) -> list[str]:
    found = line.get("tags")
    return [str(one) for one in found] if isinstance(found, list) else []
