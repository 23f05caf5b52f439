from collections.abc import AsyncIterator, Callable

import httpx2
import pytest


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def chat() -> Callable[..., dict[str, object]]:
    def body(text: str = "hi", *, stream: bool = True, **more: object) -> dict[str, object]:
        return {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}], **more}

    return body
