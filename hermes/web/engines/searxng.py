"""SearXNG: a search engine of one's own (`web.search_url`, or SEARXNG_URL). Its JSON format must be on."""

from hermes.web.engine import Engine

ENGINE = Engine(
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
