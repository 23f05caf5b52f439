"""What a reload of the settings says: what changed, what cannot be used, and what waits for a restart."""

from collections.abc import Sequence

from msgspec import Struct

from hermes.config.settings import Settings
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_


class ReloadOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a reload: a sentence, lines about what is wrong or waits, and the exit code for who asked."""

    said: str
    notices: Sequence[str] = ()
    code: int = 0


def reject_settings(error: ConfigError) -> ReloadOutcome:
    """Return the outcome of a reload of settings that cannot be used."""
    said = N_("The settings cannot be used, and nothing was changed: {why}", why=str(error))
    return ReloadOutcome(said=said, code=ConfigError.exit_code)


def describe_reload(
    before: Settings, after: Settings, *, accounts: Sequence[str], wrong: Sequence[str], working: int
) -> ReloadOutcome:
    """Describe a reload: the accounts that changed, the lines about those that cannot be used, the sessions at work."""
    sections = ", ".join(one for one in _list_changed_sections(before, after) if one != "platforms")
    said = N_(
        "Reloaded. Accounts that changed: {accounts}. Other settings that changed: {sections}.",
        accounts=", ".join(accounts) or N_("none"),
        sections=sections or N_("none"),
    )
    notices = list(wrong)
    if waiting := list_waiting_settings(before, after):
        notices.append(N_("Only a restart applies: {names}.", names=", ".join(waiting)))
    if working and sections:
        notices.append(N_("Sessions at work keep the settings of before until their turn has ended: {n}.", n=working))
    return ReloadOutcome(said=said, notices=notices, code=ConfigError.exit_code if wrong else 0)


def _list_changed_sections(before: Settings, after: Settings) -> list[str]:
    return [name for name in Settings.__struct_fields__ if getattr(before, name) != getattr(after, name)]


def list_waiting_settings(before: Settings, after: Settings) -> list[str]:
    """Return the settings that differ and are read only once, when the gateway starts."""
    read_once = {
        "cron.max_running": (before.cron.max_running, after.cron.max_running),
        "display.language": (before.display.language, after.display.language),
        "gateway.cwd": (before.gateway.cwd, after.gateway.cwd),
        "gateway.metrics": (before.gateway.metrics, after.gateway.metrics),
        "gateway.metrics_token": (before.gateway.metrics_token, after.gateway.metrics_token),
        "model.ca_bundle": (before.model.ca_bundle, after.model.ca_bundle),
    }
    return [name for name, (old, new) in read_once.items() if old != new]
