"""Hooks that the person has enabled and that cannot be asked now."""

from collections.abc import Iterable

from hermes.hooks.events import EVENT_TRAITS, HookEvent, HookRole
from hermes.hooks.hook import HookCall, HookError, HookOutcome
from hermes.i18n.messages import N_


class MissingHookSource:
    """The hooks of something that has changed, is gone, or cannot be loaded: nothing of it runs.

    What they guard is refused, and the texts that they change are left out, until the person has enabled it again or
    has disabled it. An observer is not missed.
    """

    def __init__(self, name: str, events: Iterable[str], reason: str) -> None:
        self.name = name
        self._events = frozenset(one for one in events if _is_answer_needed(one))
        self._reason = reason

    def handles(self, call: HookCall) -> bool:
        """Return whether it was to be asked at this event before anything goes on."""
        return call.event in self._events

    async def run_hook(self, call: HookCall) -> HookOutcome:
        """Raise HookError."""
        del call
        raise HookError(self._reason)

    async def close(self) -> None:
        """Do nothing: nothing of it runs."""


def explain_change(name: str) -> str:
    """Return what is said of something that has changed since it was enabled."""
    return N_("it has changed since it was enabled: `hermes plugins enable {name}` shows it", name=name)


def _is_answer_needed(event: str) -> bool:
    """Return whether nothing goes on at an event without an answer. One that Hermes no longer has never comes."""
    return event in EVENT_TRAITS and EVENT_TRAITS[HookEvent(event)].role is not HookRole.OBSERVER
