"""Several keys for one provider: which one a call takes, and how long one that failed is left alone.

A cooldown ends when the provider said it would, else after a time of our own. The provider's word is kept: a call that
finds all keys waiting gets a failure that says until when. A time of our own only says which key to prefer: a call that
finds no better one is made with the key that is due first, since the provider's answer is worth more than our guess.
Processes learn of each other's cooldowns within a second, through the ledger.
"""

import time
from collections.abc import Iterable, Mapping, Sequence

from hermes.config.settings import Strategy
from hermes.core.outcomes import FailureKind, Scope
from hermes.core.protocols import KeyCooldown, KeyLedger
from hermes.core.stream import Failure
from hermes.llm.cooldowns import REFUSED, Cooldowns, left
from hermes.llm.key_slots import KeyState, Slot, mark_of, state_of
from hermes.llm.keys import Lease
from hermes.util.clock import Clock

LONG = 3600.0
SHORT = 300.0
"""Seconds that a key is left alone when the provider names no time: after a refused key, SHORT."""
_WAITABLE = 120.0
"""A wait that a call may sit out."""
_SLACK = 0.25
"""A wait so short is slept off here, so that no call fails by a hair."""
_RENEW_EVERY = 60.0
"""Seconds between two looks at the place of a key that is refused."""
_AT_ONCE = 1.0
"""How long another key is preferred when the provider asks for no wait at all."""
_CHARGED = frozenset({Scope.KEY, Scope.MODEL, Scope.ORGANISATION})
_HINT = "`hermes auth list` shows the keys, `hermes auth reset` has them tried at once."

_Wait = tuple[float, bool, Slot]
"""How long a slot waits, whether the provider said so, and the slot."""


