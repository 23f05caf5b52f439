"""Who waits for a limit to end: what this process knows, and what the others wrote into the ledger."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from hermes.core.errors import HermesError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import KeyCooldown, KeyLedger
from hermes.llm.key_slots import Slot, mark_of
from hermes.util.clock import Clock

REFUSED = frozenset({FailureKind.AUTH, FailureKind.AUTH_PERMANENT})
"""What another value of the key would mend."""
_FRESH = 1.0
"""Seconds for which what the ledger said is believed."""
_MOMENT = 0.001
"""What is left of a wait when it is over."""


class Cooldowns:
    """The cooldowns of one provider's keys. A ledger that fails is left alone; what is known here still counts."""

    def __init__(self, provider: str, clock: Clock, ledger: KeyLedger | None) -> None:
        self.salt = ""
        self._provider = provider
        self._clock = clock
        self._ledger = ledger
        self._known: dict[tuple[str, str, str], KeyCooldown] = {}
        self._changes = 0
        """Counts what was written here, so that an older reading does not replace it."""
        self._read_at = float("-inf") if ledger is not None and ledger.has_key_notes else clock.monotonic()

    async def look(self, heard: Callable[[Mapping[str, int]], None], *, now: bool = False) -> None:
        """Read the ledger when what is known of it is old; `heard` is told the uses it counts, by slot."""
        moment = self._clock.monotonic()
        if self._ledger is not None and (now or moment - self._read_at >= _FRESH):
            self._read_at, changes = moment, self._changes
            with contextlib.suppress(HermesError):
                notes = await self._ledger.key_notes(self._provider)
                self.salt = notes.salt
                heard(notes.uses)
                if changes == self._changes:
                    self._known = {_place(one): one for one in notes.cooldowns}
        await self._rebase()

    def against(self, slot: Slot, model: str) -> list[KeyCooldown]:
        """What speaks against the slot's key for this model now.

        A refusal does not speak against a key that was not read yet: it may be another one by now.
        """
        if not self._known:
            return []
        now = self._clock.now()
        return [
            one
            for one in self._known.values()
            if one.slot == slot.name
            and one.model in ("", model)
            and left(one, now) > _MOMENT
            and (self._same(one, slot) if slot.key else one.kind not in REFUSED)
        ]

    def of(self, slot: Slot) -> list[KeyCooldown]:
        """All that is noted about the slot, for whatever model; of a key that was not read, the last one's."""
        return [
            one for one in self._known.values() if one.slot == slot.name and (not slot.key or self._same(one, slot))
        ]

    async def add(self, cooldowns: Sequence[KeyCooldown]) -> None:
        """Note cooldowns, for the other processes too."""
        if not cooldowns:
            return
        self._changes += 1
        self._known.update((_place(one), one) for one in cooldowns)
        if self._ledger is not None:
            try:
                await self._ledger.cool_keys(self._provider, cooldowns, self._clock.now())
            except HermesError:  # no room, or closed: reading it again would bring the old state back
                self._ledger = None

    async def end(self, slot_name: str, model: str, before: float) -> None:
        """The slot's key works for this model: what was noted against it before that moment is over."""
        over = [
            place
            for place, one in self._known.items()
            if one.slot == slot_name and one.model in ("", model) and one.began_at < before
        ]
        if not over:
            return
        self._changes += 1
        for place in over:
            del self._known[place]
        if self._ledger is not None:
            try:
                await self._ledger.clear_keys(self._provider, slot_name, model=model)
            except HermesError:
                self._ledger = None

    def count_use(self, slot: Slot) -> None:
        """Count a use, for the other processes too."""
        slot.uses += 1
        if self._ledger is not None:
            self._ledger.count_key_use(self._provider, slot.name)

    def _same(self, one: KeyCooldown, slot: Slot) -> bool:
        """Whether a cooldown is about the key that the slot holds now."""
        return one.mark in ("", mark_of(slot.key, self.salt))

    async def _rebase(self) -> None:
        """Let cooldowns that begin in the future begin now: the clock was put back, and their length still holds."""
        now = self._clock.now()
        await self.add([structs.replace(one, began_at=now) for one in self._known.values() if one.began_at > now + 1])


def left(one: KeyCooldown, now: float) -> float:
    """Seconds until a cooldown ends."""
    return float("inf") if one.seconds is None else one.began_at + one.seconds - now


def _place(one: KeyCooldown) -> tuple[str, str, str]:
    return one.slot, one.mark, one.model
