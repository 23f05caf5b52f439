"""Find model servers that already run on this machine. They are offered, and never used without being chosen."""

import asyncio

import msgspec
from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.protocols import HttpTimeouts, HttpTransport

PROBE_SECONDS = 1.0
"""The time limit for connecting and for listing the models."""


_TIMEOUTS = HttpTimeouts(connect=0.25, read=PROBE_SECONDS)


_MAX_BODY_BYTES = 1 << 20


class LocalModelServer(Struct, frozen=True):
    """A server at its usual port on loopback; `models` are the names it answers to, once it was asked."""

    provider: str
    title: str
    port: int
    models: tuple[str, ...] = ()

    @property
    def base_url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/v1"


KNOWN_SERVERS = (
    LocalModelServer("ollama", "Ollama", 11434),
    LocalModelServer("lmstudio", "LM Studio", 1234),
    LocalModelServer("llamacpp", "llama.cpp", 8080),
    LocalModelServer("vllm", "vLLM", 8000),
)


class _ModelEntry(Struct, frozen=True):
    id: str


class _ModelListing(Struct, frozen=True):
    data: list[_ModelEntry]


async def find_local_servers(candidates: tuple[LocalModelServer, ...] = KNOWN_SERVERS) -> list[LocalModelServer]:
    """Return the candidates that list their models; all are asked at once, within a second."""
    from hermes.providers.http import create_http_transport

    # No proxy stands between this machine and itself, whatever the environment says.
    transport = create_http_transport({})
    try:
        found = await asyncio.gather(*(_list_models(transport, server) for server in candidates))
    finally:
        await transport.close()
    return [
        msgspec.structs.replace(server, models=models)
        for server, models in zip(candidates, found, strict=True)
        if models is not None
    ]


async def _list_models(transport: HttpTransport, server: LocalModelServer) -> tuple[str, ...] | None:
    """Return the ids that `/v1/models` lists; None when this is no model server, or one that needs a key."""
    body = bytearray()
    headers = {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(PROBE_SECONDS),
            transport.open("GET", f"{server.base_url}/models", headers=headers, body=b"", timeouts=_TIMEOUTS) as stream,
        ):
            async for chunk in stream.chunks():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    return None
            listing = msgspec.json.decode(body, type=_ModelListing)
            return tuple(entry.id for entry in listing.data) if stream.status == 200 else None
    except (TransportError, TimeoutError, msgspec.DecodeError):
        return None
