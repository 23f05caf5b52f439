"""Search engines as data, and the one way in which all of them are queried.

A record (`search_engines.py`) says where an engine is, how a query is put, and where in its answer the results are.
Keys come from the environment or `.env`, go into a field of the request and nowhere else.

The record that describes a search engine.
"""

import html
import re
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.plugins import suggest_name
from hermes.safety.shell.findings import Verdict
from hermes.safety.urls import judge_url
from hermes.web.converter import ConversionJob
from hermes.web.fetch import FetchedPage, WebFetcher
from hermes.web.pages import decode_body, extract_list
from hermes.web.search_engines import ENGINES, SearchEngine, find_engine
from hermes.web.templates import fill_json, fill_texts, find_text, find_value, redact_key

MAX_RESULTS = 20
_MAX_SNIPPET = 500
_MAX_TITLE = 200
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class WebSearchResult(Struct, frozen=True):
    """One result of a search."""

    title: str
    url: str
    snippet: str


class WebSearch(Struct, frozen=True, kw_only=True):
    """A query, ready to be sent to an engine."""

    engine: SearchEngine
    base: str
    key: str
    query: str
    limit: int

    @property
    def url(self) -> str:
        """The address that is requested."""
        asked = urlencode(fill_texts(self.engine.query, self._values))
        return f"{self.base}{self.engine.path}" + (f"?{asked}" if asked else "")

    def build_headers(self) -> dict[str, str]:
        """Build the request's headers."""
        engine = self.engine
        kind = {"content-type": "application/json"} if engine.json else {}
        kind = {"content-type": "application/x-www-form-urlencoded"} if engine.form else kind
        accept = "text/html" if engine.answer == "html" else "application/json"
        return {"accept": accept, **kind, **fill_texts(engine.headers, self._values)}

    def build_body(self) -> bytes:
        """Build the request's body."""
        engine = self.engine
        if engine.form:
            return urlencode(fill_texts(engine.form, self._values)).encode()
        return to_json(fill_json(engine.json, self._values)) if engine.json else b""

    @property
    def _values(self) -> Mapping[str, object]:
        return {"query": self.query, "limit": self.limit, "key": self.key}


def load_engine(name: str) -> SearchEngine:
    """Return the engine of that name. Raises `ToolError` when there is none."""
    found = find_engine(name)
    if found is None:
        raise ToolError(
            f"There is no search engine {name!r} (web.search_backend). {suggest_name(name, ENGINES)}".strip()
        )
    return found


def choose_engine(name: str, search_url: str, environ: Mapping[str, str]) -> SearchEngine:
    """Return the engine to query: the named one, else the first that has all it needs. Raises `ToolError`."""
    if not name:
        found = [one for one in ENGINES.values() if one.is_usable(search_url, environ)]
        return min(found, key=lambda one: one.order)
    chosen = load_engine(name)
    if not chosen.base_url(search_url, environ):
        raise ToolError(f"Where {chosen.title} is must be said in web.search_url.")
    if chosen.key_variables and not chosen.find_key(environ):
        raise ToolError(f"{chosen.title} needs a key: put it into {chosen.key_variables[0]}.")
    return chosen


async def run_search(search: WebSearch, fetcher: WebFetcher) -> list[WebSearchResult]:
    """Return the engine's results, at most `limit`. Raises `ToolError`; the key is in no error and no result."""
    chosen = search.engine
    try:
        page = await fetcher.send_request(
            chosen.method, search.url, headers=search.build_headers(), body=search.build_body()
        )
    except ToolError as error:
        raise ToolError(f"{chosen.title}: {redact_key(str(error), search.key)}") from None
    if page.status != 200:
        raise ToolError(_describe_refusal(search, page))
    found = await _parse_results(search, page)
    return [_clean_result(row, search) for row in found if judge_url(row.url).verdict is Verdict.ALLOW][: search.limit]


def _describe_refusal(search: WebSearch, page: FetchedPage) -> str:
    chosen = search.engine
    hint = ""
    if page.status in (401, 403) and chosen.key_variables:
        hint = f"The key in {chosen.key_variables[0]} is not accepted."
    elif page.status == 429:
        hint = "It has been asked too often; try again later."
    advice = chosen.advice.get(page.status, hint)
    return f"{chosen.title} answered with status {page.status}. {advice}".strip()


async def _parse_results(search: WebSearch, page: FetchedPage) -> list[WebSearchResult]:
    chosen = search.engine
    if chosen.answer == "html":
        job = ConversionJob(
            url=page.url, row=chosen.rows, title=chosen.row_title, link=chosen.row_link, snippet=chosen.row_snippet
        )
        rows = await extract_list(decode_body(page.body, page.headers.get("content-type", "")), job)
        return [
            WebSearchResult(
                row.get("title", ""), _unwrap_link(row.get("link", ""), chosen.unwrap), row.get("snippet", "")
            )
            for row in rows
        ]
    try:
        answer: object = msgspec.json.decode(page.body)
    except (msgspec.DecodeError, RecursionError):
        raise ToolError(f"{chosen.title} did not answer with JSON.") from None
    rows_found = find_value(answer, chosen.rows)
    return [
        WebSearchResult(*(find_text(row, name) for name in (chosen.row_title, chosen.row_link, chosen.row_snippet)))
        for row in (rows_found if isinstance(rows_found, list) else [])
    ]


def _unwrap_link(link: str, parameter: str) -> str:
    """Return a link without the engine's own redirect around it."""
    if not parameter:
        return link
    try:
        inner = parse_qs(urlsplit(link).query).get(parameter)
    except ValueError:
        return link
    return inner[0] if inner else link


def _clean_result(row: WebSearchResult, search: WebSearch) -> WebSearchResult:
    url = judge_url(row.url).url
    return WebSearchResult(
        _to_plain_text(row.title, search.key, _MAX_TITLE),
        redact_key(url, search.key),
        _to_plain_text(row.snippet, search.key, _MAX_SNIPPET),
    )


def _to_plain_text(text: str, key: str, limit: int) -> str:
    flat = " ".join(html.unescape(_MARKUP.sub("", text[: 20 * limit])).split())
    return redact_key(flat if len(flat) <= limit else flat[: limit - 1] + "…", key)
