"""DuckDuckGo's page for browsers without scripts: it needs no key, and sometimes does not answer."""

from hermes.web.engine import SearchEngine

ENGINE = SearchEngine(
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
)
