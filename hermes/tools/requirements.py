"""Looks whether what a tool needs is there; imported where a tool needs anything."""

import logging
import shutil
from collections.abc import Callable, Mapping
from pkgutil import resolve_name

from hermes.config.settings import Settings
from hermes.i18n.messages import N_
from hermes.tools.tool import AvailabilityCheck, ToolRequirements
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)
_MAX_REASON = 200


def explain_requirements(needs: ToolRequirements, environ: Mapping[str, str]) -> str:
    """Return which variable or program is missing, for a person; empty where none is."""
    for names in needs.variables:
        if not any(environ.get(name, "").strip() for name in names.split("|")):
            return N_("it needs the variable {names}", names=names.replace("|", " / "))
    for names in needs.programs:
        if not any(shutil.which(name, path=environ.get("PATH", "")) for name in names.split("|")):
            return N_("it needs the program {names}", names=names.replace("|", " / "))
    return ""


def call_check(check: AvailabilityCheck, environ: Mapping[str, str], settings: Settings) -> str:
    """Return what a check says; one that fails counts as a no."""
    try:
        explain: Callable[[Mapping[str, str], Settings], object] = resolve_name(check.function)
        said = explain(environ, settings)
    except Exception as error:  # noqa: BLE001 - it may be somebody else's code: without an answer nothing is offered
        _LOG.warning("%s cannot tell whether its tool can work", check.function, exc_info=True)
        return N_("its check failed: {error}", error=to_one_line(f"{type(error).__name__}: {error}", _MAX_REASON))
    return said if isinstance(said, str) else N_("its check gave no text")
