"""Vendors that people sign in to with a subscription, as data; what a person says in `sign_in:` goes before it.

The client ids below are those of the vendors' own public programs: no secret, and no promise that others may use them.
So each record names the vendor's terms and a sentence that is shown before a sign-in, and a client id of one's own goes
first. A vendor whose terms keep the login to its own programs has no endpoints here, only the page that says so.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_plain
from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name


class SignInVendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vendor to sign in to. Members of `device_` are as in `hermes.oauth.device_flow.DeviceEndpoints`."""

    title: str = ""
    provider: str = ""
    """The provider whose models the sign-in is for."""
    terms: str = ""
    """The page with the vendor's terms."""
    notice: str = ""
    """A sentence that is shown before the sign-in."""
    client_id: str = ""
    scope: str = ""
    issuer: str = ""
    """Who answers, as its answers name it; empty: the token endpoint's origin."""
    authorization_endpoint: str = ""
    """Where the browser is sent to; empty: there are only device codes."""
    token_endpoint: str = ""
    redirect_host: str = "127.0.0.1"
    redirect_path: str = "/callback"
    redirect_ports: tuple[int, ...] = (0,)
    fields: Mapping[str, str] = {}
    """Further fields of the browser's address."""
    account_claim: tuple[str, ...] = ()
    """Where the id token names the account."""
    device_endpoint: str = ""
    """Where device codes are given; empty: there is only the browser."""
    device_poll_endpoint: str = ""
    device_page: str = ""
    device_sends_json: bool = False
    device_code_field: str = "device_code"
    device_pending_statuses: tuple[int, ...] = ()
    device_redirect_uri: str = ""

    def build_refusal(self) -> ConfigError:
        """Return the error of a vendor that is not signed in to."""
        return ConfigError(
            N_("{notice} ({page})", notice=self.notice, page=self.terms),
            N_("Use a key of the vendor's console: hermes auth add {provider}", provider=self.provider),
        )


_OPENAI = "https://auth.openai.com"
_XAI = "https://auth.x.ai"

VENDORS: dict[str, SignInVendor] = {
    "openai": SignInVendor(
        title="OpenAI (ChatGPT)",
        provider="codex",
        terms="https://openai.com/policies/terms-of-use/",
        notice=N_(
            "This signs in as OpenAI's own program Codex does; OpenAI documents no such sign-in for other programs, so "
            "it can end at any time."
        ),
        client_id="app_EMoamEEZ73f0CkXaXp7hrann",
        scope="openid profile email offline_access",
        issuer=_OPENAI,
        authorization_endpoint=f"{_OPENAI}/oauth/authorize",
        token_endpoint=f"{_OPENAI}/oauth/token",
        redirect_host="localhost",
        redirect_path="/auth/callback",
        redirect_ports=(1455, 1457),
        fields={
            "id_token_add_organizations": "true",
            "codex_cli_simplified_flow": "true",
            "originator": "hermes",
        },
        account_claim=("https://api.openai.com/auth", "chatgpt_account_id"),
        device_endpoint=f"{_OPENAI}/api/accounts/deviceauth/usercode",
        device_poll_endpoint=f"{_OPENAI}/api/accounts/deviceauth/token",
        device_page=f"{_OPENAI}/codex/device",
        device_sends_json=True,
        device_code_field="device_auth_id",
        device_pending_statuses=(403, 404),
        device_redirect_uri=f"{_OPENAI}/deviceauth/callback",
    ),
    "xai": SignInVendor(
        title="xAI (Grok)",
        provider="xai",
        terms="https://x.ai/legal/terms-of-service",
        notice=N_(
            "This signs in as xAI's own program Grok does; xAI documents no such sign-in for other programs, so it can "
            "end at any time, and smaller plans are reported to be refused (403)."
        ),
        client_id="b1a00492-073a-47ea-816f-4c329264a828",
        scope="openid profile email offline_access grok-cli:access api:access",
        issuer=_XAI,
        token_endpoint=f"{_XAI}/oauth2/token",
        device_endpoint=f"{_XAI}/oauth2/device/code",
    ),
    "anthropic": SignInVendor(
        title="Anthropic",
        provider="anthropic",
        terms="https://code.claude.com/docs/en/legal-and-compliance, as of 2026-02-19",
        notice=N_(
            "Anthropic keeps the login of Claude subscriptions to its own programs: its tokens (sk-ant-oat...) may be "
            "used in no other one."
        ),
    ),
}
"""The vendors by the names that `hermes auth login` takes."""
REFUSED = frozenset({"anthropic"})
"""Providers whose vendors keep their login to their own programs, by their terms."""
ALIASES = {"chatgpt": "openai", "codex": "openai", "openai-codex": "openai", "claude": "anthropic", "grok": "xai"}


def find_vendor(name: str, settings: Mapping[str, Mapping[str, object]]) -> tuple[str, SignInVendor]:
    """Return a vendor's own name and its record, with what the settings say of it. Raises ConfigError, UsageError.

    One whose terms keep the login to its own programs is refused, whatever the settings say.
    """
    wanted = name.strip().lower()
    wanted = wanted if wanted in settings else ALIASES.get(wanted, wanted)
    known, own = VENDORS.get(wanted), settings.get(wanted, {})
    if known is None and not own:
        names = [*VENDORS, *settings]
        raise UsageError(
            N_("There is no sign-in to {name}.", name=repr(name[:60])),
            suggest_name(wanted, names)
            or N_("Known are: {names}.", names=", ".join(one for one in names if one not in REFUSED)),
        )
    base = known or SignInVendor(title=wanted, provider=wanted)
    try:
        found = msgspec.convert({**_describe(base), **own}, SignInVendor)
    except msgspec.ValidationError as error:
        raise ConfigError(
            N_("sign_in.{name}: {error}.", name=wanted, error=error), N_("Fix it in config.yaml.")
        ) from None
    if wanted in REFUSED or found.provider in REFUSED:
        raise VENDORS["anthropic"].build_refusal()
    return wanted, found


def _describe(vendor: SignInVendor) -> dict[str, object]:
    found = to_plain(vendor)
    assert isinstance(found, dict)
    return dict(found)
