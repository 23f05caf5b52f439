"""The settings of tools that reach the outside: the web, pictures, the home."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class ImageInput(StrEnum):
    """How pictures reach a model."""

    AUTO = "auto"
    """Themselves, unless the model is known to take none."""
    NATIVE = "native"
    """Themselves, whatever is known of the model."""
    TEXT = "text"
    """In words only: the model has `vision_analyze` look at them."""


class WebSettings(Struct, frozen=True):
    """How the web is searched and read (`web:`)."""

    search_backend: str = ""
    """`searxng`, `brave`, `tavily`, `exa`, `firecrawl`, `parallel` or `duckduckgo` (also `ddgs`); empty: the first of
    them whose key or address is there."""
    search_url: str = ""
    """Where the search engine is: needed for `searxng` (or SEARXNG_URL); for others a server that stands in for it."""
    extract_backend: str = ""
    """Who reads pages for `web_extract`: `tavily`, `exa`, `firecrawl` or `parallel`; empty: Hermes itself."""
    extract_url: str = ""
    """A server in the place of that service."""


class ImageGenSettings(Struct, frozen=True):
    """Who makes pictures (`image_gen:`)."""

    provider: str = ""
    """`openai`, `fal` or `openrouter`; empty: the first of them whose key is there."""
    model: str = ""
    """Its model; empty: the one that Hermes knows."""
    base_url: str = ""
    """A server in its place."""
    timeout: Annotated[float, Meta(gt=0)] = 180.0
    """Seconds that one picture may take."""


class BrowserProfile(StrEnum):
    """Where the browser keeps what sites store in it."""

    MEMORY = "memory"
    KEPT = "kept"


class BrowserSettings(Struct, frozen=True):
    """The browser that the agent uses (`browser:`)."""

    program: str = ""
    """The browser to start, by its path; empty: the first that this machine has."""
    cdp_url: str = ""
    """A Chromium with remote debugging to use in place of one of this machine, `http://HOST:PORT` or `ws://...`. It
    runs outside of the sandbox and of the proxy.
    """
    profile: BrowserProfile = BrowserProfile.MEMORY
    """`memory`: every session's browser begins empty, and leaves nothing. `kept`: it has the profile of the home, in
    which you sign in to sites by `hermes browser login`; one session at a time uses it.
    """
    cdp_methods: tuple[str, ...] = ()
    """Methods of the browser's own protocol, such as `Page.printToPDF`, that `browser_cdp` may call once the
    tool set `browser-cdp` is on.
    """
    inactivity_timeout: Annotated[int, Meta(ge=1)] = 600
    """Seconds after which a browser that nobody has used is closed."""
