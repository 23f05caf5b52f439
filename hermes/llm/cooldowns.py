"""The cooldowns of a provider's keys: what this process knows, and what the others wrote into the ledger."""

import contextlib
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from hermes.core.errors import HermesError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import KeyCooldown, KeyLedger
from hermes.llm.key_slots import KeySlot, hash_key
from hermes.util.clock import Clock

KEY_REFUSALS = frozenset({FailureKind.AUTH, FailureKind.AUTH_PERMANENT})
"""The kinds of failure that another value of the key would fix."""
_FRESH_SECONDS = 1.0
"""Seconds for which a reading of the ledger is trusted."""
_EPSILON_SECONDS = 0.001
"""A wait with at most so many seconds left is over."""


class CooldownTracker:
    """Tracks the cooldowns of one provider's keys.

    A ledger that fails is not used any more; what is known here still counts.
    """

    def __init__(self, provider: str, clock: Clock, ledger: KeyLedger | None) -> None:
        self.salt = ""
        self._provider = provider
        self._clock = clock
        self._ledger = ledger
        self._known: dict[tuple[str, str, str], KeyCooldown] = {}
        self._changes = 0
        """Counts what was written here, so that an older reading does not replace it."""
        self._read_at = float("-inf") if ledger is not None and ledger.has_key_notes else clock.monotonic()

    async def refresh(self, merge_uses: Callable[[Mapping[str, int]], None], *, force: bool = False) -> None:
        """Read the ledger when what is known of it is old; `merge_uses` gets the uses it counts, by slot."""
        moment = self._clock.monotonic()
        if self._ledger is not None and (force or moment - self._read_at >= _FRESH_SECONDS):
            self._read_at, changes = moment, self._changes
            with contextlib.suppress(HermesError):
                notes = await self._ledger.read_key_notes(self._provider)
                self.salt = notes.salt
                merge_uses(notes.uses)
                if changes == self._changes:
                    self._known = {_cooldown_key(one): one for one in notes.cooldowns}
        await self._rebase_future()

    def list_blocking(self, slot: KeySlot, model: str) -> list[KeyCooldown]:
        """Return the cooldowns that block the slot's key for this model now.

        A refusal does not block a key that was not read yet: it may be another one by now.
        """
        if not self._known:
            return []
        now = self._clock.now()
        return [
            one
            for one in self._known.values()
            if one.slot == slot.name
            and one.model in ("", model)
            and seconds_left(one, now) > _EPSILON_SECONDS
            and (self._is_current_key(one, slot) if slot.key else one.kind not in KEY_REFUSALS)
        ]

    def list_for_slot(self, slot: KeySlot) -> list[KeyCooldown]:
        """Return all that is noted about the slot, for whatever model; for a key that was not read, the last one's."""
        return [
            one
            for one in self._known.values()
            if one.slot == slot.name and (not slot.key or self._is_current_key(one, slot))
        ]

    async def add_cooldowns(self, cooldowns: Sequence[KeyCooldown]) -> None:
        """Note cooldowns, for the other processes too."""
        if not cooldowns:
            return
        self._changes += 1
        self._known.update((_cooldown_key(one), one) for one in cooldowns)
        if self._ledger is not None:
            try:
                await self._ledger.cool_keys(self._provider, cooldowns, self._clock.now())
            except HermesError:  # no room, or closed: reading it again would bring the old state back
                self._ledger = None

    async def clear_cooldowns(self, slot_name: str, model: str, before: float) -> None:
        """Clear what was noted against the slot's key for this model before that moment: the key works."""
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

    def count_use(self, slot: KeySlot) -> None:
        """Count a use, for the other processes too."""
        slot.uses += 1
        if self._ledger is not None:
            self._ledger.count_key_use(self._provider, slot.name)

    def _is_current_key(self, one: KeyCooldown, slot: KeySlot) -> bool:
        """Return whether a cooldown is about the key that the slot holds now."""
        return one.mark in ("", hash_key(slot.key, self.salt))

    async def _rebase_future(self) -> None:
        """Let cooldowns that begin in the future begin now: the clock was put back, and their length still holds."""
        now = self._clock.now()
        await self.add_cooldowns(
            [structs.replace(one, began_at=now) for one in self._known.values() if one.began_at > now + 1]
        )


def seconds_left(one: KeyCooldown, now: float) -> float:
    """Return the seconds until a cooldown ends."""
    return float("inf") if one.seconds is None else one.began_at + one.seconds - now


def _cooldown_key(one: KeyCooldown) -> tuple[str, str, str]:
    return one.slot, one.mark, one.model
