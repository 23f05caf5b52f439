"""Build a session's permission gate from the settings."""

from collections.abc import Sequence

from hermes.config.home import HermesHome
from hermes.config.settings import RuleSettings, Settings
from hermes.config.trusted_folders import TrustFile
from hermes.core.errors import ConfigError
from hermes.safety.policy import PolicyRule, check_rules
from hermes.safety.shell.findings import Verdict
from hermes.sessions.backend_factory import BACKENDS
from hermes.sessions.options import SessionOptions
from hermes.tools.permissions.policy_gate import ApprovalPolicy, PolicyGate

APPROVAL_MODES = ("ask", "smart", "off")


BACKEND_NAMES = tuple(one for one in BACKENDS if one != "auto")
"""The back ends by their names at run time."""


_LEGACY_MODES = {"manual": "ask", "on": "ask"}


ALLOWLIST = "command_allowlist"


def approval_mode(settings: Settings) -> str:
    """Return the approval mode. Raises ConfigError for an unknown mode, because a guess could approve something."""
    named = settings.approvals.mode
    mode = _LEGACY_MODES.get(named, named)
    if mode not in APPROVAL_MODES:
        raise ConfigError(f"There is no mode {named!r} of approvals.", "Set approvals.mode to ask, smart or off.")
    where = settings.approvals.off_in
    if where and where not in BACKEND_NAMES:
        from hermes.plugins import suggest_name

        raise ConfigError(
            f"approvals.off_in: no back end is called {where!r}.",
            f"{suggest_name(where, BACKEND_NAMES)} Possible: {', '.join(BACKEND_NAMES)}.".strip(),
        )
    if mode == "off" and not settings.approvals.off_in:
        raise ConfigError(
            "approvals.mode off needs the name of the back end in which nothing is asked.",
            "Set approvals.off_in, for instance to sandbox, or the mode to ask.",
        )
    return mode


def build_policy(settings: Settings, options: SessionOptions) -> ApprovalPolicy:
    """Build the user's approval policy. Raises ConfigError for a rule that cannot mean what its author intended."""
    return ApprovalPolicy(
        allow=tuple(pattern.strip() for pattern in (*settings.command_allowlist, *options.allow)),
        rules=check_rules([_parse_rule(one) for one in settings.approvals.rules], "approvals.rules"),
        hosts=settings.security.allowed_hosts,
        off_in=settings.approvals.off_in if approval_mode(settings) == "off" else "",
    )


def build_session_gate(home: HermesHome, settings: Settings, options: SessionOptions) -> PolicyGate:
    """Build the gate of one session. An answer "always" is written into the home's `config.yaml`."""

    async def remember(patterns: Sequence[str]) -> None:
        home.ensure_exists()
        from hermes.config.yaml_edit import add_to_list

        add_to_list(home.config_file, ALLOWLIST, patterns)

    watched = TrustFile(home.trust_file)
    return PolicyGate(build_policy(settings, options), remember=remember, is_trusted=watched.is_trusted_folder)


def _parse_rule(one: RuleSettings) -> PolicyRule:
    try:
        verdict = Verdict(one.verdict)
    except ValueError:
        raise ConfigError(
            f"approvals.rules: there is no verdict {one.verdict!r}.", "It is allow, ask or deny."
        ) from None
    return PolicyRule(pattern=one.pattern, verdict=verdict, reason=one.reason, match=one.match, no_match=one.no_match)
