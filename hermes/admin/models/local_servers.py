"""Model servers that may already run on this machine. They are offered, never used unasked."""

import asyncio

import msgspec
from msgspec import Struct

from hermes.core.errors import TransportError
from hermes.core.protocols import HttpTimeouts, HttpTransport

PROBE_SECONDS = 1.0
"""For everything: to connect, and to be told the models."""
_TIMEOUTS = HttpTimeouts(connect=0.25, read=PROBE_SECONDS)
_MAX_BODY = 1 << 20


class FoundServer(Struct, frozen=True):
    """A server at its usual port on loopback; `models` are the names it answers to, once it was asked."""

    provider: str
    title: str
    port: int
    models: tuple[str, ...] = ()

    @property
    def base_url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/v1"


USUAL_PORTS = (
    FoundServer("ollama", "Ollama", 11434),
    FoundServer("lmstudio", "LM Studio", 1234),
    FoundServer("llamacpp", "llama.cpp", 8080),
    FoundServer("vllm", "vLLM", 8000),
)


class _Entry(Struct, frozen=True):
    id: str


class _Listing(Struct, frozen=True):
    data: list[_Entry]


async def find_servers(candidates: tuple[FoundServer, ...] = USUAL_PORTS) -> list[FoundServer]:
    """Those of the candidates that list their models, with the models; all asked at once, within a second."""
    from hermes.providers.http import http_transport

    # No proxy stands between this machine and itself, whatever the environment says.
    transport = http_transport({})
    try:
        found = await asyncio.gather(*(_models(transport, server) for server in candidates))
    finally:
        await transport.close()
    return [
        msgspec.structs.replace(server, models=models)
        for server, models in zip(candidates, found, strict=True)
        if models is not None
    ]


async def _models(transport: HttpTransport, server: FoundServer) -> tuple[str, ...] | None:
    """The ids that `/v1/models` lists; None when this is no model server, or one that wants a key."""
    body = bytearray()
    headers = {"accept": "application/json"}
    try:
        async with (
            asyncio.timeout(PROBE_SECONDS),
            transport.open("GET", f"{server.base_url}/models", headers=headers, body=b"", timeouts=_TIMEOUTS) as stream,
        ):
            async for chunk in stream.chunks():
                body += chunk
                if len(body) > _MAX_BODY:
                    return None
            listing = msgspec.json.decode(body, type=_Listing)
            return tuple(entry.id for entry in listing.data) if stream.status == 200 else None
    except (TransportError, TimeoutError, msgspec.DecodeError):
        return None
