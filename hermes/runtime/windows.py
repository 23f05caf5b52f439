"""How many tokens fit each model, asked once and remembered."""

import ipaddress
from urllib.parse import urlsplit

from hermes.llm.client import ModelClient

ASK_NEAR = 2_000
ASK_FAR = 16_000
"""Estimated tokens of a request from which on a provider on this machine or network, or any other, is asked. One that
has answered nothing yet is asked like any other: a single short question should not cost two."""


class Windows:
    """The windows of a process's models. A provider that does not tell is not asked again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int | None] = {}

    async def of(self, client: ModelClient, estimated: int) -> int | None:
        """Tokens of the model's window; None: unknown, or not worth a question for so small a request."""
        endpoint = client.endpoint
        if endpoint.context_length is not None:
            return endpoint.context_length
        key = endpoint.base_url, endpoint.model
        if key not in self._known:
            near = client.called and _near(endpoint.base_url)
            if estimated < (ASK_NEAR if near else ASK_FAR):
                return None
            self._known[key] = await client.context_length()
        return self._known[key]


def _near(url: str) -> bool:
    """Whether an address is on this machine or network, where models have small windows."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".localhost"))
