"""Reads pages: by our own fetcher, or by a service that a record describes (`extract_engines.py`)."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.plugins import suggest_name
from hermes.safety.shell.findings import Verdict
from hermes.safety.urls import judge_url
from hermes.web.extract_engines import EXTRACT_ENGINES, ExtractEngine
from hermes.web.fetch import FetchedPage, FetchLimits, WebFetcher
from hermes.web.pages import extract_text, is_readable
from hermes.web.templates import fill_json, fill_texts, find_text, find_value, redact_key

EXTRACT_LIMITS = FetchLimits(seconds=90.0, bytes=20_000_000)
"""The limits of a request to a service, which renders pages and waits for them."""
_MAX_TITLE = 300


class ExtractedText(Struct, frozen=True):
    """The text of one address, and facts about how it was read; `ok` is false for an address without a page."""

    asked: str
    text: str
    facts: tuple[str, ...] = ()
    ok: bool = True


async def read_page(fetcher: WebFetcher, url: str) -> ExtractedText:
    """Read a page by our own fetcher. What cannot be read is told in the page's place."""
    try:
        page = await fetcher.fetch_page(url, wanted=is_readable)
    except ToolError as error:
        return ExtractedText(url, str(error), ok=False)
    facts = [f"at {page.url}"] if page.url != url else []
    if page.other_site:
        text = f"It redirects to another site, {page.other_site}, which was not asked. Give that address to read it."
        return ExtractedText(url, text, tuple(facts))
    if page.status != 200:
        facts.append(f"status {page.status}")
    made = await extract_text(page)
    facts += [f"title: {made.title}"] if made.title else []
    facts += [made.note] if made.note else []
    return ExtractedText(url, made.text or "(no text)", tuple(facts), ok=page.status < 400)


class ExtractService(Struct, frozen=True, kw_only=True):
    """A service with its address and key, ready to be asked."""

    engine: ExtractEngine
    base: str
    key: str

    async def read_pages(self, urls: Sequence[str], fetcher: WebFetcher) -> list[ExtractedText]:
        """Read pages, in the order of their addresses. What cannot be read is told in the page's place."""
        if self.engine.row_url:
            return await self._read_together(urls, fetcher)
        read = await asyncio.gather(*(self._read_together([url], fetcher) for url in urls))
        return [one for pages in read for one in pages]

    async def _read_together(self, urls: Sequence[str], fetcher: WebFetcher) -> list[ExtractedText]:
        try:
            answer = await self._request(urls, fetcher)
        except ToolError as error:
            return [ExtractedText(url, redact_key(str(error), self.key), ok=False) for url in urls]
        return _match_pages(self.engine, urls, answer, self.key)

    async def _request(self, urls: Sequence[str], fetcher: WebFetcher) -> object:
        engine, values = self.engine, {"urls": list(urls), "url": urls[0], "key": self.key}
        headers = {"accept": "application/json", "content-type": "application/json"}
        headers |= fill_texts(engine.headers, values)
        body = to_json(fill_json(engine.json, values))
        try:
            page = await fetcher.send_request("POST", f"{self.base}{engine.path}", headers=headers, body=body)
        except ToolError as error:
            raise ToolError(f"{engine.title}: {error}") from None
        if page.status != 200:
            raise ToolError(_describe_refusal(engine, page))
        try:
            return msgspec.json.decode(page.body)
        except (msgspec.DecodeError, RecursionError):
            raise ToolError(f"{engine.title} did not answer with JSON.") from None


def choose_service(name: str, extract_url: str, environ: Mapping[str, str]) -> ExtractService:
    """Return the service of that name. Raises `ToolError` when there is none, or it has no key."""
    engine = EXTRACT_ENGINES.get(name)
    if engine is None:
        near = suggest_name(name, EXTRACT_ENGINES)
        raise ToolError(f"No service called {name!r} reads pages (web.extract_backend). {near}".strip())
    key = engine.find_key(environ)
    if not key:
        raise ToolError(f"{engine.title} needs a key: put it into {engine.key_variables[0]}.")
    return ExtractService(engine=engine, base=engine.base_url(extract_url, environ), key=key)


def is_public_url(url: str) -> bool:
    """Return whether an address is open to everybody, so that a service outside may be given it."""
    return judge_url(url).verdict is Verdict.ALLOW


def _describe_refusal(engine: ExtractEngine, page: FetchedPage) -> str:
    hint = {
        401: f"The key in {engine.key_variables[0]} is not accepted.",
        402: "The account has no credit left.",
        403: f"The key in {engine.key_variables[0]} is not accepted.",
        429: "It has been asked too often; try again later.",
    }.get(page.status, "")
    return f"{engine.title} answered with status {page.status}. {hint}".strip()


def _match_pages(engine: ExtractEngine, urls: Sequence[str], answer: object, key: str) -> list[ExtractedText]:
    """Return a page for each address that was asked, in their order."""
    rows = _list_rows(find_value(answer, engine.rows))
    if not engine.row_url:
        return [_build_page(engine, urls[0], rows[0] if rows else None, "", key)]
    found = {_fold_url(find_text(row, engine.row_url)): row for row in rows}
    failed = {
        _fold_url(find_text(row, engine.error_url)): find_text(row, engine.error_text)
        for row in _list_rows(find_value(answer, engine.errors))
    }
    if len(urls) == len(rows) == 1:  # a service may name the page by where it found it
        found = {_fold_url(urls[0]): rows[0]}
    return [_build_page(engine, url, found.get(_fold_url(url)), failed.get(_fold_url(url), ""), key) for url in urls]


def _build_page(engine: ExtractEngine, url: str, row: object, error: str, key: str) -> ExtractedText:
    text = redact_key(find_text(row, engine.row_text), key)
    by = f"read by {engine.title}"
    if not text.strip():
        why = f": {redact_key(error, key)}" if error else ""
        return ExtractedText(url, f"{engine.title} gave no text for it{why}.", (by,), ok=False)
    title = " ".join(redact_key(find_text(row, engine.row_title), key).split())[:_MAX_TITLE]
    return ExtractedText(url, text, (*([f"title: {title}"] if title else []), by))


def _list_rows(value: object) -> list[object]:
    if isinstance(value, dict):
        return [value]
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _fold_url(url: str) -> str:
    return url.strip().rstrip("/")
