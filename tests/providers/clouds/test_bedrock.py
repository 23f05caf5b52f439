"""Amazon Bedrock: addresses, keys and signatures, with the official client as a judge."""

import calendar
import time
from pathlib import Path

import pytest

from hermes.core.errors import ConfigError
from hermes.llm.classify import failure_from_response
from hermes.providers.clouds.aws_signature import AwsCredentials, SigningScope, sign_request
from hermes.providers.clouds.bedrock import find_credentials
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.testing.home import TempHome
from hermes.testing.script import Fail, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

KEY = "bedrock-api-key-" + "b3" * 10
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY" + "SOMETHING"
ACCESS = {"AWS_ACCESS_KEY_ID": "AKIDOURS", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"}
CLAUDE = "eu.anthropic.claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("model", "mode", "region", "expected"),
    [
        ("openai.gpt-oss-120b", "", "us-east-1", "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"),
        ("qwen.qwen3", "responses", "cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/openai/v1"),
        (CLAUDE, "", "eu-west-1", "https://bedrock-mantle.eu-west-1.api.aws/anthropic"),
        (
            "anthropic.claude-x",
            "chat_completions",
            "us-east-1",
            "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1",
        ),
    ],
)
def test_addresses(model: str, mode: str, region: str, expected: str) -> None:
    environ = {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": region}
    found = resolve_endpoint(ModelChoice(model, "aws-bedrock", api_mode=mode), environ)
    assert (found.record.name, found.base_url, found.model) == ("bedrock", expected, model)
    again = resolve_endpoint(ModelChoice(model, base_url=expected), environ)
    assert again.record.name == "bedrock" and KEY not in repr(again)


@pytest.mark.slow
async def test_a_key_goes_where_the_official_client_puts_it() -> None:
    from anthropic import AsyncAnthropicBedrockMantle  # here: a second of CPU time, which each worker would spend

    async with ScriptedServer([Say("ours"), Say("theirs"), Say("chat")], api_key=KEY) as server:
        root = server.url.removesuffix("/v1")
        more = {"AWS_BEARER_TOKEN_BEDROCK": KEY}
        model = {"default": CLAUDE, "provider": "bedrock", "base_url": f"{root}/anthropic"}
        with TempHome({"model": model, "terminal": {"backend": "local"}}, more=more) as home:
            ran = await run_hermes(home, "-z", "hi")
            chat = {**model, "default": "openai.gpt-oss", "base_url": f"{root}/openai/v1", "context_length": 100_000}
            async with AsyncAnthropicBedrockMantle(
                api_key=KEY, base_url=f"{root}/anthropic", aws_region="eu-west-1"
            ) as them:
                await them.messages.create(model=CLAUDE, max_tokens=9, messages=[{"role": "user", "content": "hi"}])
            home.write_config({"model": chat, "terminal": {"backend": "local"}})
            second = await run_hermes(home, "-z", "hi")
    assert (ran.stdout.strip(), second.stdout.strip()) == ("ours", "chat")
    ours, theirs, other = server.requests
    for field in ("authorization", "x-api-key", "content-type"):
        assert ours.headers.get(field) == theirs.headers.get(field), field
    assert ours.headers["anthropic-version"] == "2023-06-01"  # what AWS documents; the client goes with the times
    assert ours.path == theirs.path == "/anthropic/v1/messages"
    assert other.path == "/openai/v1/chat/completions" and other.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.slow
@pytest.mark.parametrize("session", ["", "session-token-of-mine"])
async def test_without_a_key_the_request_that_arrives_is_signed(session: str) -> None:
    async with ScriptedServer([Say("signed"), Fail(403, message=f"no: {session or SECRET}")]) as server:
        root = server.url.removesuffix("/v1")
        model = {"default": "openai.gpt-oss", "provider": "bedrock", "base_url": f"{root}/openai/v1"}
        config = {"model": {**model, "context_length": 100_000}, "terminal": {"backend": "local"}}
        with TempHome(config, more={**ACCESS, "AWS_SESSION_TOKEN": session}) as home:
            ran = await run_hermes(home, "-z", "hi")
            refused = await run_hermes(home, "-z", "hi")
            written = [file.read_bytes() for file in home.hermes.rglob("*") if file.is_file()]
    assert ran.stdout.strip() == "signed", ran.stderr
    got = server.requests[0]
    at = calendar.timegm(time.strptime(got.headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
    expected = sign_request(
        "POST",
        root + got.path,
        {"content-type": got.headers["content-type"]},
        got.body,
        credentials=AwsCredentials("AKIDOURS", SECRET, session),
        scope=SigningScope("eu-west-1", "bedrock"),
        at=at,
    )
    assert got.headers["authorization"] == expected["authorization"]
    assert got.headers.get("x-amz-security-token", "") == session
    shown = refused.stdout + refused.stderr
    assert refused.code and SECRET not in shown and (not session or session not in shown)
    assert not any(SECRET.encode() in one for one in written)


def test_the_access_key_of_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    environ = {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    assert find_credentials(environ) is None
    file.write_text("[default]\naws_access_key_id = A\naws_secret_access_key = S%x\n[sso]\nsso_session = x\n")
    assert find_credentials(environ) == AwsCredentials("A", "S%x")
    assert find_credentials({**environ, **ACCESS}) == AwsCredentials("AKIDOURS", SECRET)
    for name, said in (("sso", "holds no access key"), ("gone", "holds no access key")):
        with pytest.raises(ConfigError, match=said):
            find_credentials({**environ, "AWS_PROFILE": name})
    file.write_text("no ini")
    with pytest.raises(ConfigError, match="not a file of AWS profiles"):
        find_credentials(environ)
    file.unlink()
    with pytest.raises(ConfigError, match="which is not there"):
        find_credentials({**environ, "AWS_PROFILE": "gone"})


def test_no_error_shows_the_access_key_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = A\naws_secret_access_key = {SECRET}\naws_session_token = own-session-token\n"
    )
    environ = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"), "AWS_REGION": "us-east-1"}
    endpoint = resolve_endpoint(ModelChoice("m", "bedrock"), environ)
    failure = failure_from_response(403, {}, f"bad {SECRET} own-session-token".encode(), endpoint, 0.0)
    assert "bad" in failure.message and SECRET not in failure.message and "own-session-token" not in failure.message
    assert SECRET not in repr(endpoint)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"AWS_BEARER_TOKEN_BEDROCK": KEY}, "needs a region"),
        ({"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": "x.evil.example/"}, "cannot be part of an address"),
        ({"AWS_REGION": "us-east-1"}, "No API key for Amazon Bedrock"),
        ({"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "A"}, "AWS_SECRET_ACCESS_KEY is not set"),
    ],
)
def test_what_is_missing_is_said(environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve_endpoint(ModelChoice("m", "bedrock"), environ)
