"""Offer to set up a model at the first start, when none is configured."""

from collections.abc import Mapping

from hermes.cli.output import EXIT_INTERRUPTED
from hermes.cli.plain.menu import PromptAbortedError, choose_option
from hermes.i18n.messages import tr
from hermes.sessions.model.model_route import is_nothing_configured
from hermes.sessions.options import SessionOptions


def offer_first_setup(options: SessionOptions, environ: Mapping[str, str]) -> int | None:
    """Offer to set up a model. Return an exit code when there is to be no chat, else None."""
    if not is_nothing_configured(options, environ):
        return None
    ways = [
        tr("Set a model up now: it takes a minute"),
        tr("Just look around, with the small model that comes along (English only, no tools)"),
        tr("Leave"),
    ]
    try:
        taken = choose_option(tr("No model is set up yet. What now?"), ways)
    except (PromptAbortedError, KeyboardInterrupt):
        print()
        return EXIT_INTERRUPTED
    if taken == 0:
        from hermes.cli.commands.setup import run

        return run([]) or None
    return 0 if taken == 2 else None
