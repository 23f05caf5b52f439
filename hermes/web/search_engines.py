"""The records of the search engines."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from hermes.config.settings import Settings
from hermes.i18n.messages import N_
from hermes.web.templates import JsonTemplate, first_variable


class SearchEngine(Struct, frozen=True, kw_only=True):
    """A search engine. In templates `{query}`, `{limit}` and `{key}` stand for what they name.

    `rows` says where the results are: names joined by dots in JSON, a CSS selector in HTML; `row_title`, `row_link` and
    `row_snippet` the same within one of them, where a list of texts is joined. `unwrap` is the parameter of a link that
    holds the real one.
    """

    title: str
    order: int
    """The rank: of the usable engines the one with the lowest is used."""
    path: str
    rows: str
    row_title: str
    row_link: str
    row_snippet: str
    base: str = ""
    """The address of the engine; empty: the person sets it."""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    form: Mapping[str, str] = {}
    json: JsonTemplate = {}
    """A value that is `{limit}` is sent as a number."""
    answer: Literal["json", "html"] = "json"
    unwrap: str = ""
    advice: Mapping[int, str] = {}
    """Advice for the person, by the status of an answer."""

    def base_url(self, search_url: str, environ: Mapping[str, str]) -> str:
        """Return the address without a slash at the end; empty when none is set."""
        return (search_url or first_variable(self.base_variables, environ) or self.base).rstrip("/")

    def find_key(self, environ: Mapping[str, str]) -> str:
        """Return its key; empty when it has none."""
        return first_variable(self.key_variables, environ)

    def is_usable(self, search_url: str, environ: Mapping[str, str]) -> bool:
        """Return whether all that it needs is set."""
        return bool(self.base_url("" if self.base else search_url, environ)) and (
            not self.key_variables or bool(self.find_key(environ))
        )


ENGINES = {
    # Brave Search, with a key (https://api-dashboard.search.brave.com).
    "brave": SearchEngine(
        title="Brave Search",
        order=2,
        base="https://api.search.brave.com",
        key_variables=("BRAVE_SEARCH_API_KEY", "BRAVE_API_KEY"),
        path="/res/v1/web/search",
        query={"q": "{query}", "count": "{limit}"},
        headers={"x-subscription-token": "{key}"},
        rows="web.results",
        row_title="title",
        row_link="url",
        row_snippet="description",
    ),
    # DuckDuckGo's page for browsers without scripts: it needs no key, and sometimes does not answer.
    "duckduckgo": SearchEngine(
        title="DuckDuckGo",
        order=9,
        base="https://html.duckduckgo.com",
        method="POST",
        path="/html/",
        form={"q": "{query}"},
        answer="html",
        rows=".result:not(.result--ad)",
        row_title="a.result__a",
        row_link="a.result__a",
        row_snippet=".result__snippet",
        unwrap="uddg",
        advice={202: "It wants to see a person. Set another engine in web.search_backend."},
    ),
    # Exa, with a key (https://exa.ai/docs/reference/search). Its own highlights are the few words of a result.
    "exa": SearchEngine(
        title="Exa",
        order=4,
        base="https://api.exa.ai",
        key_variables=("EXA_API_KEY",),
        method="POST",
        path="/search",
        headers={"x-api-key": "{key}"},
        json={"query": "{query}", "numResults": "{limit}", "contents": {"highlights": True}},
        rows="results",
        row_title="title",
        row_link="url",
        row_snippet="highlights",
    ),
    # Firecrawl, with a key (https://docs.firecrawl.dev/api-reference/v2-introduction), or a server of one's own.
    "firecrawl": SearchEngine(
        title="Firecrawl",
        order=5,
        base="https://api.firecrawl.dev",
        base_variables=("FIRECRAWL_API_URL",),
        key_variables=("FIRECRAWL_API_KEY",),
        method="POST",
        path="/v2/search",
        headers={"authorization": "Bearer {key}"},
        json={"query": "{query}", "limit": "{limit}"},
        rows="data.web",
        row_title="title",
        row_link="url",
        row_snippet="description",
    ),
    # Parallel, with a key (https://docs.parallel.ai).
    "parallel": SearchEngine(
        title="Parallel",
        order=6,
        base="https://api.parallel.ai",
        key_variables=("PARALLEL_API_KEY",),
        method="POST",
        path="/v1/search",
        headers={"x-api-key": "{key}"},
        json={
            "search_queries": ["{query}"],
            "objective": "{query}",
            "mode": "basic",
            "advanced_settings": {"max_results": "{limit}"},
        },
        rows="results",
        row_title="title",
        row_link="url",
        row_snippet="excerpts",
    ),
    # SearXNG: a self-hosted search engine (`web.search_url`, or SEARXNG_URL). Its JSON format must be enabled.
    "searxng": SearchEngine(
        title="SearXNG",
        order=1,
        base_variables=("SEARXNG_URL",),
        path="/search",
        query={"q": "{query}", "format": "json"},
        rows="results",
        row_title="title",
        row_link="url",
        row_snippet="content",
        advice={403: "Its settings.yml must list json under search.formats."},
    ),
    # Tavily, with a key (https://tavily.com).
    "tavily": SearchEngine(
        title="Tavily",
        order=3,
        base="https://api.tavily.com",
        key_variables=("TAVILY_API_KEY",),
        method="POST",
        path="/search",
        headers={"authorization": "Bearer {key}"},
        json={"query": "{query}", "max_results": "{limit}"},
        rows="results",
        row_title="title",
        row_link="url",
        row_snippet="content",
    ),
}
"""The engines by their names in `web.search_backend`."""
OTHER_NAMES = {"ddgs": "duckduckgo"}
"""Names by which settings of other programs know an engine."""


def find_engine(name: str) -> SearchEngine | None:
    """Return the engine of that name, or None."""
    return ENGINES.get(OTHER_NAMES.get(name, name))


def explain_missing(environ: Mapping[str, str], settings: Settings) -> str:
    """Return why the engine that the settings name cannot be queried; empty where it can, or none is named."""
    name = settings.web.search_backend
    if not name:
        return ""
    engine = find_engine(name)
    if engine is None:
        return N_("`web.search_backend` names {name}, which is no search engine", name=repr(name))
    if not engine.base_url(settings.web.search_url, environ):
        return N_("`web.search_backend` names {name}, and `web.search_url` does not say where it is", name=name)
    if engine.key_variables and not engine.find_key(environ):
        key = engine.key_variables[0]
        return N_("`web.search_backend` names {name}, and its key {key} is not set", name=name, key=key)
    return ""
