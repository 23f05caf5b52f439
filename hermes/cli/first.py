"""The first start, when nobody has said yet which model answers."""

from collections.abc import Mapping

from hermes.app.endpoint import nothing_configured
from hermes.app.options import Options
from hermes.cli.choose import LeftError, choose
from hermes.util.say import say

STOPPED = 130


def first_start(options: Options, environ: Mapping[str, str]) -> int | None:
    """Offer to set a model up; an exit code when there is to be no chat, None when there is."""
    if not nothing_configured(options, environ):
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
        from hermes.cli.setup import run

        return run([]) or None
    return 0 if taken == 2 else None
