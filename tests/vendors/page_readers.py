"""The services that read pages and search, on one loopback server: each speaks its vendor's documented wire.

Sources of the shapes: exa-py 2.28, firecrawl-py 4.55, parallel-web 1.3 and tavily-python 0.8, the vendors' own clients.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

Json = dict[str, object]


@dataclass
class PageReaders:
    """Pages by address; what is in no page cannot be read. Every request needs `key` in its vendor's header."""

    key: str
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Title and text by address."""
    asked: list[tuple[str, Json]] = field(default_factory=list)
    status: int = 200

    def list_routes(self) -> list[web.AbstractRouteDef]:
        """Return the server's routes."""
        return [
            web.post("/contents", self._make_handler("x-api-key", self._read_exa)),
            web.post("/v2/scrape", self._make_handler("authorization", self._read_firecrawl)),
            web.post("/v1/extract", self._make_handler("x-api-key", self._read_parallel)),
            web.post("/extract", self._make_handler("authorization", self._read_tavily)),
        ]

    def _make_handler(
        self, header: str, read: Callable[[Json], Json]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = json.loads(await request.read())
            self.asked.append((request.path, body))
            given = request.headers.get(header, "").removeprefix("Bearer ")
            status = self.status if given == self.key else 401
            if status != 200:
                return web.json_response({"error": f"no: {given}"}, status=status)
            return web.json_response(read(body))

        return handle

    def _split(self, body: Json) -> tuple[list[str], list[str]]:
        urls = body["urls"]
        assert isinstance(urls, list)
        return [url for url in urls if url in self.pages], [url for url in urls if url not in self.pages]

    def _read_exa(self, body: Json) -> Json:
        assert body["text"] is True
        found, lost = self._split(body)
        rows = [
            {"id": url, "url": f"{url}?x", "title": self.pages[url][0], "text": self.pages[url][1]} for url in found
        ]
        good = [{"id": url, "status": "success", "source": "cached"} for url in found]
        bad = [
            {"id": url, "status": "error", "error": {"tag": "CRAWL_NOT_FOUND", "httpStatusCode": 404}} for url in lost
        ]
        return {"requestId": "r1", "results": rows, "statuses": [*good, *bad], "costDollars": {"total": 0.001}}

    def _read_firecrawl(self, body: Json) -> Json:
        url = str(body["url"])
        assert body["formats"] == ["markdown"]
        if url not in self.pages:
            return {"success": True, "data": {"markdown": "", "metadata": {"sourceURL": url, "statusCode": 404}}}
        title, text = self.pages[url]
        about = {"title": title, "sourceURL": url, "statusCode": 200}
        return {"success": True, "data": {"markdown": text, "metadata": about}}

    def _read_parallel(self, body: Json) -> Json:
        assert body["advanced_settings"] == {"full_content": True}
        found, lost = self._split(body)
        rows = [
            {"url": url, "title": self.pages[url][0], "excerpts": ["a bit"], "full_content": self.pages[url][1]}
            for url in found
        ]
        errors = [{"url": url, "error_type": "fetch_error", "http_status_code": 404, "content": ""} for url in lost]
        return {"extract_id": "extract_1", "session_id": "s", "results": rows, "errors": errors}

    def _read_tavily(self, body: Json) -> Json:
        assert body["format"] == "markdown"
        found, lost = self._split(body)
        rows = [{"url": url, "title": self.pages[url][0], "raw_content": self.pages[url][1]} for url in found]
        errors = [{"url": url, "error": "Failed to fetch url"} for url in lost]
        return {"results": rows, "failed_results": errors, "response_time": 0.5, "request_id": "r"}
