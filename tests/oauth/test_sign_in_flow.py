"""Signing in at a fake authorization server: discovery, client, browser or pasted address, and what is refused."""

import asyncio
import socket
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.code_flow import begin_code_flow, read_code
from hermes.oauth.loopback import LoopbackReceiver
from hermes.oauth.metadata import AuthorizationServer, is_resource_of, parse_challenge
from hermes.oauth.pkce import compute_challenge
from hermes.oauth.requests import HttpAnswer, OAuthError, check_endpoint
from hermes.oauth.sign_in_flow import find_authorization_server
from tests.oauth.oauth_client import AgreeingPerson, sign_in
from tests.vendors.oauth_server import FakeOAuthServer, fake_oauth_server


@pytest.fixture
async def server() -> AsyncIterator[FakeOAuthServer]:
    async with fake_oauth_server() as made:
        yield made


@pytest.mark.parametrize("pastes", [False, True])
async def test_a_person_signs_in(pastes: bool, server: FakeOAuthServer) -> None:
    person = AgreeingPerson(pastes=pastes)
    found = await sign_in(server.url, person)
    assert found.issuer == server.url and found.access_token and found.refresh_token and found.expires_at
    assert found.resource == f"{server.url}/mcp" and found.scope == "notes offline_access"
    (url,) = person.urls
    assert "code_challenge_method=S256" in url and "prompt=consent" in url and found.access_token not in url
    assert server.registrations == server.sign_ins == 1
    assert found.access_token not in repr(found) and found.refresh_token not in repr(found)


async def test_a_refusal_is_said(server: FakeOAuthServer) -> None:
    server.denies = True
    with pytest.raises(OAuthError, match="The sign-in was refused: access_denied"):
        await sign_in(server.url)


async def test_a_configured_client_is_used_and_only_at_its_server(server: FakeOAuthServer) -> None:
    found = await sign_in(server.url, client_id="mine", issuer=server.url)
    assert found.client_id == "mine" and server.registrations == 0
    with pytest.raises(OAuthError, match="belongs to https://other"):
        await sign_in(server.url, client_id="mine", issuer="https://other.example")


async def test_the_official_client_signs_in_here_and_refreshes(server: FakeOAuthServer) -> None:
    """The fake is right if the official client can use it."""
    storage, answered = _Storage(), asyncio.get_running_loop().create_future()

    async def follow(url: str) -> None:
        location = await asyncio.to_thread(AgreeingPerson._find_end, url)
        answered.set_result(httpx2.URL(location).params)

    async def wait() -> AuthorizationCodeResult:
        fields = await answered
        return AuthorizationCodeResult(code=fields["code"], state=fields["state"], iss=fields["iss"])

    provider = OAuthClientProvider(
        f"{server.url}/mcp",
        OAuthClientMetadata(redirect_uris=["http://127.0.0.1:9/callback"]),  # type: ignore[list-item]
        storage,
        follow,
        wait,
    )
    async with httpx2.AsyncClient(auth=provider) as client, fake_oauth_server() as page:
        server._upstream = f"{page.url}/.well-known/oauth-authorization-server"
        assert (await client.get(f"{server.url}/mcp")).status_code == 200
        assert server.sign_ins == 1 and storage.tokens is not None
        provider.context.token_expiry_time = 1.0
        assert (await client.get(f"{server.url}/mcp")).status_code == 200
    assert server.refreshes == 1 and server.reuses == 0


class _Storage:
    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


HONEST = AuthorizationServer(
    issuer="https://as.example",
    authorization_endpoint="https://as.example/authorize?tenant=1",
    token_endpoint="https://as.example/token",
    authorization_response_iss_parameter_supported=True,
)
CALLBACK = "http://127.0.0.1:1/callback"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("code=c&state={state}&iss=https://as.example", ""),
        ("code=c&state=other&iss=https://as.example", "its state is a different one"),
        ("code=c&iss=https://as.example", "This is not the address"),
        ("code=c&state={state}&iss=https://as.example/", "comes from another authorization server"),
        ("code=c&state={state}&iss=https://evil.example", "comes from another authorization server"),
        ("error=x&error_description=words&state={state}&iss=https://evil.example", "comes from another"),
        ("code=c&state={state}", "does not name the authorization server"),
        ("code=c&code=d&state={state}&iss=https://as.example", "names something twice"),
        ("state={state}&iss=https://as.example", "has no code"),
        (
            "error=access_denied&error_description=no%0Away&state={state}&iss=https://as.example",
            "access_denied: no way",
        ),
    ],
)
def test_answers_are_held_against_what_was_asked(query: str, problem: str) -> None:
    attempt = begin_code_flow(HONEST, OAuthClient(client_id="c"), redirect_uri=CALLBACK, scope="a", resource="r")
    assert attempt.url.startswith("https://as.example/authorize?tenant=1&response_type=code")
    assert attempt.state not in repr(attempt) and attempt.verifier not in repr(attempt)
    url = f"{CALLBACK}?{query.format(state=attempt.state)}"
    if not problem:
        assert read_code(attempt, url) == "c"
        return
    with pytest.raises(OAuthError, match=problem) as raised:
        read_code(attempt, url)
    assert "words" not in str(raised.value)


def test_the_challenge_is_that_of_the_standard() -> None:
    assert compute_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == (
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )


