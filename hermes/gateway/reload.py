"""Settings that are read anew while the gateway runs: which accounts go, come, and change."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from hermes.config.environment import with_dotenv
from hermes.config.load import load_settings
from hermes.gateway.accounts import Account, Plan, plans_of
from hermes.sessions.app import App


class Change(Struct, frozen=True):
    """What is to become of the accounts. One that changed is gone and fresh; a line for each that cannot be used, which
    stays as it is."""

    gone: Sequence[str]
    fresh: Sequence[Plan]
    wrong: Sequence[str]

    @property
    def names(self) -> list[str]:
        """Those that something becomes of."""
        return list(dict.fromkeys([*self.gone, *(plan.name for plan in self.fresh)]))


def read_anew(app: App, accounts: Mapping[str, Account]) -> Change:
    """Read `platforms` and `gateway` of the settings, which hold from now on; the rest holds from the next start.

    Raises ConfigError for settings that cannot be used; then nothing has changed.
    """
    on = app.premises
    settings = load_settings(on.home).settings
    plans, wrong = plans_of(settings.platforms, with_dotenv(on.process, on.home.env_file))
    on.settings = structs.replace(on.settings, platforms=settings.platforms, gateway=settings.gateway)
    wanted = {plan.name: plan for plan in plans}
    on_now = {name for name, given in settings.platforms.items() if given.get("enabled", True)}
    kept = on_now.difference(wanted)  # it is set up in a way that cannot be used
    gone = [name for name, one in accounts.items() if name not in kept and wanted.get(name) != one.plan]
    fresh = [plan for plan in plans if plan.name not in accounts or plan.name in gone]
    return Change(gone, fresh, wrong)
