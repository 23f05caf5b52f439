"""The first start, when nobody has said yet which model answers."""

from collections.abc import Mapping

from hermes.cli.plain.menu import LeftError, choose
from hermes.i18n.messages import say
from hermes.sessions.model.endpoint import is_nothing_configured
from hermes.sessions.options import SessionOptions

STOPPED = 130


def first_start(options: SessionOptions, environ: Mapping[str, str]) -> int | None:
    """Offer to set a model up; an exit code when there is to be no chat, None when there is."""
    if not is_nothing_configured(options, environ):
        return None
    ways = [
        say("Set a model up now: it takes a minute"),
        say("Just look around, with the small model that comes along (English only, no tools)"),
        say("Leave"),
    ]
    try:
        taken = choose(say("No model is set up yet. What now?"), ways)
    except (LeftError, KeyboardInterrupt):
        print()
        return STOPPED
    if taken == 0:
        from hermes.cli.commands.setup import run

        return run([]) or None
    return 0 if taken == 2 else None
