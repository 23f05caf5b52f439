"""Device codes against a vendor on loopback: by the standard, with the quirks of vendors, and their ends."""

import asyncio
import json
import time
from collections.abc import Mapping
from urllib.parse import parse_qs

import pytest

from hermes.core.errors import HermesError
from hermes.oauth.account_flow import AccountRequest, run_account_flow
from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.code_flow import read_claim, refresh_tokens
from hermes.oauth.device_flow import DeviceEndpoints, DeviceRequest, _DeviceCode, run_device_flow
from hermes.oauth.metadata import AuthorizationServer
from hermes.oauth.requests import HttpAnswer, OAuthError
from hermes.oauth.sign_in import SignIn
from tests.oauth.oauth_client import AgreeingPerson, CodeReader, send
from tests.vendors.sign_in_server import ACCOUNT, CLAIM, CLIENT, FakeVendor, make_id_token


def name_server(url: str) -> AuthorizationServer:
    return AuthorizationServer(issuer=url, authorization_endpoint=f"{url}/authorize", token_endpoint=f"{url}/token")


def standard(url: str) -> DeviceEndpoints:
    return DeviceEndpoints(authorization_endpoint=f"{url}/device/code")


def quirky(url: str) -> DeviceEndpoints:
    return DeviceEndpoints(
        authorization_endpoint=f"{url}/accounts/usercode",
        poll_endpoint=f"{url}/accounts/token",
        page=f"{url}/codex/device",
        sends_json=True,
        code_field="device_auth_id",
        pending_statuses=(403, 404),
        redirect_uri=f"{url}/device/callback",
    )


async def sign_in(vendor: FakeVendor, reader: CodeReader, endpoints: DeviceEndpoints | None = None) -> SignIn:
    request = DeviceRequest(
        server=name_server(vendor.url),
        endpoints=endpoints or standard(vendor.url),
        client=OAuthClient(client_id=CLIENT),
        account_claim=CLAIM,
    )
    return await run_device_flow(request, reader, send, time.time, reader.pause)


@pytest.mark.parametrize("as_success", [False, True])
async def test_pending_and_slow_down_are_waited_out(vendor: FakeVendor, as_success: bool) -> None:
    vendor.waits = ["authorization_pending", "slow_down", "authorization_pending", "slow_down"]
    vendor.tells_errors_as_success = as_success
    reader = CodeReader()
    found = await sign_in(vendor, reader)
    assert reader.seen == [(f"{vendor.url}/device", "WXYZ-1234", 900.0)]
    assert reader.pauses == [5, 5, 10, 10, 15]
    assert found.access_token and found.refresh_token and found.account == ACCOUNT
    assert found.expires_at == pytest.approx(time.time() + 3_600, abs=60)


async def test_a_vendor_with_every_quirk(vendor: FakeVendor) -> None:
    vendor.interval, vendor.waits = "3", ["authorization_pending", "authorization_pending"]
    reader = CodeReader()
    found = await sign_in(vendor, reader, quirky(vendor.url))
    assert reader.seen[0][:2] == (f"{vendor.url}/codex/device", "WXYZ-1234") and reader.pauses == [3, 3, 3]
    assert found.access_token and found.account == ACCOUNT and vendor.sign_ins == 1


@pytest.mark.parametrize("kind", [standard, quirky])
@pytest.mark.parametrize(
    ("code", "words"), [("access_denied", "was refused"), ("expired_token", "expired before"), ("invalid_grant", "")]
)
async def test_a_no_has_a_name(vendor: FakeVendor, code: str, words: str, kind: object) -> None:
    vendor.waits, vendor.decision = ["authorization_pending"], code
    with pytest.raises(OAuthError) as raised:
        await sign_in(vendor, CodeReader(), kind(vendor.url))  # type: ignore[operator]
    assert raised.value.code == code and words in str(raised.value) and vendor.polls == 2


async def test_a_code_that_nobody_uses_ends(vendor: FakeVendor) -> None:
    vendor.life, vendor.waits = 0.2, ["authorization_pending"] * 10_000
    with pytest.raises(OAuthError, match="expired before"):
        await sign_in(vendor, CodeReader())


