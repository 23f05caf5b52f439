"""The exchange of a lasting token, the rule for the address that it names, and how token endpoints deviate."""

import time

import pytest
from msgspec import structs

from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.code_flow import refresh_tokens
from hermes.oauth.device_flow import DeviceEndpoints, DeviceRequest, run_device_flow
from hermes.oauth.metadata import AuthorizationServer
from hermes.oauth.requests import OAuthError
from hermes.oauth.sign_in import SignIn, TokenDialect, TokenExchange
from hermes.oauth.token_exchange import _is_allowed, begin_exchange
from tests.oauth.oauth_client import CodeReader, send
from tests.vendors.sign_in_server import CLIENT, FakeVendor


async def sign_in(
    vendor: FakeVendor, reader: CodeReader, dialect: TokenDialect, endpoints: DeviceEndpoints | None = None
) -> SignIn:
    url = vendor.url
    request = DeviceRequest(
        server=AuthorizationServer(issuer=url, authorization_endpoint="", token_endpoint=f"{url}/token"),
        endpoints=endpoints or DeviceEndpoints(authorization_endpoint=f"{url}/device/code"),
        client=OAuthClient(client_id=CLIENT),
        dialect=dialect,
    )
    return await run_device_flow(request, reader, send, time.time, reader.pause)


def describe_exchange(vendor: FakeVendor, **changes: object) -> TokenExchange:
    made = TokenExchange(
        endpoint=f"{vendor.url}/exchange",
        headers={"editor-version": "an-editor/1"},
        address_path=("endpoints", "api"),
        hosts=("127.0.0.1",),
    )
    return structs.replace(made, **changes)


async def test_a_lasting_token_is_exchanged_again_and_again(vendor: FakeVendor) -> None:
    vendor.gives_lasting_tokens = True
    signed_in = await sign_in(vendor, CodeReader(), TokenDialect())
    first = await begin_exchange(signed_in, describe_exchange(vendor), send, time.time())
    assert first.refresh_token == signed_in.access_token and first.access_token not in ("", signed_in.access_token)
    assert first.address == f"{vendor.url}/v1" and first.expires_at == pytest.approx(time.time() + 1_500, abs=30)
    assert vendor.exchange_fields["editor-version"] == "an-editor/1"
    second = await refresh_tokens(first, send, time.time())
    assert second.refresh_token == first.refresh_token and second.access_token != first.access_token
    assert vendor.exchanges == 2 and first.refresh_token not in repr(first) and first.access_token not in repr(first)


@pytest.mark.parametrize("status", [401, 403, 404, 500])
async def test_what_a_refused_exchange_says_holds_no_token(vendor: FakeVendor, status: int) -> None:
    vendor.gives_lasting_tokens, vendor.exchange_status = True, status
    signed_in = await sign_in(vendor, CodeReader(), TokenDialect())
    with pytest.raises(OAuthError, match=r"No access with \[key\]") as raised:
        await begin_exchange(signed_in, describe_exchange(vendor), send, time.time())
    assert raised.value.status == status and signed_in.access_token not in str(raised.value)


@pytest.mark.parametrize(
    "named",
    [
        "https://evil.example",
        "https://api.vendor.example.evil.example",
        "https://evilvendor.example",
        "http://api.vendor.example",
        "https://api.vendor.example:8443",
        "https://user@api.vendor.example",
        "https://api.vendor.example/?to=https://evil.example",
        "https://api.vendor.example#x",
        "//api.vendor.example",
        "https://api.vendor.example\\@evil.example",
        "https://api.vendor.example evil",
        "https://vendor.example",
        "https://[::1",
        "",
    ],
)
def test_only_addresses_of_the_records_hosts_are_used(named: str) -> None:
    exchange = TokenExchange(endpoint="https://api.vendor.example/token", hosts=(".vendor.example",))
    assert not _is_allowed(named, exchange)
    for good in ("https://api.vendor.example", "https://A.b.vendor.example:443/v1"):
        assert _is_allowed(good, exchange) and not _is_allowed(good, structs.replace(exchange, hosts=()))
    assert _is_allowed("https://vendor.example", structs.replace(exchange, hosts=("vendor.example",)))


