"""A run of code that calls tools: what is stored of it, so that it goes on after its process has died."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from hermes.core.messages import ToolResultPart


class CodeRunState(Struct, frozen=True, kw_only=True):
    """The state of a run of code at one call of a tool."""

    engine: str
    """The interpreter, `monty` or `python`."""
    version: str = ""
    """The exact version of the interpreter whose `dump` it is."""
    calls: int = 0
    """The calls that the code has made before those it waits for."""
    dump: bytes = b""
    """The interpreter as it waits for the results of its calls; empty for one that cannot be stored."""
    printed: str = ""
    """What the code has printed so far."""
    sources: tuple[str, ...] = ()
    """The untrusted sources whose text its calls have returned so far."""
    asked: tuple[str, ...] = ()
    """What each of its calls was, as a digest of name and arguments: those it has made, and those it waits for."""
    closed: tuple[ToolResultPart, ...] = ()
    """The results of its calls that never ran, such as refused ones: the journal of effects has none of them."""
    mac: bytes = b""
    """Proves that this home's own Hermes has written all of this."""


class NestedEffect(Struct, frozen=True):
    """A call of the code that was written down as intended. `result` is None where it was under way when the process
    died, and may have happened.
    """

    call_id: str
    tool: str
    arguments: str
    result: ToolResultPart | None


class StoredCodeRun(Struct, frozen=True):
    """A run of code whose process died: its newest state, and its calls as the journal has them, by call id."""

    state: CodeRunState
    effects: Mapping[str, NestedEffect]


class CodeJournal(Protocol):
    """The journal of the runs of code of a session's turns. `call_id` is the call of `execute_code` itself."""

    async def record_code_state(self, call_id: str, state: CodeRunState, *, durable: bool = False) -> None:
        """Record the state, in one transaction with the intent that follows; with `durable` it is on disk when this
        returns.
        """
        ...

    async def read_code_run(self, call_id: str) -> StoredCodeRun | None:
        """Return what another process has left of this call's run, or None."""
        ...
