"""The keys of one provider: where each comes from, which one a call takes, how long one that failed is left alone.

A cooldown ends when the provider said it would, else after a time of our own. The provider's word is
kept: a call that finds all keys waiting gets a failure that says until when. A time of our own only
says which key to prefer: a call that finds no better one is made with the key that is due first, since
the provider's answer is worth more than our guess. Processes learn of each other's cooldowns within a
second, through the ledger.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, structs

from hermes.config.settings import Strategy
from hermes.core.errors import ConfigError, HermesError
from hermes.core.outcomes import FailureKind, Scope
from hermes.core.protocols import KeyCooldown, KeyLedger
from hermes.core.secret import KeyHolder
from hermes.core.stream import Failure
from hermes.i18n.messages import N_
from hermes.llm.key_sources import KeySource
from hermes.providers.records import check_refused_key, is_valid_key
from hermes.providers.wire import Endpoint
from hermes.util.clock import Clock
from hermes.util.localizable import join_localizable

_MIN_SHOWN_LENGTH = 20
"""Of a shorter key nothing is shown or written down, not even a hash: it could be guessed."""
_FAILED_SECONDS = 30.0
"""How long a source that failed is left alone."""


class KeyState(Struct, frozen=True, kw_only=True):
    """The state of a key, without the key."""

    slot: str
    label: str
    source: str
    ending: str
    """The key's last four characters; empty for a short one, and for one that was not read."""
    state: str
    """`ready`, `cooling` or `dead`."""
    reason: str = ""
    model: str = ""
    """The only model that the cooldown is about; empty: all."""
    until: float | None = None
    uses: int = 0


class KeySlot:
    """A slot for a key. `name` is how the ledger knows it, `label` how the user does."""

    def __init__(self, name: str, source: KeySource, *, label: str = "", organisation: str = "", key: str = "") -> None:
        self.name = name
        self.label = label or name
        self.source = source
        self.organisation = organisation
        self.key = key
        """Empty until it was read."""
        self.reason = ""
        """Why it could not be read."""
        self.unreached: Failure | None = None
        """Why the key could not be read, where trying again soon makes sense: its server was not reached."""
        self.renewed_at = float("-inf")
        self.uses = 0
        self.taken_at = 0.0
        """When it was last handed out (wall time)."""
        self.advice = ""
        """What the person can do when its key is refused; empty: what they can do with any key."""
        self.address = ""
        """Where this key is to be sent; empty: to the endpoint's own address."""
        self._failed_at = float("-inf")
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Slot({self.name!r}, {self.source.description!r})"

    async def read_key(self, clock: Clock, *, reread: bool = False) -> bool:
        """Read the key if that was not done yet; return whether there is one."""
        if self.key and not reread:
            return True
        async with self._opening:
            if self.key and not reread:
                return True
            try:
                found = await self.source.read_key()
                check_refused_key(found)
            except ConfigError as error:
                self._record_failure(str(error), clock)
            else:
                if is_valid_key(found):
                    self.key, self.reason = found, ""
                else:
                    self._record_failure("What was read holds a space or a line break, which no key does.", clock)
        return bool(self.key)

    async def renew_key(self, clock: Clock, refused: str) -> bool:
        """Get another key in the place of the refused one; return whether there is one."""
        await self.read_key(clock, reread=True)
        return self.key not in ("", refused)

    def is_spent(self, refused: str) -> bool:
        """Return whether nothing but a person can help, now that this key was refused."""
        del refused
        return False

    def has_failed_recently(self, clock: Clock) -> bool:
        """Return whether its key could not be read a moment ago."""
        return not self.key and clock.monotonic() - self._failed_at < _FAILED_SECONDS

    def _record_failure(self, why: str, clock: Clock) -> None:
        self.reason = join_localizable(": ", (self.label, why))
        self._failed_at = clock.monotonic()


