"""The records of the services that read web pages in our place (`web.extract_backend`)."""

from collections.abc import Mapping

from msgspec import Struct

from hermes.config.settings import Settings
from hermes.i18n.messages import N_
from hermes.web.templates import JsonTemplate, first_variable


class ExtractEngine(Struct, frozen=True, kw_only=True):
    """A service that reads pages. In `json` `{urls}` stands for the addresses, `{url}` for the only one.

    `rows` says where the pages are in its answer, `row_url`, `row_title` and `row_text` what stands in one of them
    (names joined by dots); `errors`, `error_url` and `error_text` the same for what could not be read.
    """

    title: str
    base: str
    path: str
    rows: str
    row_text: str
    key_variables: tuple[str, ...]
    json: JsonTemplate
    headers: Mapping[str, str]
    base_variables: tuple[str, ...] = ()
    row_url: str = ""
    """Empty: a request is for one address, and the answer is its page."""
    row_title: str = ""
    errors: str = ""
    error_url: str = ""
    error_text: str = ""

    def base_url(self, extract_url: str, environ: Mapping[str, str]) -> str:
        """Return the address without a slash at the end."""
        return (extract_url or first_variable(self.base_variables, environ) or self.base).rstrip("/")

    def find_key(self, environ: Mapping[str, str]) -> str:
        """Return its key; empty when it has none."""
        return first_variable(self.key_variables, environ)


EXTRACT_ENGINES = {
    # https://exa.ai/docs/reference/get-contents. `statuses` has a row for every address, by its `id`.
    "exa": ExtractEngine(
        title="Exa",
        base="https://api.exa.ai",
        key_variables=("EXA_API_KEY",),
        path="/contents",
        headers={"x-api-key": "{key}"},
        json={"urls": "{urls}", "text": True},
        rows="results",
        row_url="id",
        row_title="title",
        row_text="text",
        errors="statuses",
        error_url="id",
        error_text="error.tag",
    ),
    # https://docs.firecrawl.dev/api-reference/endpoint/scrape: one page a request.
    "firecrawl": ExtractEngine(
        title="Firecrawl",
        base="https://api.firecrawl.dev",
        base_variables=("FIRECRAWL_API_URL",),
        key_variables=("FIRECRAWL_API_KEY",),
        path="/v2/scrape",
        headers={"authorization": "Bearer {key}"},
        json={"url": "{url}", "formats": ["markdown"], "onlyMainContent": True},
        rows="data",
        row_title="metadata.title",
        row_text="markdown",
    ),
    # https://docs.parallel.ai/api-reference/extract/extract.
    "parallel": ExtractEngine(
        title="Parallel",
        base="https://api.parallel.ai",
        key_variables=("PARALLEL_API_KEY",),
        path="/v1/extract",
        headers={"x-api-key": "{key}"},
        json={"urls": "{urls}", "advanced_settings": {"full_content": True}},
        rows="results",
        row_url="url",
        row_title="title",
        row_text="full_content",
        errors="errors",
        error_url="url",
        error_text="error_type",
    ),
    # https://docs.tavily.com/documentation/api-reference/endpoint/extract.
    "tavily": ExtractEngine(
        title="Tavily",
        base="https://api.tavily.com",
        key_variables=("TAVILY_API_KEY",),
        path="/extract",
        headers={"authorization": "Bearer {key}"},
        json={"urls": "{urls}", "format": "markdown"},
        rows="results",
        row_url="url",
        row_title="title",
        row_text="raw_content",
        errors="failed_results",
        error_url="url",
        error_text="error",
    ),
}
"""The services by their names in `web.extract_backend`."""


def explain_missing(environ: Mapping[str, str], settings: Settings) -> str:
    """Return why the service that the settings name cannot be asked; empty where it can, or none is named."""
    name = settings.web.extract_backend
    if not name:
        return ""
    engine = EXTRACT_ENGINES.get(name)
    if engine is None:
        return N_("`web.extract_backend` names {name}, which reads no pages", name=repr(name))
    if not engine.find_key(environ):
        key = engine.key_variables[0]
        return N_("`web.extract_backend` names {name}, and its key {key} is not set", name=name, key=key)
    return ""