def test_challenges_are_parsed() -> None:
    field = 'Basic realm="x", Bearer error="insufficient_scope", scope="a  b", resource_metadata="https://r.example/m"'
    found = parse_challenge(403, field)
    assert (found.scope, found.resource_metadata, found.wants_more_scope) == ("a b", "https://r.example/m", True)
    assert parse_challenge(401, "nonsense ,,, =").scope == ""
    assert parse_challenge(401, 'Bearer scope="' + "x" * 100_000).scope == ""
    began = time.process_time()
    assert parse_challenge(401, "Bearer " + "x" * 100_000) == parse_challenge(401, "")
    assert time.process_time() - began < 0.3


@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/token",
        "https://user:word@as.example/",
        "javascript:alert(1)",
        "https://as.example/#x",
        "file:///etc/passwd",
        "https://",
        "https://as.example/\nx",
        "http://127.0.0.1:1/",
    ],
)
def test_endpoints_that_are_not_used(url: str) -> None:
    with pytest.raises(OAuthError, match="an address that is not used"):
        check_endpoint(url, allows_loopback=False)


def test_a_resource_covers_what_lies_below_it() -> None:
    assert is_resource_of("https://a.example/mcp", "https://a.example/mcp")
    assert is_resource_of("https://a.example", "https://a.example/mcp")
    for other in ("https://a.example/mc", "https://b.example/mcp", "http://a.example/mcp", "https://a.example/mcp?x=1"):
        assert not is_resource_of(other, "https://a.example/mcp")


def documents(found: Mapping[str, object]) -> "Mapping[str, HttpAnswer]":
    return {url: HttpAnswer(200, {}, to_json(value)) for url, value in found.items()}


RESOURCE = "https://m.example/.well-known/oauth-protected-resource"
METADATA = "https://as.example/.well-known/oauth-authorization-server"
GOOD = {
    "issuer": "https://as.example",
    "authorization_endpoint": "https://as.example/a",
    "token_endpoint": "https://as.example/t",
    "code_challenge_methods_supported": ["S256"],
}


@pytest.mark.parametrize(
    ("resource", "metadata", "problem"),
    [
        ({"resource": "https://evil.example"}, GOOD, "is for another server"),
        ({"resource": "https://m.example"}, GOOD, "names no authorization server"),
        ({"resource": "https://m.example", "authorization_servers": ["http://as.example"]}, GOOD, "is not used"),
        (None, {**GOOD, "issuer": "https://evil.example"}, "names another authorization server"),
        (None, {**GOOD, "code_challenge_methods_supported": ["plain"]}, "PKCE with S256"),
        (None, {**GOOD, "token_endpoint": "http://as.example/t"}, "is not used"),
        (None, None, "publishes no metadata"),
    ],
)
async def test_metadata_that_is_not_used(
    resource: Mapping[str, object] | None, metadata: Mapping[str, object] | None, problem: str
) -> None:
    said = resource or {"resource": "https://m.example", "authorization_servers": ["https://as.example"]}
    answers = documents({RESOURCE: said, **({METADATA: metadata} if metadata is not None else {})})

    async def answer(method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        return answers.get(url, HttpAnswer(404, {}, b""))

    with pytest.raises(OAuthError, match=problem):
        await find_authorization_server("https://m.example", parse_challenge(401, "Bearer"), answer)


async def test_the_port_takes_one_answer_and_nothing_else() -> None:
    async with LoopbackReceiver() as receiver:
        base = receiver.redirect_uri.removesuffix("/callback")
        waiting = asyncio.create_task(receiver.wait_for_answer())
        assert await _get(f"{base}/callback?code=1&state=") == 404  # nobody signs in yet
        receiver.expect_state("s1")
        foreign = (
            "?code=1",
            "?state=",
            "?state=s2&code=1",
            "?error=access_denied",
            "?state=s1&state=s2&code=1",
            "?x&" * 99,
        )
        for path in ("/", "/callback", "/callback2?code=1&state=s1", *(f"/callback{query}" for query in foreign)):
            assert await _get(f"{base}{path}") == 404, path
        assert await _get(f"{base}/callback?code=1&state=s1") == 200
        assert await waiting == f"{receiver.redirect_uri}?code=1&state=s1"
        assert await _get(f"{base}/callback?code=2&state=s1") == 404
    with pytest.raises(OSError, match="refused"):
        await _get(f"{base}/callback?code=1&state=s1")
    async with LoopbackReceiver() as first:
        port = _port_of(first)
        with pytest.raises(HermesError, match="cannot be listened on"):
            async with LoopbackReceiver(port):
                pass


async def test_connections_that_say_nothing_keep_no_answer_out() -> None:
    async with LoopbackReceiver() as receiver:
        receiver.expect_state("s1")
        silent = [await asyncio.open_connection("127.0.0.1", _port_of(receiver)) for _ in range(40)]
        assert await _get(f"{receiver.redirect_uri}?code=1&state=s1") == 200
        for _, writer in silent:
            writer.close()


async def test_nobody_else_listens_where_a_browser_looks_for_localhost() -> None:
    with socket.socket(socket.AF_INET6) as other:
        try:
            other.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        other.listen()
        with pytest.raises(HermesError, match="::1"):
            async with LoopbackReceiver(other.getsockname()[1], host="localhost"):
                pass
    async with LoopbackReceiver(host="localhost") as receiver:
        receiver.expect_state("s1")
        assert await _get(f"http://[::1]:{_port_of(receiver)}/callback?code=1&state=s1") == 200


def _port_of(receiver: LoopbackReceiver) -> int:
    return int(receiver.redirect_uri.rpartition(":")[2].partition("/")[0])


async def _get(url: str) -> int:
    def request() -> int:
        try:
            with urllib.request.urlopen(url, timeout=20) as page:
                return int(page.status)
        except urllib.error.HTTPError as answer:
            return answer.code

    return await asyncio.to_thread(request)
