"""Where a job's words go: `local`, `origin`, `all`, or a chat of a platform."""

import re
from collections.abc import Collection, Sequence

from hermes.core.errors import UsageError
from hermes.cron.job import ALL, LOCAL, ORIGIN, Spec
from hermes.i18n.messages import phrase
from hermes.plugins import suggestion

_PLACE = re.compile(r"(\w[\w.-]{0,63}):(\S{1,256})")
MOST = 8


def checked_targets(texts: Sequence[str], platforms: Collection[str], *, origin: str) -> tuple[str, ...]:
    """The targets, each once. Raises UsageError for what is none, and for a platform that does not exist here."""
    found = tuple(dict.fromkeys(_checked(one.strip(), platforms, origin=origin) for one in texts if one.strip()))
    if len(found) > MOST:
        raise UsageError(phrase("A job has at most {n} targets.", n=MOST))
    return found or (LOCAL,)


def _checked(text: str, platforms: Collection[str], *, origin: str) -> str:
    if text.lower() == ORIGIN and not origin:
        raise UsageError(
            phrase("There is no chat to deliver to: this job is not made in one."),
            phrase("Use `local`, or PLATFORM:CHAT."),
        )
    if text.lower() in (LOCAL, ORIGIN, ALL):
        return text.lower()
    match = _PLACE.fullmatch(text)
    if match is None:
        raise UsageError(
            phrase("{text!r} is no target.", text=text[:80]),
            phrase("Targets are `local`, `origin`, `all`, and PLATFORM:CHAT or PLATFORM:CHAT:THREAD."),
        )
    if match[1] not in platforms:
        known = phrase("Those set up: {known}.", known=", ".join(sorted(platforms)))
        hint = suggestion(match[1], platforms) or (known if platforms else phrase("None is set up yet."))
        raise UsageError(phrase("No platform {name!r} is set up here.", name=match[1]), hint)
    return f"{match[1]}:{match[2]}"


def places_of(spec: Spec) -> tuple[str, ...]:
    """The targets beyond this machine to which a job's words go, each once."""
    named = (spec.origin if one == ORIGIN else one for one in spec.deliver)
    return tuple(dict.fromkeys(one for one in named if one and one != LOCAL))
