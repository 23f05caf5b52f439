"""The summary of this machine at the top of `hermes doctor`: home, terminal backend, approvals, trust."""

from collections.abc import Mapping

from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.config.trusted_folders import is_trusted, read_trusted_folders
from hermes.core.errors import ConfigError
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.safety.paths import Places
from hermes.sessions.backend_factory import BackendFactory, resolve_places
from hermes.sessions.gate_factory import approval_mode, build_policy
from hermes.sessions.options import SessionOptions

PROBLEM_PREFIX = "Problem:"


async def summarize_health(environ: Mapping[str, str], folder: str) -> list[str]:
    """Return lines about the home, the terminal backend, approvals and the folder. Creates nothing.

    A setting that stops Hermes is a line that begins with `Problem:`. Raises ConfigError for a damaged file.
    """
    home = locate_home(environ)
    loaded = load_settings(home)
    settings = loaded.settings
    places = resolve_places(environ, home, folder)
    trusted = is_trusted(places.workspace, read_trusted_folders(home.trust_file))
    commands, contained = await describe_backend(environ, settings, places)
    return [
        *loaded.warnings,
        N_("Home: {root}", root=home.root),
        *commands,
        _describe_approvals(settings, contained),
        _describe_trust(places.workspace, trusted=trusted),
    ]


async def describe_backend(
    environ: Mapping[str, str], settings: Settings, places: Places, *, whole: bool = True
) -> tuple[list[str], str]:
    """Return lines about the terminal backend, and its name if it confines commands; `whole`: with lesser gaps."""
    supervisors = Supervisors(environ)
    try:
        backend, remark = BackendFactory(environ, settings, supervisors).create_backend(places, -1)
        try:
            held = await backend.describe(detailed=whole)
        finally:
            await backend.close()
    except ConfigError as error:
        return [f"{PROBLEM_PREFIX} {error}"], ""
    finally:
        await supervisors.close()
    return [
        N_("Commands: {held}", held=held),
        *([remark] if remark else []),
    ], backend.name if backend.contained else ""


def _describe_approvals(settings: Settings, contained: str) -> str:
    try:
        mode, policy = approval_mode(settings), build_policy(settings, SessionOptions())
    except ConfigError as error:
        return f"{PROBLEM_PREFIX} {error}"
    if mode == "off":
        counts = policy.off_in == contained
        none = N_("off in {place} (nothing is asked about commands there)", place=policy.off_in)
        some = N_("off in {place} (commands run elsewhere, so questions are asked)", place=policy.off_in)
        mode = none if counts else some
    return N_(
        "Questions: mode {mode}, {allowed} allowed patterns, {rules} rules of your own; no answer within {seconds:g} s "
        "is a no.",
        mode=mode,
        allowed=len(policy.allow),
        rules=len(policy.rules),
        seconds=settings.approvals.timeout,
    )


def _describe_trust(folder: str, *, trusted: bool) -> str:
    if trusted:
        return N_("Folder: {folder} is trusted.", folder=folder)
    return N_(
        "Folder: {folder} is not trusted: its files count as text of strangers (`hermes trust` changes it).",
        folder=folder,
    )
