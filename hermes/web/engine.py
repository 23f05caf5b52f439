"""What a search engine is: a record."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct


class Engine(Struct, frozen=True, kw_only=True):
    """A search engine. In templates `{query}`, `{limit}` and `{key}` stand for what they name.

    `rows` says where the results are: names joined by dots in JSON, a CSS selector in HTML; `row_title`, `row_link` and
    `row_snippet` the same within one of them. `unwrap` is the parameter of a link that holds the real one.
    """

    title: str
    order: int
    """Among engines that can be used the one with the lowest is."""
    path: str
    rows: str
    row_title: str
    row_link: str
    row_snippet: str
    base: str = ""
    """Where it is; empty: the person says so."""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    form: Mapping[str, str] = {}
    json: Mapping[str, str] = {}
    """A value that is `{limit}` is sent as a number."""
    answer: Literal["json", "html"] = "json"
    unwrap: str = ""
    advice: Mapping[int, str] = {}
    """What to do about a status."""

    def at(self, search_url: str, environ: Mapping[str, str]) -> str:
        """Where it is, without a slash at the end; empty when nobody says so."""
        return (search_url or _first(self.base_variables, environ) or self.base).rstrip("/")

    def key(self, environ: Mapping[str, str]) -> str:
        """Its key; empty when it has none."""
        return _first(self.key_variables, environ)

    def usable(self, search_url: str, environ: Mapping[str, str]) -> bool:
        """Whether all that it needs is there."""
        return bool(self.at("" if self.base else search_url, environ)) and (
            not self.key_variables or bool(self.key(environ))
        )


def _first(names: Sequence[str], environ: Mapping[str, str]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")
