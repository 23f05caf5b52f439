"""Sign-ins to vendors with a subscription: made, listed, ended. Nothing here shows a token."""

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from hermes.admin.config import locate_writable_home
from hermes.config.auth_file import AuthEntry, add_entry, read_entries, remove_entry
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.settings import Settings, TokenPlace
from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import N_
from hermes.oauth.account_flow import AccountRequest, run_account_flow
from hermes.oauth.client_registration import OAuthClient
from hermes.oauth.device_flow import DeviceEndpoints, DevicePerson, DeviceRequest, run_device_flow
from hermes.oauth.metadata import AuthorizationServer, origin_of
from hermes.oauth.requests import check_endpoint, is_loopback_url
from hermes.oauth.sign_in import SignIn, TokenDialect, TokenExchange
from hermes.oauth.sign_in_flow import SignInPerson
from hermes.oauth.token_exchange import begin_exchange
from hermes.oauth.token_keeper import TokenKeeper
from hermes.oauth.token_store import TokenStore
from hermes.oauth.token_vault import TokenVaultError
from hermes.providers.sign_in_vendors import SignInVendor, find_vendor
from hermes.sessions.model.credentials import load_known_record, make_account_sender

OAUTH_KIND = "oauth"
_LOCK_SECONDS = 45.0
"""Seconds to wait for a process that refreshes: longer than its request may take."""


class AccountPerson(SignInPerson, DevicePerson, Protocol):
    """The person who signs in, in a browser or with a code."""


class SignInPlan(Struct, frozen=True, kw_only=True):
    """A sign-in that is about to be made."""

    name: str
    vendor: SignInVendor
    base_url: str
    """Where the tokens will go to, and nowhere else, unless an exchange names another host of the vendor."""
    default_model: str = ""
    """The model of the provider where none is named; empty: one has to be."""
    by_device: bool


class SignInState(Struct, frozen=True, kw_only=True):
    """What is known of a sign-in, without its tokens. `state` is `ready` or `dead`."""

    state: str
    reason: str = ""
    until: float | None = None
    """When the access token ends; it is refreshed before."""


def name_account(vendor: str) -> str:
    """Return the name that a vendor's sign-in has in the store of tokens."""
    return f"account:{vendor}"


def plan_sign_in(environ: Mapping[str, str], name: str, *, by_device: bool) -> SignInPlan:
    """Return what a sign-in would be, before anything is asked or sent. Raises ConfigError and UsageError: no such
    vendor, one whose terms keep the login to its own programs, a record that lacks something, or no such way.
    """
    home = locate_writable_home(environ)
    settings = load_settings(home).settings
    own_name, vendor = find_vendor(name, settings.sign_in)
    record = load_known_record(vendor.provider, home, settings)
    check_vendor(own_name, vendor, record.base_url)
    if by_device and not vendor.device_endpoint:
        raise UsageError(N_("{title} gives no device codes.", title=vendor.title), N_("Leave --device out."))
    if not vendor.authorization_endpoint and not vendor.device_endpoint:
        raise ConfigError(N_("sign_in.{name} names neither a page nor device codes.", name=own_name))
    return SignInPlan(
        name=own_name,
        vendor=vendor,
        base_url=record.base_url,
        default_model=record.default_model,
        by_device=by_device or not vendor.authorization_endpoint,
    )


def check_vendor(name: str, vendor: SignInVendor, base_url: str) -> None:
    """Raise ConfigError for a vendor that is switched off, or lacks something, OAuthError for an address that no secret
    may be sent to.
    """
    _check_choice(name, vendor)
    missing = [one for one in ("client_id", "token_endpoint") if not getattr(vendor, one)]
    if missing or not base_url:
        raise ConfigError(
            N_(
                "sign_in.{name} lacks: {missing}.",
                name=name,
                missing=", ".join(missing) or f"providers.{vendor.provider}.base_url",
            ),
            N_("`docs/sign-in.md` tells what belongs there."),
        )
    _check_addresses(vendor, base_url)


def _check_choice(name: str, vendor: SignInVendor) -> None:
    """Raise ConfigError for a vendor that is only there for who says so, or that wants a client of one's own."""
    if not vendor.enabled:
        raise ConfigError(
            vendor.off_because or N_("The sign-in to {name} is switched off.", name=vendor.title),
            N_("This line of config.yaml switches it on: {line}", line=f"sign_in: {{{name}: {{enabled: true}}}}"),
        )
    if vendor.no_client_because and not vendor.client_id:
        raise ConfigError(vendor.no_client_because)


def _check_addresses(vendor: SignInVendor, base_url: str) -> None:
    """Raise OAuthError for an address that no secret may be sent to."""
    check_endpoint(base_url, allows_loopback=True)
    for url in (
        vendor.authorization_endpoint,
        vendor.token_endpoint,
        vendor.device_endpoint,
        vendor.device_poll_endpoint,
        vendor.exchange_endpoint,
    ):
        if url:
            check_endpoint(url, allows_loopback=is_loopback_url(base_url))


class SignInDone(Struct, frozen=True, kw_only=True):
    """A sign-in that was made."""

    label: str
    """What the account is called in the list of keys."""
    notice: str = ""
    """Why its tokens are in the file although the person wants them in the keyring; empty: they are where they should
    be."""


