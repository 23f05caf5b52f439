"""Brave Search, with a key (https://api-dashboard.search.brave.com)."""

from hermes.web.engine import SearchEngine

ENGINE = SearchEngine(
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
)
