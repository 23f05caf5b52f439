"""Delivery targets of jobs: `local`, `origin`, `all`, or a chat of a platform."""

import re
from collections.abc import Collection, Sequence

from hermes.core.errors import UsageError
from hermes.cron.job import ALL, LOCAL, ORIGIN, JobSpec
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name

_PLACE = re.compile(r"(\w[\w.-]{0,63}):(\S{1,256})")
MAX_TARGETS = 8


def check_targets(texts: Sequence[str], platforms: Collection[str], *, origin: str) -> tuple[str, ...]:
    """Return the targets, each once. Raises UsageError for an invalid one, and for a platform that is not
    set up here.
    """
    found = tuple(dict.fromkeys(_check_target(one.strip(), platforms, origin=origin) for one in texts if one.strip()))
    if len(found) > MAX_TARGETS:
        raise UsageError(N_("A job has at most {n} targets.", n=MAX_TARGETS))
    return found or (LOCAL,)


def _check_target(text: str, platforms: Collection[str], *, origin: str) -> str:
    if text.lower() == ORIGIN and not origin:
        raise UsageError(
            N_("There is no chat to deliver to: this job is not made in one."),
            N_("Use `local`, or PLATFORM:CHAT."),
        )
    if text.lower() in (LOCAL, ORIGIN, ALL):
        return text.lower()
    match = _PLACE.fullmatch(text)
    if match is None:
        raise UsageError(
            N_("{text!r} is no target.", text=text[:80]),
            N_("Targets are `local`, `origin`, `all`, and PLATFORM:CHAT or PLATFORM:CHAT:THREAD."),
        )
    if match[1] not in platforms:
        known = N_("Those set up: {known}.", known=", ".join(sorted(platforms)))
        hint = suggest_name(match[1], platforms) or (known if platforms else N_("None is set up yet."))
        raise UsageError(N_("No platform {name!r} is set up here.", name=match[1]), hint)
    return f"{match[1]}:{match[2]}"


def list_delivery_targets(spec: JobSpec) -> tuple[str, ...]:
    """Return the targets beyond this machine to which a job's output goes, each once."""
    named = (spec.origin if one == ORIGIN else one for one in spec.deliver)
    return tuple(dict.fromkeys(one for one in named if one and one != LOCAL))