async def sign_in(environ: Mapping[str, str], plan: SignInPlan, person: AccountPerson) -> SignInDone:
    """Sign the person in, store the tokens and make the account an entry of the provider's keys.

    Raises HermesError. An earlier sign-in to the same vendor is replaced.
    """
    home = locate_writable_home(environ)
    settings = load_settings(home).settings
    send = make_account_sender(merge_dotenv(environ, home.env_file), settings)
    if plan.by_device:
        found = await run_device_flow(_build_device_request(plan.vendor), person, send, time.time)
    else:
        found = await run_account_flow(_build_account_request(plan.vendor), person, send, time.time)
    if plan.vendor.exchange_endpoint:
        found = await begin_exchange(found, _build_exchange(plan.vendor), send, time.time())
    home.ensure_exists()
    store = open_token_store(home, settings)
    await TokenKeeper(store, name_account(plan.name), send, time.time).store_sign_in(found)
    return SignInDone(
        label=store_entry(home, plan, found), notice=store.list_fallbacks().get(name_account(plan.name), "")
    )


async def sign_out(environ: Mapping[str, str], name: str) -> bool:
    """Delete a vendor's tokens and its entry; return whether there were any. Raises HermesError.

    A vendor that is gone from the settings can be signed out from, too.
    """
    home = locate_writable_home(environ)
    rows = [
        (provider, entry)
        for provider, entries in read_entries(home).items()
        for entry in entries
        if entry.kind == OAUTH_KIND
    ]
    own_name = name.strip().lower()
    if not any(entry.user == own_name for _, entry in rows):
        own_name, _ = find_vendor(name, load_settings(home).settings.sign_in)
    found = [(provider, entry.id) for provider, entry in rows if entry.user == own_name]
    store, account = open_token_store(home), name_account(own_name)
    has_tokens = account in store.list_names()
    if has_tokens:
        async with store.hold_refresh_lock(account, _LOCK_SECONDS):  # a refresh that ends later would bring it back
            await asyncio.to_thread(store.delete, account)
    for provider, entry_id in found:
        remove_entry(home, provider, entry_id)
    return has_tokens or bool(found)


def read_sign_in_state(home: HermesHome, vendor: str) -> SignInState:
    """Return what is stored of a sign-in. Raises ConfigError for a file that cannot be read."""
    try:
        found = open_token_store(home).read(name_account(vendor))
    except TokenVaultError as error:
        return SignInState(state="dead", reason=error.message.rstrip("."))
    if found is None or not (found.access_token or found.refresh_token):
        why = found.ended_because if found is not None else ""
        return SignInState(state="dead", reason=why or N_("nobody is signed in"))
    return SignInState(state="ready", until=found.expires_at or None)


def open_token_store(home: HermesHome, settings: Settings | None = None) -> TokenStore:
    """Return the store of a home's tokens; with settings, new sign-ins go where the person wants them."""
    prefers_keyring = settings is not None and settings.token_store is TokenPlace.KEYRING
    return TokenStore(home.oauth_file, home.locks, prefers_keyring=prefers_keyring)


def store_entry(home: HermesHome, plan: SignInPlan, found: SignIn) -> str:
    """Store the entry that makes the account one of the provider's keys; return its label."""
    provider, label = plan.vendor.provider, plan.vendor.title
    entries = read_entries(home).get(provider, ())
    for old in entries:
        if old.kind == OAUTH_KIND and old.user == plan.name:
            remove_entry(home, provider, old.id)
    entry = AuthEntry(
        id=os.urandom(6).hex(),
        kind=OAUTH_KIND,
        label=label,
        organisation=found.account,
        name=name_account(plan.name),
        service=plan.base_url,
        user=plan.name,
    )
    add_entry(home, provider, entry)
    return label


def _build_account_request(vendor: SignInVendor) -> AccountRequest:
    return AccountRequest(
        server=_build_server(vendor),
        client=OAuthClient(client_id=vendor.client_id),
        scope=vendor.scope,
        redirect_host=vendor.redirect_host,
        redirect_path=vendor.redirect_path,
        redirect_ports=vendor.redirect_ports,
        fields=vendor.fields,
        account_claim=vendor.account_claim,
        dialect=build_dialect(vendor),
    )


def _build_device_request(vendor: SignInVendor) -> DeviceRequest:
    endpoints = DeviceEndpoints(
        authorization_endpoint=vendor.device_endpoint,
        poll_endpoint=vendor.device_poll_endpoint,
        page=vendor.device_page,
        sends_json=vendor.device_sends_json,
        code_field=vendor.device_code_field,
        pending_statuses=vendor.device_pending_statuses,
        redirect_uri=vendor.device_redirect_uri,
        pkce=vendor.device_pkce,
        status_field=vendor.device_status_field,
    )
    return DeviceRequest(
        server=_build_server(vendor),
        endpoints=endpoints,
        client=OAuthClient(client_id=vendor.client_id),
        scope=vendor.scope,
        account_claim=vendor.account_claim,
        dialect=build_dialect(vendor),
    )


def build_dialect(vendor: SignInVendor) -> TokenDialect:
    """Return how a vendor's token endpoint deviates from the standard."""
    return TokenDialect(refresh_header=vendor.refresh_header, untyped=vendor.untyped, milliseconds=vendor.milliseconds)


def _build_exchange(vendor: SignInVendor) -> TokenExchange:
    return TokenExchange(
        endpoint=vendor.exchange_endpoint,
        headers=vendor.exchange_headers,
        token_path=vendor.exchange_token_path,
        end_path=vendor.exchange_end_path,
        address_path=vendor.exchange_address_path,
        hosts=vendor.exchange_hosts,
    )


def _build_server(vendor: SignInVendor) -> AuthorizationServer:
    return AuthorizationServer(
        issuer=vendor.issuer or origin_of(vendor.token_endpoint),
        authorization_endpoint=vendor.authorization_endpoint,
        token_endpoint=vendor.token_endpoint,
    )