async def test_a_network_that_is_away_for_a_while_ends_nothing(vendor: FakeVendor) -> None:
    reader, failures = CodeReader(), ["away", "away"]

    async def send_sometimes(method: str, url: str, **fields: object) -> object:
        if url.endswith("/token") and failures:
            raise HermesError(failures.pop())
        return await send(method, url, **fields)  # type: ignore[arg-type]

    request = DeviceRequest(
        server=name_server(vendor.url), endpoints=standard(vendor.url), client=OAuthClient(client_id=CLIENT)
    )
    found = await run_device_flow(request, reader, send_sometimes, time.time, reader.pause)  # type: ignore[arg-type]
    assert found.access_token and reader.pauses == [5, 10, 20]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("user_code", "ABCD. Then call +1 800 555 and read out your password", "no code"),
        ("user_code", "AB\x1b[2J", "no code"),
        ("user_code", "x" * 65, "no code"),
        ("verification_uri", "https://v.example/`id`", "not used"),
        ("verification_uri", "https://v.example/" + "a" * 3_000, "not used"),
        ("interval", 10**400, ""),
        ("expires_in", 10**400, ""),
    ],
)
async def test_what_a_vendor_gives_to_type_and_open(field: str, value: object, problem: str) -> None:
    told = {"device_code": "d", "user_code": "WXYZ-1", "verification_uri": "https://v.example/d", field: value}
    token = {"access_token": "t", "token_type": "bearer"}
    answers = [json.dumps(one).encode() for one in (told, token)]

    async def answer(method: str, url: str, *, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        return HttpAnswer(200, {}, answers.pop(0))

    reader, url = CodeReader(), "https://v.example"
    request = DeviceRequest(server=name_server(url), endpoints=standard(url), client=OAuthClient(client_id=CLIENT))
    if problem:
        with pytest.raises(OAuthError, match=problem):
            await run_device_flow(request, reader, answer, time.time, reader.pause)
        assert reader.seen == []
    else:
        assert (await run_device_flow(request, reader, answer, time.time, reader.pause)).access_token == "t"
        assert reader.pauses == [5.0] and reader.seen[0][2] == 900.0


async def test_a_page_elsewhere_without_tls_is_not_opened(vendor: FakeVendor) -> None:
    endpoints = DeviceEndpoints(
        authorization_endpoint=f"{vendor.url}/accounts/usercode",
        page="http://evil.example/device",
        sends_json=True,
        code_field="device_auth_id",
    )
    reader = CodeReader()
    with pytest.raises(OAuthError, match="not used"):
        await sign_in(vendor, reader, endpoints)
    assert not reader.seen


@pytest.mark.parametrize("pastes", [False, True])
async def test_the_browser_comes_back_to_the_address_of_the_client(vendor: FakeVendor, pastes: bool) -> None:
    busy = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    taken = busy.sockets[0].getsockname()[1]
    request = AccountRequest(
        server=name_server(vendor.url),
        client=OAuthClient(client_id=CLIENT),
        scope="openid offline_access",
        redirect_host="localhost",
        redirect_path="/auth/callback",
        redirect_ports=(taken, 0),
        fields={"originator": "hermes"},
        account_claim=CLAIM,
    )
    person = AgreeingPerson(pastes=pastes)
    found = await run_account_flow(request, person, send, time.time)
    assert found.access_token and found.account == ACCOUNT
    assert "originator=hermes" in person.urls[0] and "prompt=" not in person.urls[0]
    assert "redirect_uri=http%3A%2F%2Flocalhost%3A" in person.urls[0] and "%2Fauth%2Fcallback" in person.urls[0]
    with pytest.raises(HermesError, match="--device"):
        await run_account_flow(
            AccountRequest(server=request.server, client=request.client, redirect_ports=(taken,)),
            person,
            send,
            time.time,
        )
    busy.close()


async def test_an_answer_with_another_state_is_refused(vendor: FakeVendor) -> None:
    class Attacked(AgreeingPerson):
        async def show_address(self, url: str) -> None:
            self._pasted.set_result("http://127.0.0.1:1/callback?code=c&state=guessed")

    request = AccountRequest(server=name_server(vendor.url), client=OAuthClient(client_id=CLIENT))
    with pytest.raises(OAuthError, match="state"):
        await run_account_flow(request, Attacked(), send, time.time)
    assert vendor.sign_ins == 0


def test_only_a_text_that_fits_a_header_field_is_an_account() -> None:
    assert read_claim(make_id_token(), CLAIM) == ACCOUNT
    for token in ("", "a.b.c", "a.!!!.c", "a.W10.c"):
        assert read_claim(token, CLAIM) == ""
    assert read_claim(make_id_token(), ("sub", "more")) == "" == read_claim(make_id_token(), (CLAIM[0],))


async def test_nothing_of_an_attempt_is_shown_by_its_values(vendor: FakeVendor) -> None:
    found = await sign_in(vendor, CodeReader())
    assert found.access_token not in repr(found) and found.refresh_token not in repr(found)
    code = _DeviceCode(device_code="d" * 20, user_code="u", url="u", interval=1, seconds=1)
    assert "d" * 20 not in repr(code)


async def test_what_a_vendor_repeats_of_a_secret_is_not_said(vendor: FakeVendor) -> None:
    async def send_echo(_method: str, _url: str, *, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        told = parse_qs(body.decode())["refresh_token"][0]
        return HttpAnswer(400, headers, json.dumps({"error": {"code": "no", "message": f"{told} is bad"}}).encode())

    found = await sign_in(vendor, CodeReader())
    with pytest.raises(OAuthError) as raised:
        await refresh_tokens(found, send_echo, 0.0)
    assert "no: [key] is bad" in str(raised.value) and found.refresh_token not in str(raised.value)
