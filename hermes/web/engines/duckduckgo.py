"""DuckDuckGo's page for browsers without scripts: no key, and now and then no answer."""

from hermes.web.engine import Engine

ENGINE = Engine(
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