@pytest.mark.parametrize("named", ["https://evil.example", 7, ["x"], ""])
async def test_a_token_for_another_host_is_dropped(vendor: FakeVendor, named: object) -> None:
    vendor.gives_lasting_tokens = True
    signed_in = await sign_in(vendor, CodeReader(), TokenDialect())
    vendor.models_at = {"nothing": 1} if named == "" else named
    with pytest.raises(OAuthError, match="not one of the vendor"):
        await begin_exchange(signed_in, describe_exchange(vendor), send, time.time())


async def test_an_exchange_that_names_no_address_leaves_the_providers(vendor: FakeVendor) -> None:
    vendor.gives_lasting_tokens = True
    signed_in = await sign_in(vendor, CodeReader(), TokenDialect())
    nowhere = describe_exchange(vendor, address_path=("endpoints", "other"))
    assert (await begin_exchange(signed_in, nowhere, send, time.time())).address == ""


async def test_a_refresh_token_goes_into_a_header_field_where_the_vendor_wants_it(vendor: FakeVendor) -> None:
    vendor.refresh_header = "x-vendor-refresh"
    found = await sign_in(vendor, CodeReader(), TokenDialect(refresh_header="x-vendor-refresh"))
    fresh = await refresh_tokens(found, send, time.time())
    assert fresh.access_token != found.access_token and vendor.refreshes == 1
    with pytest.raises(OAuthError) as raised:
        await refresh_tokens(structs.replace(fresh, dialect=TokenDialect()), send, time.time())
    assert fresh.refresh_token not in str(raised.value)


MILLISECONDS = TokenDialect(untyped=True, milliseconds=True)


def user_code_endpoints(url: str) -> DeviceEndpoints:
    return DeviceEndpoints(
        authorization_endpoint=f"{url}/device/code", code_field="user_code", pkce=True, status_field="status"
    )


async def test_user_codes_with_pkce_states_and_milliseconds(vendor: FakeVendor) -> None:
    vendor.speaks_milliseconds, vendor.interval, vendor.life = True, 3_000, 300
    vendor.waits, reader = ["pending", "slow_down", "pending"], CodeReader()
    found = await sign_in(vendor, reader, MILLISECONDS, user_code_endpoints(vendor.url))
    assert reader.seen[0][:2] == (f"{vendor.url}/device", "WXYZ-1234")
    assert reader.seen[0][2] == pytest.approx(300, abs=30) and reader.pauses == [3, 3, 8, 8]
    assert found.expires_at == pytest.approx(time.time() + 3_600, abs=60)
    fresh = await refresh_tokens(found, send, time.time())
    assert fresh.access_token != found.access_token and fresh.expires_at == pytest.approx(time.time() + 3_600, abs=60)
    with pytest.raises(OAuthError, match="no token that can be used"):
        await refresh_tokens(structs.replace(fresh, dialect=TokenDialect()), send, time.time())


@pytest.mark.parametrize("interval", [3, 0, -1, "x", 1e300])
async def test_no_interval_makes_a_flood(vendor: FakeVendor, interval: object) -> None:
    vendor.speaks_milliseconds, vendor.interval, reader = True, interval, CodeReader()
    await sign_in(vendor, reader, MILLISECONDS, user_code_endpoints(vendor.url))
    assert reader.pauses[0] >= 1.0


async def test_another_state_and_a_no_end_it(vendor: FakeVendor) -> None:
    vendor.speaks_milliseconds, vendor.echoes_state = True, "guessed"
    with pytest.raises(OAuthError, match="its state"):
        await sign_in(vendor, CodeReader(), MILLISECONDS, user_code_endpoints(vendor.url))
    vendor.echoes_state, vendor.waits = "", ["pending", "denied"]
    with pytest.raises(OAuthError, match="was refused: denied"):
        await sign_in(vendor, CodeReader(), MILLISECONDS, user_code_endpoints(vendor.url))
    assert vendor.sign_ins == 0