def describe_slot(slot: KeySlot, cooldowns: Sequence[KeyCooldown], now: float) -> KeyState:
    """Return the state of a slot under what is noted against it."""
    state = KeyState(
        slot=slot.name,
        label=slot.label,
        source=slot.source.description,
        ending=key_ending(slot.key),
        state="ready",
        uses=slot.uses,
    )
    ends = {one: one.began_at + one.seconds for one in cooldowns if one.seconds is not None}
    dead = next((one for one in cooldowns if one not in ends), None)
    if dead is not None:
        return structs.replace(state, state="dead", reason=dead.kind.value, model=dead.model)
    last = max(ends, key=lambda one: ends[one], default=None)
    if last is None or ends[last] <= now:
        return state
    return structs.replace(state, state="cooling", reason=last.kind.value, model=last.model, until=ends[last])


def key_ending(key: str) -> str:
    """Return the part of a key that may be shown."""
    return key[-4:] if len(key) >= _MIN_SHOWN_LENGTH else ""


def hash_key(key: str, salt: str) -> str:
    """Return a hash that tells one value of a key from another without giving it away."""
    if len(key) < _MIN_SHOWN_LENGTH:
        return ""
    from hashlib import blake2b

    return blake2b(key.encode(), key=salt.encode()[:64], digest_size=8).hexdigest()


