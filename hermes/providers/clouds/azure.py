"""Azure OpenAI: the `v1` address, the older one with a deployment's name in it, and their two kinds of credentials.

Source: Microsoft Learn, Azure OpenAI in Microsoft Foundry, "API version lifecycle" and "REST API reference". A key goes
in the field `api-key`, a token of Microsoft Entra as a bearer token.
"""

from collections.abc import Mapping
from urllib.parse import parse_qs, quote, urlsplit

from hermes.core.errors import ConfigError
from hermes.core.protocols import HttpTransport
from hermes.providers.clouds.variables import read_first
from hermes.providers.wire import UnsignedRequest, build_url

_ENDPOINT_VARIABLES = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL")
_VERSION_VARIABLES = ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION")
_UNDATED = ("", "v1", "preview", "latest")
"""Versions that mean the `v1` address."""


class AzureCloud:
    """Resources of Azure OpenAI."""

    def resolve_address(self, base_url: str, model: str, wire: str, environ: Mapping[str, str]) -> str:
        """Return the address. One that names only the resource gets the path of its version.

        Without a version in `OPENAI_API_VERSION` that is `/openai/v1`, else a deployment with the model's name.
        """
        base = (base_url or read_first(environ, _ENDPOINT_VARIABLES)).strip().rstrip("/")
        version = read_first(environ, _VERSION_VARIABLES)
        if not base:
            raise ConfigError(
                "Azure needs the address of your resource.",
                "Set AZURE_OPENAI_ENDPOINT (https://NAME.openai.azure.com), or `model.base_url`.",
            )
        parts = urlsplit(base)
        path = parts.path.rstrip("/")
        if path in ("", "/openai") and not parts.query and wire != "anthropic_messages":
            root = base.removesuffix("/openai")
            if version in _UNDATED:
                return f"{root}/openai/v1"
            below = "" if wire == "responses" else f"/deployments/{quote(model, safe='')}"
            return f"{root}/openai{below}?api-version={quote(version, safe='')}"
        if "/deployments/" in path and "api-version" not in parse_qs(parts.query):
            if version in _UNDATED:
                raise ConfigError(
                    "The address of an Azure deployment needs a version.",
                    "Set OPENAI_API_VERSION (such as 2024-10-21), or end the address with ?api-version=VERSION.",
                )
            return build_url(base, "") + ("&" if parts.query else "?") + f"api-version={quote(version, safe='')}"
        return base

    def create_signer(self, base_url: str, environ: Mapping[str, str]) -> "AzureSigner":
        """Return what puts the key into its field."""
        del base_url, environ
        return AzureSigner()


class AzureSigner:
    """Puts a key, or a token of Microsoft Entra, into the field that is meant for it."""

    has_credentials = False

    async def sign_request(self, request: UnsignedRequest, key: str, transport: HttpTransport) -> dict[str, str]:
        """Return the fields with the key in its own. Never waits."""
        del transport
        token = is_web_token(key)
        replaced = ("authorization", "x-api-key") if token else ("authorization",)
        fields = {name: value for name, value in request.headers.items() if name not in replaced}
        if key:
            fields |= {"authorization": f"Bearer {key}"} if token else {"api-key": key}
        return fields

    def list_secrets(self) -> tuple[str, ...]:
        """Return nothing: it holds no key."""
        return ()


def is_web_token(key: str) -> bool:
    """Return whether a key is a JSON web token, as Microsoft Entra gives them out; keys of a resource have no dots."""
    return key.startswith("eyJ") and key.count(".") == 2


CLOUD = AzureCloud()
