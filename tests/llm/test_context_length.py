"""The window of a model, asked of the servers that tell it."""

import json

import pytest

from hermes.llm.context_length import find_context_length
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import Endpoint
from tests.providers.loopback_server import Loopback, Reply, loopback


def says(value: object, status: int = 200) -> Reply:
    return Reply(status=status, headers={"content-type": "application/json"}, parts=[json.dumps(value).encode()])


NO = says({"error": "not here"}, 404)


async def ask(server: Loopback, provider: str, model: str = "m") -> int | None:
    endpoint: Endpoint = resolve_endpoint(ModelChoice(model, provider, base_url=f"{server.url}/v1", api_key="k"), {})
    transport = create_http_transport({})
    try:
        return await find_context_length(endpoint, transport)
    finally:
        await transport.close()


@pytest.mark.parametrize(
    ("provider", "replies", "paths", "expected"),
    [
        ("openrouter", [{"data": [{"id": "x"}, {"id": "m", "context_length": 5}]}], ["/v1/models"], 5),
        ("together", [[{"id": "m", "context_length": 6}]], ["/v1/models"], 6),
        ("vllm", [{"data": [{"id": "m", "max_model_len": 7}]}], ["/v1/models"], 7),
        ("llamacpp", [{"default_generation_settings": {"n_ctx": 8}}], ["/props"], 8),
        ("llamacpp", [NO, {"data": [{"id": "m", "meta": {"n_ctx": 9}}]}], ["/props", "/v1/models"], 9),
        ("ollama", [{"parameters": "stop x\nnum_ctx   10"}], ["/api/show"], 10),
        ("ollama", [{"model_info": {"general.x": 1, "qwen3.context_length": 11}}], ["/api/show"], 11),
        (
            "lmstudio",
            [{"data": [{"id": "m"}]}, NO, {"id": "m", "loaded_context_length": 12}],
            ["/v1/models", "/props", "/api/v0/models/m"],
            12,
        ),
        ("custom", [NO], ["/v1/models", "/props", "/api/v0/models/m"], None),
        ("custom", ["nonsense"], ["/v1/models", "/props", "/api/v0/models/m"], None),
        ("deepseek", [NO], [], None),
    ],
)
async def test_who_tells_and_how(provider: str, replies: list[object], paths: list[str], expected: int | None) -> None:
    given = [reply if isinstance(reply, Reply) else says(reply) for reply in replies]
    async with loopback(*given) as server:
        assert await ask(server, provider) == expected
        assert [request.path for request in server.requests] == paths


async def test_nobody_is_asked_what_is_known() -> None:
    async with loopback(NO) as server:
        assert await ask(server, "anthropic", "claude-x") == 200_000
        assert server.requests == []
        url = server.url
    endpoint = resolve_endpoint(ModelChoice("m", "vllm", base_url=url), {})
    transport = create_http_transport({})
    assert await find_context_length(endpoint, transport) is None
    await transport.close()
