"""One place in a pool: where its key comes from, and what is known of it."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct, structs

from hermes.core.errors import ConfigError
from hermes.core.protocols import KeyCooldown
from hermes.llm.key_sources import KeySource
from hermes.providers.key_variables import sound_key
from hermes.util.clock import Clock

_LONG_ENOUGH = 20
"""Of a key that is shorter nothing is shown or written down, not even a hash: it could be guessed."""
_BROKEN_SECONDS = 30.0
"""How long a source that failed is left alone."""


class KeyState(Struct, frozen=True, kw_only=True):
    """How a key stands, without the key."""

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


class Slot:
    """A key's place. `name` is how the ledger knows it, `label` how the person does."""

    def __init__(self, name: str, source: KeySource, *, label: str = "", organisation: str = "", key: str = "") -> None:
        self.name = name
        self.label = label or name
        self.source = source
        self.organisation = organisation
        self.key = key
        """Empty until it was read."""
        self.reason = ""
        """Why it could not be read."""
        self.renewed_at = float("-inf")
        self.uses = 0
        self.taken_at = 0.0
        """When it was last handed out (wall time)."""
        self._failed_at = float("-inf")
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"Slot({self.name!r}, {self.source.shown!r})"

    async def open(self, clock: Clock, *, anew: bool = False) -> bool:
        """Read the key if that was not done yet; whether there is one."""
        if self.key and not anew:
            return True
        async with self._opening:
            if self.key and not anew:
                return True
            try:
                found = await self.source.read()
            except ConfigError as error:
                self._fail(str(error), clock)
            else:
                if sound_key(found):
                    self.key, self.reason = found, ""
                else:
                    self._fail("What was read holds a space or a line break, which no key does.", clock)
        return bool(self.key)

    def broken(self, clock: Clock) -> bool:
        """Whether its key could not be read a moment ago."""
        return not self.key and clock.monotonic() - self._failed_at < _BROKEN_SECONDS

    def _fail(self, why: str, clock: Clock) -> None:
        self.reason = f"{self.label}: {why}"
        self._failed_at = clock.monotonic()


def state_of(slot: Slot, cooldowns: Sequence[KeyCooldown], now: float) -> KeyState:
    """How a slot stands under what is noted against it."""
    state = KeyState(
        slot=slot.name,
        label=slot.label,
        source=slot.source.shown,
        ending=ending_of(slot.key),
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


def ending_of(key: str) -> str:
    """What of a key may be shown."""
    return key[-4:] if len(key) >= _LONG_ENOUGH else ""


def mark_of(key: str, salt: str) -> str:
    """What tells one value of a key from another without giving it away."""
    if len(key) < _LONG_ENOUGH:
        return ""
    from hashlib import blake2b

    return blake2b(key.encode(), key=salt.encode()[:64], digest_size=8).hexdigest()
