"""Model servers that may already run on this machine. They are offered, never used unasked."""

import asyncio

from msgspec import Struct

PROBE_SECONDS = 0.25


class FoundServer(Struct, frozen=True):
    """A server that accepts connections at its usual port on loopback."""

    provider: str
    title: str
    port: int

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


async def find_servers(candidates: tuple[FoundServer, ...] = USUAL_PORTS) -> list[FoundServer]:
    """Those of the candidates whose port answers, all asked at once; takes a quarter of a second at most."""
    answers = await asyncio.gather(*(_answers(server.port) for server in candidates))
    return [server for server, answered in zip(candidates, answers, strict=True) if answered]


async def _answers(port: int) -> bool:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
