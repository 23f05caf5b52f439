"""The table of what commands see of this machine, for `hermes doctor`: each place with the reason why it is so."""

from collections.abc import Mapping

from msgspec import Struct

from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.execution.base import NetworkMode
from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.policy import build_layout, layout_rows
from hermes.execution.sandbox.settings_copies import find_copied_settings
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.sessions.backend_factory import BackendFactory, resolve_places


class SandboxPlace(Struct, frozen=True):
    """A place as commands see it: `hidden`, `read`, `write` or `private`, and why."""

    path: str
    access: str
    reason: str


def list_sandbox_places(environ: Mapping[str, str], folder: str) -> list[SandboxPlace]:
    """Return the derived table for sessions in a folder. Raises ConfigError for settings that cannot be used."""
    home = locate_home(environ)
    settings = load_settings(home).settings
    factory = BackendFactory(environ, settings, lambda: Supervisors(environ))
    policy = factory.make_sandbox_policy(resolve_places(environ, home, folder), NetworkMode.OFF)
    reasons = {row.path: row.reason for row in layout_rows(policy)}
    layout = build_layout(policy)
    found = [
        SandboxPlace(path, access.name.lower(), reasons.get(path, "")) for path, access in layout.access_by_path.items()
    ]
    copied = find_copied_settings(policy.places.home, environ) if policy.readable else ()
    found += [SandboxPlace(path, "cleaned", N_("a copy without keys and helpers")) for path in copied]
    return sorted(found, key=lambda one: one.path)


def summarize_places(places: list[SandboxPlace]) -> str:
    """Return one line about the table."""
    hidden = sum(one.access == PathAccess.HIDDEN.name.lower() for one in places)
    return N_(
        "Sandbox: {hidden} places are hidden from commands, {shown} in them are shown; `hermes doctor --sandbox` lists "
        "them.",
        hidden=hidden,
        shown=len(places) - hidden,
    )
