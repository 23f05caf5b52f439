"""What a session may do on the web, as the person set it up."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.core.secret import KeyHolder

if TYPE_CHECKING:
    from hermes.safety.urls import Resolver
    from hermes.web.fetch import Fetcher, FetchLimits

NO_WEB = "There is no way to the web here."


class WebAccess(KeyHolder, frozen=True, kw_only=True):
    """`environ` is read for proxies, certificates and the keys of search engines; the rest are settings.

    `private` are the hosts of the person's own network that are open (`security.allow_private_urls`). `resolver` is
    the system's unless another is given.
    """

    environ: Mapping[str, str] = {}
    private: tuple[str, ...] = ()
    search_backend: str = ""
    search_url: str = ""
    ca_file: str = ""
    resolver: "Resolver | None" = None

    def fetcher(self, *also: str, limits: "FetchLimits | None" = None) -> "Fetcher":
        """Something to fetch with, for one call; hosts named in `also` are open besides."""
        from hermes.safety.urls import UrlPolicy
        from hermes.web.fetch import Fetcher

        policy = UrlPolicy(private=(*self.private, *also))
        return Fetcher(self.environ, policy=policy, resolver=self.resolver, limits=limits, ca_file=self.ca_file)
