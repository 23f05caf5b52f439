"""Azure OpenAI, with the official client as the judge of what is sent."""

import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI

from hermes.core.errors import ConfigError
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import build_url
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

KEY = "a1b2" * 8
TOKEN = "eyJhbGciOiJub25lIn0.e30.c2ln"
ROOT = "https://res.openai.azure.com"


def told_apart(request: RecordedRequest) -> tuple[str, str | None, str | None]:
    """Return what Azure reads of a request besides its body."""
    return request.path, request.headers.get("api-key"), request.headers.get("authorization")


@pytest.mark.slow
@pytest.mark.parametrize("secret", [KEY, TOKEN])
@pytest.mark.parametrize("mode", ["chat_completions", "responses"])
@pytest.mark.parametrize("version", ["", "2024-10-21"])
async def test_what_is_sent_is_what_the_official_client_sends(secret: str, mode: str, version: str) -> None:
    async with ScriptedServer([Say("ours"), Say("theirs")]) as server:
        root = server.url.removesuffix("/v1")
        variable = "AZURE_OPENAI_AD_TOKEN" if secret == TOKEN else "AZURE_OPENAI_API_KEY"
        more = {variable: secret, "AZURE_OPENAI_ENDPOINT": root, "OPENAI_API_VERSION": version}
        config = {"model": {"default": "my-gpt", "provider": "azure", "api_mode": mode, "context_length": 100_000}}
        with TempHome({**config, "terminal": {"backend": "local"}}, more=more) as home:
            ran = await run_hermes(home, "-z", "hi")
        assert ran.stdout.strip() == "ours", ran.stderr
        client: AsyncOpenAI
        if version:
            given = {"azure_ad_token": secret} if secret == TOKEN else {"api_key": secret}
            client = AsyncAzureOpenAI(azure_endpoint=root, api_version=version, **given)
        else:
            client = AsyncOpenAI(base_url=f"{root}/openai/v1/", api_key=secret)
        async with client:
            if mode == "responses":
                await client.responses.create(model="my-gpt", input="hi", stream=False)
            else:
                await client.chat.completions.create(model="my-gpt", messages=[{"role": "user", "content": "hi"}])
        ours, theirs = server.requests
        assert ours.json["model"] == theirs.json["model"] == "my-gpt"
        if version or secret == TOKEN:
            assert told_apart(ours) == told_apart(theirs)
        else:  # that client has only bearer tokens; a key of a resource goes in its own field
            assert told_apart(ours) == (theirs.path, KEY, None)


@pytest.mark.parametrize(
    ("base_url", "model", "mode", "version", "expected"),
    [
        (ROOT, "m", "", "", f"{ROOT}/openai/v1/chat/completions"),
        (f"{ROOT}/", "m", "", "preview", f"{ROOT}/openai/v1/chat/completions"),
        (f"{ROOT}/openai/v1/", "m", "responses", "", f"{ROOT}/openai/v1/responses"),
        (ROOT, "a b", "", "2024-10-21", f"{ROOT}/openai/deployments/a%20b/chat/completions?api-version=2024-10-21"),
        (ROOT, "m", "responses", "2025-04-01-preview", f"{ROOT}/openai/responses?api-version=2025-04-01-preview"),
        (
            f"{ROOT}/openai/deployments/d",
            "m",
            "",
            "2024-10-21",
            f"{ROOT}/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
        (
            f"{ROOT}/openai/deployments/d?api-version=v",
            "m",
            "",
            "",
            f"{ROOT}/openai/deployments/d/chat/completions?api-version=v",
        ),
        (
            "https://r.services.ai.azure.com/anthropic",
            "claude",
            "",
            "",
            "https://r.services.ai.azure.com/anthropic/v1/messages",
        ),
    ],
)
def test_addresses(base_url: str, model: str, mode: str, version: str, expected: str) -> None:
    environ = {"AZURE_OPENAI_API_KEY": KEY, "OPENAI_API_VERSION": version}
    found = resolve_endpoint(ModelChoice(model, base_url=base_url, api_mode=mode), environ)
    path = {"responses": "/responses", "anthropic_messages": "/v1/messages"}.get(found.wire, "/chat/completions")
    assert (found.record.name, build_url(found.base_url, path)) == ("azure", expected)
    assert KEY not in repr(found)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ConfigError, match="address of your resource"):
        resolve_endpoint(ModelChoice("m", "azure"), {"AZURE_OPENAI_API_KEY": KEY})
    with pytest.raises(ConfigError, match="needs a version"):
        resolve_endpoint(ModelChoice("m", base_url=f"{ROOT}/openai/deployments/d"), {"AZURE_OPENAI_API_KEY": KEY})
    with pytest.raises(ConfigError, match="No API key for Azure OpenAI") as caught:
        resolve_endpoint(ModelChoice("m", "azure-openai"), {"AZURE_OPENAI_ENDPOINT": ROOT})
    assert "AZURE_OPENAI_API_KEY" in caught.value.hint
