"""Several keys for one provider: which one a call takes, and how long one that failed is left alone.

A cooldown ends when the provider said it would, else after a time of our own. The provider's word is
kept: a call that finds all keys waiting gets a failure that says until when. A time of our own only
says which key to prefer: a call that finds no better one is made with the key that is due first, since
the provider's answer is worth more than our guess. Processes learn of each other's cooldowns within a
second, through the ledger.
"""

import time
from collections.abc import Iterable, Mapping, Sequence

from hermes.config.settings import Strategy
from hermes.core.outcomes import FailureKind, Scope
from hermes.core.protocols import KeyCooldown, KeyLedger
from hermes.core.stream import Failure
from hermes.llm.cooldowns import KEY_REFUSALS, CooldownTracker, seconds_left
from hermes.llm.key_slots import KeySlot, KeyState, describe_slot, hash_key
from hermes.llm.keys import KeyLease
from hermes.util.clock import Clock

LONG_COOLDOWN = 3600.0
SHORT_COOLDOWN = 300.0
"""Seconds that a key is left alone when the provider names no time: after a refused key, SHORT."""
_MAX_CALL_WAIT = 120.0
"""The longest wait that a call may sit out."""
_MAX_SLEEP = 0.25
"""A wait so short is slept off here, so that no call fails by a hair."""
_REREAD_EVERY = 60.0
"""Seconds between two reads of the source of a key that is refused."""
_MIN_COOLDOWN = 1.0
"""How long another key is preferred when the provider asks for no wait at all."""
_CHARGED_SCOPES = frozenset({Scope.KEY, Scope.MODEL, Scope.ORGANISATION})
_HINT = "`hermes auth list` shows the keys, `hermes auth reset` has them tried at once."

_Wait = tuple[float, bool, KeySlot]
"""How long a slot waits, whether the provider said so, and the slot."""


