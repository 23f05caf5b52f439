"""SearXNG: a self-hosted search engine (`web.search_url`, or SEARXNG_URL). Its JSON format must be enabled."""

from hermes.web.engine import SearchEngine

ENGINE = SearchEngine(
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
)