class KeyPool:
    """The keys of one provider in one process (`llm.keys.Keys`). Safe for any number of calls of one event loop."""

    def __init__(
        self,
        provider: str,
        slots: Sequence[Slot],
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
        self._cooldowns = Cooldowns(provider, clock, ledger)
        self._next: int | None = None
        """Where round robin goes on; None until it is known where the processes before this one stopped."""

    async def lease(self, model: str) -> Lease | Failure:
        """A key that may be used for this model now; a failure that says until when when there is none."""
        await self._cooldowns.look(self._heard)
        while True:
            best = await self._best(model)
            if isinstance(best, Failure):
                return best
            if isinstance(best, Slot):
                return self._handed_out(best, model)
            await self._clock.sleep(best)

    async def available(self, model: str) -> bool:
        """Whether `lease` would give a key now. No source is read for it."""
        await self._cooldowns.look(self._heard)
        return any(self._ready(slot, model) for slot in self._slots) or bool(_on_a_guess(self._waits(model)))

    async def succeeded(self, lease: Lease) -> None:
        """The call was answered: what spoke against its key before is over."""
        await self._cooldowns.end(lease.key_id, lease.model, lease.taken_at)

    async def failed(self, lease: Lease, failure: Failure) -> bool:
        """Charge a failure to whom its scope names. Whether another key may be tried at once."""
        slot = next((slot for slot in self._slots if slot.name == lease.key_id), None)
        if slot is None or failure.scope not in _CHARGED:
            return False
        if failure.kind in REFUSED and await self._renewed(slot, lease.key):
            return True
        if not self._cooldowns.salt:
            await self._cooldowns.look(self._heard, now=True)
        await self._cooldowns.add(self._charged(slot, lease, failure))
        return any(self._ready(other, lease.model) for other in self._slots if other is not slot)

    async def report(self) -> list[KeyState]:
        """How each key stands, in order. No source is read for it."""
        await self._cooldowns.look(self._heard, now=True)
        return [state_of(slot, self._cooldowns.of(slot), self._clock.now()) for slot in self._slots]

    async def _best(self, model: str) -> Slot | Failure | float:
        """The slot to use, the seconds to sleep before asking again, or why there is neither."""
        for slot in self._ordered():
            if await self._usable(slot, model):
                return slot
        if await self._renewed_dead(model):
            return 0.0
        waits = self._waits(model)
        first = waits[0][0] if waits else float("inf")
        if first <= _SLACK:
            return first
        for slot in _on_a_guess(waits):
            if await slot.open(self._clock):
                return slot
        return self._refusal(model, first)

    def _waits(self, model: str) -> Sequence[_Wait]:
        """The slots that something speaks against, the one that is due first in front."""
        now = self._clock.now()
        found = ((slot, self._cooldowns.against(slot, model)) for slot in self._slots)
        waits = [
            (max(left(one, now) for one in several), any(one.said for one in several), slot)
            for slot, several in found
            if several
        ]
        return sorted(waits, key=lambda wait: (wait[0], wait[2].taken_at))

    async def _usable(self, slot: Slot, model: str) -> bool:
        """Whether the slot's key can be used now; it is read, should that not be done yet."""
        return self._ready(slot, model) and await slot.open(self._clock) and self._ready(slot, model)

    def _ready(self, slot: Slot, model: str) -> bool:
        return not slot.broken(self._clock) and not self._cooldowns.against(slot, model)

    def _handed_out(self, slot: Slot, model: str) -> Lease:
        if len(self._slots) > 1:
            self._next = self._slots.index(slot) + 1
            self._cooldowns.count_use(slot)
        slot.taken_at = self._clock.now()
        return Lease(slot.key, slot.name, model, slot.taken_at)

    def _heard(self, uses: Mapping[str, int]) -> None:
        """Take in what the ledger counted; what was counted here and is not there yet stands."""
        for slot in self._slots:
            slot.uses = max(slot.uses, uses.get(slot.name, 0))
        if self._next is None:
            self._next = sum(slot.uses for slot in self._slots)

    def _ordered(self) -> Iterable[Slot]:
        """The slots in the order in which the strategy wants them tried."""
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

    def _charged(self, slot: Slot, lease: Lease, failure: Failure) -> list[KeyCooldown]:
        """The cooldowns that a failure brings."""
        seconds: float | None = SHORT if failure.kind is FailureKind.AUTH else LONG
        said = bool(failure.retry_after)
        if failure.kind is FailureKind.AUTH_PERMANENT:
            seconds, said = None, False
        elif failure.retry_after is not None:
            seconds = failure.retry_after or _AT_ONCE
        everyone = failure.scope is Scope.ORGANISATION
        return [
            KeyCooldown(
                slot=one.name,
                mark=mark_of(lease.key if one is slot else one.key, self._cooldowns.salt),
                model=lease.model if failure.scope is Scope.MODEL else "",
                kind=failure.kind,
                began_at=self._clock.now(),
                seconds=seconds,
                said=said,
            )
            for one in self._slots
            if one is slot or (everyone and one.organisation == slot.organisation)
        ]

    async def _renewed(self, slot: Slot, refused: str) -> bool:
        """Whether the slot's place holds another key than the refused one; it is looked at again once in a while."""
        if slot.key != refused:
            return True
        now = self._clock.monotonic()
        if not slot.source.renewable or now - slot.renewed_at < _RENEW_EVERY:
            return False
        slot.renewed_at = now
        await slot.open(self._clock, anew=True)
        return slot.key != refused

    async def _renewed_dead(self, model: str) -> bool:
        """Look again where keys are refused for good, now that none can be used; whether there is a new one."""
        found = False
        for slot in self._slots:
            if slot.key and any(one.seconds is None for one in self._cooldowns.against(slot, model)):
                found = await self._renewed(slot, slot.key) or found
        return found

    def _refusal(self, model: str, wait: float) -> Failure:
        """Why no key can be used; `wait` is the shortest of all waits."""
        many = len(self._slots) > 1
        keys = f"All {len(self._slots)} keys of {self._title}" if many else f"The key of {self._title}"
        if wait < float("inf"):
            now = self._clock.now()
            found = [one for slot in self._slots for one in self._cooldowns.against(slot, model)]
            kind = min(found, key=lambda one: left(one, now)).kind
            at = clock_time(now + wait, now)
            told = f"{keys} wait; the first can be used again at {at} ({kind.value})."
            return Failure(
                kind=kind,
                message=told if many else f"{keys} waits; it can be used again at {at} ({kind.value}).",
                hint=_HINT,
                retryable=wait <= _WAITABLE,
                fall_back=True,
                scope=Scope.KEY,
                retry_after=wait,
            )
        reasons = [slot.reason for slot in self._slots if slot.reason]
        if reasons:
            return Failure(kind=FailureKind.AUTH, message=reasons[0], hint=_HINT, fall_back=True, scope=Scope.KEY)
        message = f"{keys} {'are' if many else 'is'} refused for good."
        return Failure(kind=FailureKind.AUTH_PERMANENT, message=message, hint=_HINT, fall_back=True, scope=Scope.KEY)


def _on_a_guess(waits: Sequence[_Wait]) -> list[Slot]:
    """The slots that only our own guess speaks against; none while a wait that a call can sit out ends surely."""
    if any(said and seconds <= _WAITABLE for seconds, said, _ in waits):
        return []
    return [slot for seconds, said, slot in waits if not said and seconds < float("inf")]


def clock_time(moment: float, now: float) -> str:
    """Hours and minutes here; with seconds when it is soon, with the date when it is another day."""
    form = "%H:%M:%S" if moment - now < 600 else "%H:%M"
    if time.localtime(moment)[:3] != time.localtime(now)[:3]:
        form = f"%Y-%m-%d {form}"
    return time.strftime(form, time.localtime(moment))