class KeyPool:
    """The keys of one provider in one process (`llm.keys.ProviderKeys`). Safe for any number of calls of one event
    loop.
    """

    def __init__(
        self,
        provider: str,
        slots: Sequence[KeySlot],
        clock: Clock,
        *,
        title: str = "",
        strategy: Strategy = Strategy.FILL_FIRST,
        ledger: KeyLedger | None = None,
    ) -> None:
        self._title = title or provider
        self._slots = tuple(slots)
        self._clock = clock
        self.strategy = strategy
        self._cooldowns = CooldownTracker(provider, clock, ledger)
        self._next: int | None = None
        """Where round robin goes on; None until it is known where the processes before this one stopped."""

    async def lease_key(self, model: str) -> KeyLease | Failure:
        """Return a key that may be used for this model now, or a failure that says until when there is none."""
        await self._cooldowns.refresh(self._merge_uses)
        while True:
            best = await self._choose_slot(model)
            if isinstance(best, Failure):
                return best
            if isinstance(best, KeySlot):
                return self._lease_slot(best, model)
            await self._clock.sleep(best)

    async def has_usable_key(self, model: str) -> bool:
        """Return whether `lease_key` would give a key now. No source is read for it."""
        await self._cooldowns.refresh(self._merge_uses)
        return any(self._is_ready(slot, model) for slot in self._slots) or bool(
            _slots_blocked_by_guess(self._list_waits(model))
        )

    async def report_success(self, lease: KeyLease) -> None:
        """Note that the call was answered: what spoke against its key before is over."""
        await self._cooldowns.clear_cooldowns(lease.key_id, lease.model, lease.taken_at)

    async def report_failure(self, lease: KeyLease, failure: Failure) -> bool:
        """Charge a failure to what its scope names; return whether another key may be tried at once."""
        slot = next((slot for slot in self._slots if slot.name == lease.key_id), None)
        if slot is None or failure.scope not in _CHARGED_SCOPES:
            return False
        if failure.kind in KEY_REFUSALS and await self._reread_refused(slot, lease.key):
            return True
        if not self._cooldowns.salt:
            await self._cooldowns.refresh(self._merge_uses, force=True)
        await self._cooldowns.add_cooldowns(self._build_cooldowns(slot, lease, failure))
        return any(self._is_ready(other, lease.model) for other in self._slots if other is not slot)

    async def list_key_states(self) -> list[KeyState]:
        """Return the state of each key, in order. No source is read for it."""
        await self._cooldowns.refresh(self._merge_uses, force=True)
        return [describe_slot(slot, self._cooldowns.list_for_slot(slot), self._clock.now()) for slot in self._slots]

    async def _choose_slot(self, model: str) -> KeySlot | Failure | float:
        """Return the slot to use, the seconds to sleep before asking again, or why there is neither."""
        for slot in self._slots_in_order():
            if await self._open_if_ready(slot, model):
                return slot
        if await self._reread_dead(model):
            return 0.0
        waits = self._list_waits(model)
        first = waits[0][0] if waits else float("inf")
        if first <= _MAX_SLEEP:
            return first
        for slot in _slots_blocked_by_guess(waits):
            if await slot.read_key(self._clock):
                return slot
        return self._no_key_failure(model, first)

    def _list_waits(self, model: str) -> Sequence[_Wait]:
        """Return the slots that are blocked, the one that is due first in front."""
        now = self._clock.now()
        found = ((slot, self._cooldowns.list_blocking(slot, model)) for slot in self._slots)
        waits = [
            (max(seconds_left(one, now) for one in several), any(one.said for one in several), slot)
            for slot, several in found
            if several
        ]
        return sorted(waits, key=lambda wait: (wait[0], wait[2].taken_at))

    async def _open_if_ready(self, slot: KeySlot, model: str) -> bool:
        """Return whether the slot's key can be used now; it is read if that was not done yet."""
        return self._is_ready(slot, model) and await slot.read_key(self._clock) and self._is_ready(slot, model)

    def _is_ready(self, slot: KeySlot, model: str) -> bool:
        return not slot.has_failed_recently(self._clock) and not self._cooldowns.list_blocking(slot, model)

    def _lease_slot(self, slot: KeySlot, model: str) -> KeyLease:
        if len(self._slots) > 1:
            self._next = self._slots.index(slot) + 1
            self._cooldowns.count_use(slot)
        slot.taken_at = self._clock.now()
        return KeyLease(slot.key, slot.name, model, slot.taken_at)

    def _merge_uses(self, uses: Mapping[str, int]) -> None:
        """Merge in what the ledger counted; what was counted here and is not there yet stays."""
        for slot in self._slots:
            slot.uses = max(slot.uses, uses.get(slot.name, 0))
        if self._next is None:
            self._next = sum(slot.uses for slot in self._slots)

    def _slots_in_order(self) -> Iterable[KeySlot]:
        """Return the slots in the order in which the strategy wants them tried."""
        slots = self._slots
        if len(slots) == 1 or self.strategy is Strategy.FILL_FIRST:
            return slots
        if self.strategy is Strategy.LEAST_USED:
            return sorted(slots, key=lambda slot: slot.uses)
        if self.strategy is Strategy.ROUND_ROBIN:
            start = (self._next or 0) % len(slots)
            return (*slots[start:], *slots[:start])
        import random

        return random.sample(slots, len(slots))

    def _build_cooldowns(self, slot: KeySlot, lease: KeyLease, failure: Failure) -> list[KeyCooldown]:
        """Return the cooldowns that a failure brings."""
        seconds: float | None = SHORT_COOLDOWN if failure.kind is FailureKind.AUTH else LONG_COOLDOWN
        said = bool(failure.retry_after)
        if failure.kind is FailureKind.AUTH_PERMANENT:
            seconds, said = None, False
        elif failure.retry_after is not None:
            seconds = failure.retry_after or _MIN_COOLDOWN
        everyone = failure.scope is Scope.ORGANISATION
        return [
            KeyCooldown(
                slot=one.name,
                mark=hash_key(lease.key if one is slot else one.key, self._cooldowns.salt),
                model=lease.model if failure.scope is Scope.MODEL else "",
                kind=failure.kind,
                began_at=self._clock.now(),
                seconds=seconds,
                said=said,
            )
            for one in self._slots
            if one is slot or (everyone and one.organisation == slot.organisation)
        ]

    async def _reread_refused(self, slot: KeySlot, refused: str) -> bool:
        """Return whether the slot's source holds another key than the refused one; it is read again once in a while."""
        if slot.key != refused:
            return True
        now = self._clock.monotonic()
        if not slot.source.renewable or now - slot.renewed_at < _REREAD_EVERY:
            return False
        slot.renewed_at = now
        await slot.read_key(self._clock, reread=True)
        return slot.key != refused

    async def _reread_dead(self, model: str) -> bool:
        """Read the sources of keys that are refused for good again, now that none can be used; return whether
        there is a new one.
        """
        found = False
        for slot in self._slots:
            if slot.key and any(one.seconds is None for one in self._cooldowns.list_blocking(slot, model)):
                found = await self._reread_refused(slot, slot.key) or found
        return found

    def _no_key_failure(self, model: str, wait: float) -> Failure:
        """Return the failure that says why no key can be used; `wait` is the shortest of all waits."""
        many = len(self._slots) > 1
        keys = f"All {len(self._slots)} keys of {self._title}" if many else f"The key of {self._title}"
        if wait < float("inf"):
            now = self._clock.now()
            found = [one for slot in self._slots for one in self._cooldowns.list_blocking(slot, model)]
            kind = min(found, key=lambda one: seconds_left(one, now)).kind
            at = format_clock_time(now + wait, now)
            told = f"{keys} wait; the first can be used again at {at} ({kind.value})."
            return Failure(
                kind=kind,
                message=told if many else f"{keys} waits; it can be used again at {at} ({kind.value}).",
                hint=_HINT,
                retryable=wait <= _MAX_CALL_WAIT,
                fall_back=True,
                scope=Scope.KEY,
                retry_after=wait,
            )
        reasons = [slot.reason for slot in self._slots if slot.reason]
        if reasons:
            return Failure(kind=FailureKind.AUTH, message=reasons[0], hint=_HINT, fall_back=True, scope=Scope.KEY)
        message = f"{keys} {'are' if many else 'is'} refused for good."
        return Failure(kind=FailureKind.AUTH_PERMANENT, message=message, hint=_HINT, fall_back=True, scope=Scope.KEY)


def _slots_blocked_by_guess(waits: Sequence[_Wait]) -> list[KeySlot]:
    """Return the slots that only our own guess blocks; none while a wait that a call can sit out ends surely."""
    if any(said and seconds <= _MAX_CALL_WAIT for seconds, said, _ in waits):
        return []
    return [slot for seconds, said, slot in waits if not said and seconds < float("inf")]


def format_clock_time(moment: float, now: float) -> str:
    """Format local hours and minutes; with seconds when it is soon, with the date when it is another day."""
    form = "%H:%M:%S" if moment - now < 600 else "%H:%M"
    if time.localtime(moment)[:3] != time.localtime(now)[:3]:
        form = f"%Y-%m-%d {form}"
    return time.strftime(form, time.localtime(moment))
