"""Reloading of settings while the gateway runs: which accounts are closed, opened, and changed."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from hermes.config.environment import with_dotenv
from hermes.config.load import load_settings
from hermes.gateway.accounts import AccountPlan, PlatformAccount, plan_accounts
from hermes.sessions.app import App


class AccountChanges(Struct, frozen=True):
    """The changes to the accounts. A changed account is both `gone` and `fresh`; `config_problems` has a line for
    each that cannot be used, which stays as it is.
    """

    gone: Sequence[str]
    fresh: Sequence[AccountPlan]
    config_problems: Sequence[str]

    @property
    def names(self) -> list[str]:
        """The names of the accounts that change."""
        return list(dict.fromkeys([*self.gone, *(plan.name for plan in self.fresh)]))


def reload_plans(app: App, accounts: Mapping[str, PlatformAccount]) -> AccountChanges:
    """Read `platforms` and `gateway` of the settings, which apply from now on; the rest applies at the next start.

    Raises ConfigError for settings that cannot be used; then nothing has changed.
    """
    services = app.services
    settings = load_settings(services.home).settings
    plans, wrong = plan_accounts(settings.platforms, with_dotenv(services.process_environ, services.home.env_file))
    services.settings = structs.replace(services.settings, platforms=settings.platforms, gateway=settings.gateway)
    wanted = {plan.name: plan for plan in plans}
    on_now = {name for name, given in settings.platforms.items() if given.get("enabled", True)}
    kept = on_now.difference(wanted)  # it is set up in a way that cannot be used
    gone = [name for name, one in accounts.items() if name not in kept and wanted.get(name) != one.plan]
    fresh = [plan for plan in plans if plan.name not in accounts or plan.name in gone]
    return AccountChanges(gone, fresh, wrong)
