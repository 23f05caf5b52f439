"""Search engines as data, and the one way in which all of them are asked.

A record (`engines/`, a file each) says where an engine is, how a question is put, and where in its answer the results
stand. Keys come from the environment or `.env`, go into a field of the request and nowhere else.
"""

import html
import re
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.plugins import builtin_names, load_builtin, suggestion
from hermes.safety.shell.findings import Verdict
from hermes.safety.urls import judge_url
from hermes.web.charset import decoded
from hermes.web.converter import Job
from hermes.web.engine import Engine
from hermes.web.fetch import Fetcher, Page
from hermes.web.pages import listed

MAX_RESULTS = 20
_SNIPPET = 500
_TITLE = 200
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class Result(Struct, frozen=True):
    """One thing that was found."""

    title: str
    url: str
    snippet: str


class Search(Struct, frozen=True, kw_only=True):
    """A question, ready to be put to an engine."""

    engine: Engine
    base: str
    key: str
    query: str
    limit: int

    @property
    def url(self) -> str:
        """The address that is asked."""
        asked = urlencode(self._filled(self.engine.query))
        return f"{self.base}{self.engine.path}" + (f"?{asked}" if asked else "")

    def headers(self) -> dict[str, str]:
        """The request's fields."""
        engine = self.engine
        kind = {"content-type": "application/json"} if engine.json else {}
        kind = {"content-type": "application/x-www-form-urlencoded"} if engine.form else kind
        accept = "text/html" if engine.answer == "html" else "application/json"
        return {"accept": accept, **kind, **self._filled(engine.headers)}

    def body(self) -> bytes:
        """The request's body."""
        engine = self.engine
        if engine.form:
            return urlencode(self._filled(engine.form)).encode()
        if not engine.json:
            return b""
        numbers = {name: self.limit for name, value in engine.json.items() if value == "{limit}"}
        return msgspec.json.encode({**self._filled(engine.json), **numbers})

    def _filled(self, template: Mapping[str, str]) -> dict[str, str]:
        values = {"{query}": self.query, "{limit}": str(self.limit), "{key}": self.key}
        return {
            name: re.sub(r"\{(?:query|limit|key)\}", lambda match: values[match[0]], value)
            for name, value in template.items()
        }


def engine_names() -> tuple[str, ...]:
    """Every engine there is a record of."""
    from hermes.web import engines

    return builtin_names(engines)


def engine(name: str) -> Engine:
    """The engine of that name. Raises `ToolError` when there is none."""
    from hermes.web import engines

    if name not in engine_names():
        near = suggestion(name, engine_names())
        raise ToolError(f"There is no search engine {name!r} (web.search_backend). {near}".strip())
    record: Engine = load_builtin(engines, name).ENGINE
    return record


def choose(name: str, search_url: str, environ: Mapping[str, str]) -> Engine:
    """The engine to ask: the named one, else the first that has all it needs. Raises `ToolError`."""
    if not name:
        found = [one for one in map(engine, engine_names()) if one.usable(search_url, environ)]
        return min(found, key=lambda one: one.order)
    chosen = engine(name)
    if not chosen.at(search_url, environ):
        raise ToolError(f"Where {chosen.title} is must be said in web.search_url.")
    if chosen.key_variables and not chosen.key(environ):
        raise ToolError(f"{chosen.title} needs a key: put it into {chosen.key_variables[0]}.")
    return chosen


async def ask(search: Search, fetcher: Fetcher) -> list[Result]:
    """What the engine finds, at most `limit`. Raises `ToolError`; the key stands in no error and no result."""
    chosen = search.engine
    try:
        page = await fetcher.call(chosen.method, search.url, headers=search.headers(), body=search.body())
    except ToolError as error:
        raise ToolError(f"{chosen.title}: {_without_key(str(error), search.key)}") from None
    if page.status != 200:
        raise ToolError(_refusal(search, page))
    found = await _rows_of(search, page)
    return [_cleaned(row, search) for row in found if judge_url(row.url).verdict is Verdict.ALLOW][: search.limit]


def _refusal(search: Search, page: Page) -> str:
    chosen = search.engine
    said = ""
    if page.status in (401, 403) and chosen.key_variables:
        said = f"The key in {chosen.key_variables[0]} is not accepted."
    elif page.status == 429:
        said = "It has been asked too often; try again later."
    advice = chosen.advice.get(page.status, said)
    return f"{chosen.title} answered with status {page.status}. {advice}".strip()


async def _rows_of(search: Search, page: Page) -> list[Result]:
    chosen = search.engine
    if chosen.answer == "html":
        job = Job(
            url=page.url, row=chosen.rows, title=chosen.row_title, link=chosen.row_link, snippet=chosen.row_snippet
        )
        rows = await listed(decoded(page.body, page.headers.get("content-type", "")), job)
        return [
            Result(row.get("title", ""), _unwrapped(row.get("link", ""), chosen.unwrap), row.get("snippet", ""))
            for row in rows
        ]
    try:
        answer: object = msgspec.json.decode(page.body)
    except (msgspec.DecodeError, RecursionError):
        raise ToolError(f"{chosen.title} did not answer with JSON.") from None
    rows_found = _within(answer, chosen.rows)
    return [
        Result(*(_text(_within(row, name)) for name in (chosen.row_title, chosen.row_link, chosen.row_snippet)))
        for row in (rows_found if isinstance(rows_found, list) else [])
    ]


def _within(value: object, names: str) -> object:
    for name in names.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _unwrapped(link: str, parameter: str) -> str:
    """A link without the engine's own redirect around it."""
    if not parameter:
        return link
    try:
        inner = parse_qs(urlsplit(link).query).get(parameter)
    except ValueError:
        return link
    return inner[0] if inner else link


def _cleaned(row: Result, search: Search) -> Result:
    url = judge_url(row.url).url
    return Result(
        _plain(row.title, search.key, _TITLE), _without_key(url, search.key), _plain(row.snippet, search.key, _SNIPPET)
    )


def _plain(text: str, key: str, limit: int) -> str:
    flat = " ".join(html.unescape(_MARKUP.sub("", text[: 20 * limit])).split())
    return _without_key(flat if len(flat) <= limit else flat[: limit - 1] + "…", key)


def _without_key(text: str, key: str) -> str:
    return text.replace(key, "[key]") if key else text
