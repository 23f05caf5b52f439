"""What holds on this machine: the lines of `hermes doctor`."""

from collections.abc import Mapping

from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.config.trusted import is_trusted, trusted_folders
from hermes.core.errors import ConfigError
from hermes.execution.supervisor import Wardens
from hermes.i18n.messages import phrase
from hermes.safety.places import Places
from hermes.sessions.backend_factory import Place, places_of
from hermes.sessions.gate_factory import mode_of, policy_of
from hermes.sessions.options import Options

PROBLEM = "Problem:"


async def examine(environ: Mapping[str, str], folder: str) -> list[str]:
    """A line each about the home, the place where commands run, the questions and the folder. Nothing is created.

    A setting that stops Hermes is a line that begins with `Problem:`. Raises ConfigError for a damaged file.
    """
    home = locate_home(environ)
    loaded = load_settings(home)
    settings = loaded.settings
    places = places_of(environ, home, folder)
    trusted = is_trusted(places.workspace, trusted_folders(home.trust_file))
    commands, contained = await commands_line(environ, settings, places)
    return [
        *loaded.warnings,
        phrase("Home: {root}", root=home.root),
        *commands,
        _questions(settings, contained),
        _trust_line(places.workspace, trusted=trusted),
    ]


async def commands_line(
    environ: Mapping[str, str], settings: Settings, places: Places, *, whole: bool = True
) -> tuple[list[str], str]:
    """What is to be said about the back end, and its name where it holds commands back; `whole`: with lesser gaps."""
    wardens = Wardens(environ)
    try:
        backend, remark = Place(environ, settings, wardens).backend(places, -1)
        try:
            held = await backend.line(whole=whole)
        finally:
            await backend.close()
    except ConfigError as error:
        return [f"{PROBLEM} {error}"], ""
    finally:
        await wardens.close()
    return [
        phrase("Commands: {held}", held=held),
        *([remark] if remark else []),
    ], backend.name if backend.contained else ""


def _questions(settings: Settings, contained: str) -> str:
    try:
        mode, policy = mode_of(settings), policy_of(settings, Options())
    except ConfigError as error:
        return f"{PROBLEM} {error}"
    if mode == "off":
        counts = policy.off_in == contained
        none = phrase("off in {place} (nothing is asked about commands there)", place=policy.off_in)
        some = phrase("off in {place} (commands run elsewhere, so questions are asked)", place=policy.off_in)
        mode = none if counts else some
    return phrase(
        "Questions: mode {mode}, {allowed} allowed patterns, {rules} rules of your own; no answer within {seconds:g} s "
        "is a no.",
        mode=mode,
        allowed=len(policy.allow),
        rules=len(policy.rules),
        seconds=settings.approvals.timeout,
    )


def _trust_line(folder: str, *, trusted: bool) -> str:
    if trusted:
        return phrase("Folder: {folder} is trusted.", folder=folder)
    return phrase(
        "Folder: {folder} is not trusted: its files count as text of strangers (`hermes trust` changes it).",
        folder=folder,
    )
