"""Vendors that people sign in to with a subscription, as data; what a person says in `sign_in:` goes before it.

The client ids below are those of the vendors' own public programs: no secret, and no promise that others may use them.
So each record names the vendor's terms and a sentence that is shown before a sign-in, and a client id of one's own goes
first. A vendor whose terms keep the login to its own programs has no endpoints here, only the page that says so.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_plain
from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.providers.catalog.copilot import RECORD as COPILOT


class SignInVendor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vendor to sign in to. Members of `device_` are as in `hermes.oauth.device_flow.DeviceEndpoints`."""

    title: str = ""
    provider: str = ""
    """The provider whose models the sign-in is for."""
    terms: str = ""
    """The page with the vendor's terms."""
    notice: str = ""
    """A sentence that is shown before the sign-in."""
    enabled: bool = True
    """Whether it is offered; some are only when the person says so."""
    off_because: str = ""
    """Why it is not offered otherwise."""
    client_id: str = ""
    no_client_because: str = ""
    """Why there is no client id here, and what to do."""
    domain: str = ""
    """What stands for `{domain}` in the addresses and hosts below."""
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
    device_pkce: bool = False
    device_status_field: str = ""
    refresh_header: str = ""
    """This and the next two are as in `hermes.oauth.sign_in.TokenDialect`."""
    untyped: bool = False
    milliseconds: bool = False
    exchange_endpoint: str = ""
    """Where the token is exchanged for one that the models take, as in `hermes.oauth.sign_in.TokenExchange`; empty: it
    is such a one."""
    exchange_headers: Mapping[str, str] = {}
    exchange_token_path: tuple[str, ...] = ("token",)
    exchange_end_path: tuple[str, ...] = ("expires_at",)
    exchange_address_path: tuple[str, ...] = ()
    exchange_hosts: tuple[str, ...] = ()
    import_program: str = ""
    """Another program whose login with the same client can be taken over."""
    import_file: str = ""
    """Its file, below the person's home (`~/`), or of that name in the folder that `import_variable` names."""
    import_variable: str = ""
    import_access_path: tuple[str, ...] = ("access_token",)
    """Where the file holds the access token: names of members, from the outside in. The next three are such, too."""
    import_refresh_path: tuple[str, ...] = ("refresh_token",)
    import_id_token_path: tuple[str, ...] = ()
    import_account_path: tuple[str, ...] = ()

    def build_refusal(self) -> ConfigError:
        """Return the error of a vendor that is not signed in to."""
        return ConfigError(
            N_("{notice} ({page})", notice=self.notice, page=self.terms),
            N_("Use a key of the vendor's console: hermes auth add {provider}", provider=self.provider),
        )


_OPENAI = "https://auth.openai.com"
_XAI = "https://auth.x.ai"
_NOUS = "https://portal.nousresearch.com"


def _describe_minimax(title: str, provider: str, account: str, terms: str) -> SignInVendor:
    """Return the record of one of MiniMax's regions: accounts and tokens of one are worth nothing in the other."""
    return SignInVendor(
        title=title,
        provider=provider,
        terms=terms,
        notice=N_(
            "This signs in as MiniMax's own program mmx does; MiniMax documents no such sign-in for other programs, so "
            "it can end at any time."
        ),
        client_id="659cf4c1-615c-45f6-a5f6-4bf15eb476e5",
        scope="openid profile coding_plan",
        issuer=account,
        token_endpoint=f"{account}/oauth2/token",
        device_endpoint=f"{account}/oauth2/device/code",
        device_code_field="user_code",
        device_pkce=True,
        device_status_field="status",
        untyped=True,
        milliseconds=True,
    )


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
        import_program="Codex",
        import_file="~/.codex/auth.json",
        import_variable="CODEX_HOME",
        import_access_path=("tokens", "access_token"),
        import_refresh_path=("tokens", "refresh_token"),
        import_id_token_path=("tokens", "id_token"),
        import_account_path=("tokens", "account_id"),
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
    "github-copilot": SignInVendor(
        title="GitHub Copilot",
        provider="copilot",
        terms="https://docs.github.com/en/site-policy/github-terms/github-terms-for-additional-products-and-features",
        notice=N_(
            "This signs in as GitHub's own Copilot Chat does; GitHub documents no such sign-in for other programs, is "
            "reported to refuse those that it does not know, and can end it at any time."
        ),
        enabled=False,
        off_because=N_(
            "The address that turns a sign-in at GitHub into a token for Copilot's models is documented nowhere, so it "
            "is used only for who says so."
        ),
        client_id="Iv1.b507a08c87ecfe98",
        scope="read:user",
        domain="github.com",
        issuer="https://{domain}",
        token_endpoint="https://{domain}/login/oauth/access_token",  # noqa: S106 - an address
        device_endpoint="https://{domain}/login/device/code",
        exchange_endpoint="https://api.{domain}/copilot_internal/v2/token",
        exchange_headers=COPILOT.quirks.extra_headers,
        exchange_address_path=("endpoints", "api"),
        exchange_hosts=("api.githubcopilot.com", ".githubcopilot.com", "copilot-api.{domain}"),
    ),
    "nous": SignInVendor(
        title="Nous Research",
        provider="nous",
        terms=f"{_NOUS}/terms",
        notice=N_("This signs in to the portal of Nous Research with the client that you have named."),
        no_client_because=N_(
            "Nous Research documents no client for other programs: ask it for one, and write its id into config.yaml "
            "as sign_in.nous.client_id. A key of the portal works without: hermes auth add nous"
        ),
        scope="inference:invoke",
        issuer=_NOUS,
        token_endpoint=f"{_NOUS}/api/oauth/token",
        device_endpoint=f"{_NOUS}/api/oauth/device/code",
        refresh_header="x-nous-refresh-token",
    ),
    "minimax": _describe_minimax(
        "MiniMax",
        "minimax_plan",
        "https://account.minimax.io",
        "https://platform.minimax.io/protocol/terms-of-service",
    ),
    "minimax-cn": _describe_minimax(
        "MiniMax (China)",
        "minimax_plan_cn",
        "https://account.minimaxi.com",
        "https://platform.minimaxi.com/protocol/user-agreement",
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
ALIASES = {
    "chatgpt": "openai",
    "claude": "anthropic",
    "codex": "openai",
    "copilot": "github-copilot",
    "grok": "xai",
    "nousresearch": "nous",
    "openai-codex": "openai",
}
_DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


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
    return wanted, _fill_domain(wanted, found)


def _fill_domain(name: str, vendor: SignInVendor) -> SignInVendor:
    """Return the record with its domain in the addresses and hosts. Raises ConfigError for what is no domain."""
    if not vendor.domain:
        return vendor
    domain = vendor.domain.strip().lower()
    if not _DOMAIN.fullmatch(domain):
        raise ConfigError(
            N_("sign_in.{name}: {domain} is not the name of a host.", name=name, domain=repr(vendor.domain[:60])),
            N_("Fix it in config.yaml."),
        )
    fields = structs.asdict(vendor)
    filled = {one: text.replace("{domain}", domain) for one, text in fields.items() if isinstance(text, str)}
    hosts = tuple(host.replace("{domain}", domain) for host in vendor.exchange_hosts)
    return structs.replace(vendor, **filled, exchange_hosts=hosts)


def _describe(vendor: SignInVendor) -> dict[str, object]:
    found = to_plain(vendor)
    assert isinstance(found, dict)
    return dict(found)
