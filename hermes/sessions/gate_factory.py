"""The gate of a session, made of what the person's settings say."""

from collections.abc import Sequence

from hermes.config.edit import add_to_list
from hermes.config.home import Home
from hermes.config.settings import RuleSettings, Settings
from hermes.config.trusted import TrustFile
from hermes.core.errors import ConfigError
from hermes.safety.policy import Rule, checked
from hermes.safety.shell.findings import Verdict
from hermes.sessions.backend_factory import BACKENDS
from hermes.sessions.options import Options
from hermes.tools.permissions.policy_gate import Policy, RuleGate

MODES = ("ask", "smart", "off")
PLACES = tuple(one for one in BACKENDS if one != "auto")
"""The back ends by the names that they have where they run."""
_OLD_MODES = {"manual": "ask", "on": "ask"}
ALLOWLIST = "command_allowlist"


def mode_of(settings: Settings) -> str:
    """The mode of approvals. Raises ConfigError for one that does not exist: a guess could be a yes."""
    named = settings.approvals.mode
    mode = _OLD_MODES.get(named, named)
    if mode not in MODES:
        raise ConfigError(f"There is no mode {named!r} of approvals.", "Set approvals.mode to ask, smart or off.")
    where = settings.approvals.off_in
    if where and where not in PLACES:
        from hermes.plugins import suggestion

        raise ConfigError(
            f"approvals.off_in: no back end is called {where!r}.",
            f"{suggestion(where, PLACES)} Possible: {', '.join(PLACES)}.".strip(),
        )
    if mode == "off" and not settings.approvals.off_in:
        raise ConfigError(
            "approvals.mode off needs the name of the back end in which nothing is asked.",
            "Set approvals.off_in, for instance to sandbox, or the mode to ask.",
        )
    return mode


def policy_of(settings: Settings, options: Options) -> Policy:
    """The person's policy. Raises ConfigError for a rule that cannot be what its writer meant."""
    return Policy(
        allow=tuple(pattern.strip() for pattern in (*settings.command_allowlist, *options.allow)),
        rules=checked([_rule(one) for one in settings.approvals.rules], "approvals.rules"),
        hosts=settings.security.allowed_hosts,
        off_in=settings.approvals.off_in if mode_of(settings) == "off" else "",
    )


def session_gate(home: Home, settings: Settings, options: Options) -> RuleGate:
    """A gate for one session. An answer "always" is written into the home's `config.yaml`."""

    async def remember(patterns: Sequence[str]) -> None:
        home.ensure()
        add_to_list(home.config_file, ALLOWLIST, patterns)

    watched = TrustFile(home.trust_file)
    return RuleGate(policy_of(settings, options), remember=remember, vouched=watched.vouches)


def _rule(one: RuleSettings) -> Rule:
    try:
        verdict = Verdict(one.verdict)
    except ValueError:
        raise ConfigError(
            f"approvals.rules: there is no verdict {one.verdict!r}.", "It is allow, ask or deny."
        ) from None
    return Rule(pattern=one.pattern, verdict=verdict, reason=one.reason, match=one.match, no_match=one.no_match)
