"""One slot of a key pool: where its key comes from, and what is known of it."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct, structs

from hermes.core.errors import ConfigError
from hermes.core.protocols import KeyCooldown
from hermes.llm.key_sources import KeySource
from hermes.providers.records import is_valid_key
from hermes.util.clock import Clock

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
        self.renewed_at = float("-inf")
        self.uses = 0
        self.taken_at = 0.0
        """When it was last handed out (wall time)."""
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
            except ConfigError as error:
                self._record_failure(str(error), clock)
            else:
                if is_valid_key(found):
                    self.key, self.reason = found, ""
                else:
                    self._record_failure("What was read holds a space or a line break, which no key does.", clock)
        return bool(self.key)

    def has_failed_recently(self, clock: Clock) -> bool:
        """Return whether its key could not be read a moment ago."""
        return not self.key and clock.monotonic() - self._failed_at < _FAILED_SECONDS

    def _record_failure(self, why: str, clock: Clock) -> None:
        self.reason = f"{self.label}: {why}"
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