class KeyLease(KeyHolder, frozen=True):
    """A key for one call. `key_id` names its slot without showing the key; `model` and `taken_at` (wall time)
    say for what and when it was leased.
    """

    key: str
    key_id: str = ""
    model: str = ""
    taken_at: float = 0.0
    organisation: str = ""
    """The account that the key belongs to, where it is known."""
    advice: str = ""
    """What the person can do when the key is refused; empty: what they can do with any key."""
    address: str = ""
    """Where the key is to be sent; empty: to the endpoint's own address."""

    def use_in(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with this key, at the address that it is for."""
        return structs.replace(
            endpoint,
            api_key=self.key,
            organisation=self.organisation,
            base_url=self.address or endpoint.base_url,
        )


class ProviderKeys(Protocol):
    """The keys of one provider."""

    async def lease_key(self, model: str) -> KeyLease | Failure:
        """Return a key that may be used for this model now, or a failure that says until when there is none."""
        ...

    async def has_usable_key(self, model: str) -> bool:
        """Return whether `lease_key` would give a key now."""
        ...

    async def report_success(self, lease: KeyLease) -> None:
        """Note that the call was answered."""
        ...

    async def report_failure(self, lease: KeyLease, failure: Failure) -> bool:
        """Note that the call failed, charged to what the failure's scope names.

        Return whether another key may be tried at once.
        """
        ...

    def was_renewed(self, lease: KeyLease) -> bool:
        """Return whether the lease's key was refused and has been replaced by a newer one of the same account."""
        ...


class SingleKey:
    """A single key (or none) that is tried however often it fails."""

    def __init__(self, key: str) -> None:
        self._lease = KeyLease(key)

    async def lease_key(self, _model: str) -> KeyLease | Failure:
        """Return the key."""
        return self._lease

    async def has_usable_key(self, _model: str) -> bool:
        """Return True always."""
        return True

    async def report_success(self, lease: KeyLease) -> None:
        """Do nothing: nothing is counted."""

    async def report_failure(self, _lease: KeyLease, _failure: Failure) -> bool:
        """Return False: there is no other key."""
        return False

    def was_renewed(self, _lease: KeyLease) -> bool:
        """Return False: the key stays what it is."""
        return False


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
        self._read_at = float("-inf") if ledger is not None and ledger.has_notes else clock.monotonic()

    async def refresh(self, merge_uses: Callable[[Mapping[str, int]], None], *, force: bool = False) -> None:
        """Read the ledger when what is known of it is old; `merge_uses` gets the uses it counts, by slot."""
        moment = self._clock.monotonic()
        if self._ledger is not None and (force or moment - self._read_at >= _FRESH_SECONDS):
            self._read_at, changes = moment, self._changes
            with contextlib.suppress(HermesError):
                notes = await self._ledger.read_notes(self._provider)
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
                await self._ledger.cool(self._provider, cooldowns, self._clock.now())
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
                await self._ledger.clear(self._provider, slot_name, model=model)
            except HermesError:
                self._ledger = None

    def count_use(self, slot: KeySlot) -> None:
        """Count a use, for the other processes too."""
        slot.uses += 1
        if self._ledger is not None:
            self._ledger.count_use(self._provider, slot.name)

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


LONG_COOLDOWN = 3600.0
SHORT_COOLDOWN = 300.0
"""Seconds that a key is left alone when the provider names no time: after a refused key, SHORT."""
_MAX_CALL_WAIT = 120.0
"""The longest sure wait that is rather sat out than a key tried that only our own guess blocks."""
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
        if failure.kind in KEY_REFUSALS and await self._reread_refused(slot, lease.key, renew=True):
            return True
        if slot.unreached is not None:
            return False  # the key may be as good as ever: nothing is charged to it
        if not self._cooldowns.salt:
            await self._cooldowns.refresh(self._merge_uses, force=True)
        await self._cooldowns.add_cooldowns(self._build_cooldowns(slot, lease, failure))
        return any(self._is_ready(other, lease.model) for other in self._slots if other is not slot)

    def was_renewed(self, lease: KeyLease) -> bool:
        """Return whether the lease's key was refused and has been replaced by a newer one of the same account."""
        slot = next((slot for slot in self._slots if slot.name == lease.key_id), None)
        return slot is not None and bool(slot.advice) and slot.key not in ("", lease.key)

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
        absences = (slot.unreached for slot in self._slots if slot.unreached is not None)
        return next(absences, None) or self._no_key_failure(model, first)

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
        # An only key whose server was not reached is asked for at each try: there is none to use in the meantime.
        rests = slot.has_failed_recently(self._clock) and (slot.unreached is None or len(self._slots) > 1)
        return not rests and not self._cooldowns.list_blocking(slot, model)

    def _lease_slot(self, slot: KeySlot, model: str) -> KeyLease:
        if len(self._slots) > 1:
            self._next = self._slots.index(slot) + 1
            self._cooldowns.count_use(slot)
        slot.taken_at = self._clock.now()
        return KeyLease(slot.key, slot.name, model, slot.taken_at, slot.organisation, slot.advice, slot.address)

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
        if _is_for_good(failure, slot, lease.key):
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
            if one is slot or (everyone and slot.organisation and one.organisation == slot.organisation)
        ]

    async def _reread_refused(self, slot: KeySlot, refused: str, *, renew: bool = False) -> bool:
        """Return whether the slot's source holds another key than the refused one; it is read again once in a while.

        `renew`: an account that is signed in to may be asked for another one, which is done once for a refusal.
        """
        if slot.key != refused:
            return bool(slot.key)
        if renew and slot.advice:
            return await slot.renew_key(self._clock, refused)
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
        keys = (
            N_("All {slots} keys of {title}", slots=len(self._slots), title=self._title)
            if many
            else N_("The key of {title}", title=self._title)
        )
        if wait < float("inf"):
            return self._waiting_failure(model, wait, keys)
        reasons = [slot.reason for slot in self._slots if slot.reason]
        if reasons:
            return Failure(kind=FailureKind.AUTH, message=reasons[0], hint=_HINT, fall_back=True, scope=Scope.KEY)
        message = N_("{keys} {many} refused for good.", keys=keys, many="are" if many else "is")
        hint = next((slot.advice for slot in self._slots if slot.advice), _HINT)
        return Failure(kind=FailureKind.AUTH_PERMANENT, message=message, hint=hint, fall_back=True, scope=Scope.KEY)

    def _waiting_failure(self, model: str, wait: float, keys: str) -> Failure:
        now = self._clock.now()
        found = [one for slot in self._slots for one in self._cooldowns.list_blocking(slot, model)]
        kind = min(found, key=lambda one: seconds_left(one, now)).kind
        at = format_clock_time(now + wait, now)
        message = (
            N_("{keys} wait; the first can be used again at {at} ({value}).", keys=keys, at=at, value=kind.value)
            if len(self._slots) > 1
            else N_("{keys} waits; it can be used again at {at} ({value}).", keys=keys, at=at, value=kind.value)
        )
        return Failure(
            kind=kind,
            message=message,
            hint=_HINT,
            retryable=True,
            fall_back=True,
            scope=Scope.KEY,
            retry_after=wait,
        )


def _is_for_good(failure: Failure, slot: KeySlot, key: str) -> bool:
    """Return whether no time helps a key that failed like this."""
    if failure.kind is FailureKind.AUTH:
        return slot.is_spent(key)
    return failure.kind is FailureKind.AUTH_PERMANENT


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
