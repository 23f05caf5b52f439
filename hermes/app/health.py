"""What holds on this machine: the lines of `hermes doctor`."""

import os
from collections.abc import Mapping

from hermes.app.backends import Place
from hermes.app.options import Options
from hermes.app.policy import mode_of, policy_of
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.trusted import is_trusted, trusted_folders
from hermes.safety.places import Places
from hermes.tools.backends.wardens import Wardens


async def examine(environ: Mapping[str, str], folder: str) -> list[str]:
    """A line each about the home, the place where commands run, the questions and the folder. Nothing is created.

    Raises ConfigError for settings that cannot be used.
    """
    home = locate_home(environ)
    loaded = load_settings(home)
    settings = loaded.settings
    places = _places(environ, home, folder)
    wardens = Wardens(environ)
    try:
        backend, remark = Place(environ, settings, wardens).backend(places, -1)
        try:
            held = await backend.line()
        finally:
            await backend.close()
    finally:
        await wardens.close()
    policy = policy_of(settings, Options())
    trusted = is_trusted(places.workspace, trusted_folders(home.trust_file))
    rules = f"{len(policy.allow)} allowed patterns, {len(policy.rules)} rules of your own"
    mode, patience = mode_of(settings), settings.approvals.timeout
    return [
        *loaded.warnings,
        f"Home: {home.root}",
        f"Commands: {held}",
        *([remark] if remark else []),
        f"Questions: mode {mode}, {rules}; no answer within {patience:g} s is a no.",
        f"Folder: {places.workspace} is "
        + ("trusted." if trusted else "not trusted: its files count as text of strangers (`hermes trust` changes it)."),
    ]


def _places(environ: Mapping[str, str], home: Home, folder: str) -> Places:
    user = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    return Places(home=user, hermes=os.path.realpath(home.root), workspace=os.path.realpath(folder))
