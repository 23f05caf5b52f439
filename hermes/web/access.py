"""The web access of a session, as the person set it up."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.core.secret import KeyHolder

if TYPE_CHECKING:
    from hermes.safety.urls import Resolver
    from hermes.web.fetch import FetchLimits, WebFetcher

NO_WEB = "There is no way to the web here."


class WebAccess(KeyHolder, frozen=True, kw_only=True):
    """The settings of web access.

    `environ` is read for proxies, certificates and the keys of search engines; the rest are settings.
    `private` are the hosts of the person's own network that are open (`security.allow_private_urls`).
    `resolver` is the system's unless another is given.
    """

    environ: Mapping[str, str] = {}
    private: tuple[str, ...] = ()
    search_backend: str = ""
    search_url: str = ""
    ca_file: str = ""
    resolver: "Resolver | None" = None

    def make_fetcher(self, *also: str, limits: "FetchLimits | None" = None) -> "WebFetcher":
        """Return a fetcher for one call; hosts named in `also` are open as well."""
        from hermes.safety.urls import UrlPolicy
        from hermes.web.fetch import WebFetcher

        policy = UrlPolicy(private=(*self.private, *also))
        return WebFetcher(self.environ, policy=policy, resolver=self.resolver, limits=limits, ca_file=self.ca_file)
