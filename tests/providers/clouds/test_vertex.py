"""Google Vertex AI: addresses, the tokens of a service account, and key files that cannot be trusted."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hermes.core.errors import ConfigError, TransportError
from hermes.providers.clouds.vertex import ServiceAccount, VertexSigner
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import UnsignedRequest
from hermes.testing.home import TempHome
from hermes.testing.script import Fail, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.providers.loopback_server import Loopback, Reply, loopback

PRIVATE = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM = PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
EMAIL = "robot@project-1.iam.gserviceaccount.com"
REQUEST = UnsignedRequest("POST", "https://x.example", {"content-type": "application/json"})
TOKEN = "ya29.token-of-the-test"


def key_file(folder: Path, token_uri: str, **more: str) -> Path:
    content = {
        "type": "service_account",
        "project_id": "project-1",
        "private_key_id": "k1",
        "private_key": PEM,
        "client_email": EMAIL,
        "token_uri": token_uri,
        **more,
    }
    file = folder / "key.json"
    file.write_text(json.dumps(content))
    return file


def gives(*tokens: str, lasts: int = 3600) -> list[Reply]:
    return [Reply(parts=[json.dumps({"access_token": one, "expires_in": lasts}).encode()]) for one in tokens]


def read_assertion(server: Loopback, number: int) -> dict[str, object]:
    form = parse_qs(server.requests[number].body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    options = {"verify_exp": False, "verify_iat": False}
    audience = f"{server.url}/token"
    assert jwt.get_unverified_header(form["assertion"][0]) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    claims: dict[str, object] = jwt.decode(
        form["assertion"][0], PRIVATE.public_key(), algorithms=["RS256"], audience=audience, options=options
    )
    return claims


async def test_a_token_is_fetched_once_and_kept_until_shortly_before_its_end() -> None:
    now = [1_000_000.0]
    async with loopback(*gives("one", "two")) as server:
        account = ServiceAccount("service_account", EMAIL, PEM, "k1", "project-1", f"{server.url}/token")
        signer, transport = VertexSigner(account, lambda: now[0]), create_http_transport({})
        sent = await asyncio.gather(*(signer.sign_request(REQUEST, "", transport) for _ in range(20)))
        assert {one["authorization"] for one in sent} == {"Bearer one"} and len(server.requests) == 1
        claims = read_assertion(server, 0)
        assert claims == {
            "iss": EMAIL,
            "scope": "https://www.googleapis.com/auth/cloud-platform",
            "aud": f"{server.url}/token",
            "iat": 1_000_000,
            "exp": 1_003_600,
        }
        now[0] += 3_359
        assert (await signer.sign_request(REQUEST, "", transport))["authorization"] == "Bearer one"
        now[0] += 2
        assert (await signer.sign_request(REQUEST, "", transport))["authorization"] == "Bearer two"
        assert len(server.requests) == 2 and signer.list_secrets() == ("two",)
        assert "two" not in repr(signer) and PEM not in repr(account)
        assert (await signer.sign_request(REQUEST, "given", transport))["authorization"] == "Bearer given"
        await transport.close()


async def test_a_token_that_still_holds_survives_a_failed_renewal() -> None:
    now = [1_000_000.0]
    async with loopback(*gives("one"), Reply(status=503)) as server:
        account = ServiceAccount("service_account", EMAIL, PEM, "k1", "p", f"{server.url}/token")
        signer, transport = VertexSigner(account, lambda: now[0]), create_http_transport({})
        await signer.sign_request(REQUEST, "", transport)
        now[0] += 3_500
        assert (await signer.sign_request(REQUEST, "", transport))["authorization"] == "Bearer one"
        now[0] += 101
        with pytest.raises(TransportError, match="gave no token"):
            await signer.sign_request(REQUEST, "", transport)
        await transport.close()


@pytest.mark.parametrize(
    "answer",
    [
        Reply(
            status=400,
            parts=[b'{"error":"invalid_grant","error_description":"' + PEM[:60].encode("unicode_escape") + b'"}'],
        ),
        Reply(parts=[b"no json"]),
        Reply(parts=[b'{"access_token":"a b"}']),
        Reply(parts=[b'{"access_token":"t\\r\\nx: y"}']),
        Reply(parts=[b'{"access_token":"t","expires_in":-1}']),
        Reply(parts=[b"x" * 200_000]),
        Reply(status=302, headers={"location": "http://127.0.0.1:9/"}),
    ],
)
async def test_what_is_no_token_is_one_line(answer: Reply) -> None:
    async with loopback(answer) as server:
        account = ServiceAccount("service_account", EMAIL, PEM, "k1", "p", f"{server.url}/token")
        transport = create_http_transport({})
        with pytest.raises(TransportError, match="gave no token") as caught:
            await VertexSigner(account).sign_request(REQUEST, "", transport)
        await transport.close()
    assert "PRIVATE KEY" not in str(caught.value) and "\n" not in caught.value.message


@pytest.mark.slow
async def test_a_turn_with_a_key_file(tmp_path: Path) -> None:
    async with (
        loopback(*gives(TOKEN)) as google,
        ScriptedServer([Say("hello"), Fail(403, message=f"no {TOKEN}")]) as server,
    ):
        root = server.url.removesuffix("/v1")
        address = f"{root}/v1/projects/p/locations/global/endpoints/openapi"
        model = {
            "default": "google/gemini-x",
            "provider": "google-vertex",
            "base_url": address,
            "context_length": 99_000,
        }
        more = {"GOOGLE_APPLICATION_CREDENTIALS": str(key_file(tmp_path, f"{google.url}/token"))}
        with TempHome({"model": model, "terminal": {"backend": "local"}}, more=more) as home:
            ran = await run_hermes(home, "-z", "hi")
            refused = await run_hermes(home, "-z", "hi")
            written = [file.read_bytes() for file in home.hermes.rglob("*") if file.is_file()]
    assert ran.stdout.strip() == "hello", ran.stderr
    request = server.requests[0]
    assert request.path == "/v1/projects/p/locations/global/endpoints/openapi/chat/completions"
    assert (request.headers["authorization"], request.json["model"]) == (f"Bearer {TOKEN}", "google/gemini-x")
    assert refused.code and TOKEN not in refused.stdout + refused.stderr
    assert not any(TOKEN.encode() in one for one in written)
    assert len(google.requests) == 2  # one a process


@pytest.mark.parametrize(
    ("location", "host"),
    [("", "aiplatform.googleapis.com"), ("europe-west4", "europe-west4-aiplatform.googleapis.com")],
)
def test_addresses(location: str, host: str) -> None:
    environ = {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": location, "VERTEX_ACCESS_TOKEN": "t" * 30}
    found = resolve_endpoint(ModelChoice("google/gemini-x", "vertex"), environ)
    place = location or "global"
    assert found.base_url == f"https://{host}/v1/projects/p-1/locations/{place}/endpoints/openapi"
    assert found.model == "google/gemini-x"
    assert resolve_endpoint(ModelChoice("m", base_url=found.base_url), environ).record.name == "vertex"


@pytest.mark.parametrize(
    "token_uri",
    [
        "https://evil.example/token",
        "http://oauth2.googleapis.com/token",
        "https://oauth2.googleapis.com.evil.example/token",
        "https://oauth2.googleapis.com@evil.example/token",
        "https://evilgoogleapis.com/token",
        "https://x:y@oauth2.googleapis.com/token",
        "https://oauth2.googleapis.com:8443/token",
        "https://oauth2.googleapis.com:port/token",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_hostile_key_file_gets_nothing(tmp_path: Path, token_uri: str) -> None:
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(key_file(tmp_path, token_uri))}
    with pytest.raises(ConfigError, match="not Google's") as caught:
        resolve_endpoint(ModelChoice("m", "vertex"), environ)
    assert "\n" not in caught.value.message and "PRIVATE" not in str(caught.value)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    file = key_file(tmp_path, "https://oauth2.googleapis.com/token", type="authorized_user")
    for environ, said in (
        ({}, "needs a project"),
        ({"GOOGLE_CLOUD_PROJECT": "../x"}, "cannot be part of an address"),
        ({"GOOGLE_CLOUD_PROJECT": "p"}, "No API key for Google Vertex AI"),
        ({"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none")}, "cannot be read"),
        ({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}, "not a key file of a service account"),
    ):
        with pytest.raises(ConfigError, match=said):
            resolve_endpoint(ModelChoice("m", "vertex"), environ)
    with pytest.raises(ConfigError) as caught:
        resolve_endpoint(ModelChoice("m", "vertex"), {"GOOGLE_CLOUD_PROJECT": "p"})
    assert "VERTEX_ACCESS_TOKEN" in caught.value.hint and "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.hint
    with pytest.raises(ConfigError, match="chat_completions"):
        resolve_endpoint(ModelChoice("m", "vertex", api_mode="responses"), {"VERTEX_ACCESS_TOKEN": "t" * 30})


@pytest.mark.parametrize("pem", ["", "nonsense", "elliptic"])
async def test_a_private_key_that_is_none(pem: str) -> None:
    if pem == "elliptic":
        other = ec.generate_private_key(ec.SECP256R1())
        pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = ServiceAccount("service_account", EMAIL, pem, "k1", "p", "http://127.0.0.1:9/token")
    with pytest.raises(TransportError, match="no RSA key"):
        await VertexSigner(account).sign_request(REQUEST, "", create_http_transport({}))


def test_without_the_package_the_extra_is_named() -> None:
    code = (
        "import sys, asyncio; sys.modules['cryptography'] = None\n"
        "from hermes.providers.clouds.vertex import ServiceAccount, sign_assertion\n"
        "try: sign_assertion(ServiceAccount('service_account', 'e', 'k'), 1.0)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "TransportError" in done.stdout and "hermes-anew[crypto]" in done.stdout
