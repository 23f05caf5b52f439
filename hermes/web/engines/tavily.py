"""Tavily, with a key (https://tavily.com)."""

from hermes.web.engine import SearchEngine

ENGINE = SearchEngine(
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
)
