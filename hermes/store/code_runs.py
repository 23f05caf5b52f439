"""The runs of code that call tools: the newest state of each, kept until its turn has ended."""

from collections.abc import Sequence

import msgspec

from hermes.core.code_runs import CodeRunState, NestedEffect, StoredCodeRun
from hermes.core.encoding import to_json
from hermes.core.ids import NESTED_SEPARATOR
from hermes.core.messages import ToolResultPart
from hermes.store.records import EffectState
from hermes.store.repository import Repository, Transaction, as_method, joins_next, reads, writes
from hermes.store.turns import TurnOwner, require_owner
from hermes.util.text import clean_surrogates

_COLUMNS = "engine, version, calls, dump, printed, sources, asked, closed, mac"
_RESULT = msgspec.json.Decoder(ToolResultPart)
_RESULTS = msgspec.json.Decoder(tuple[ToolResultPart, ...])
_TEXTS = msgspec.json.Decoder(tuple[str, ...])
_LAST_MESSAGE = (
    "(SELECT max(messages.id) FROM messages JOIN turns ON turns.session_id = messages.session_id WHERE turns.id = ?1)"
)
"""The message that holds the calls which a turn makes now."""


def store_state(tx: Transaction, turn_id: str, call_id: str, state: CodeRunState, *, fence: int = 0) -> None:
    """Store a run's newest state in the place of the one before."""
    if fence:
        require_owner(tx, TurnOwner(turn_id, fence))
    tx.execute(
        f"REPLACE INTO code_runs (turn_id, call_id, message_id, {_COLUMNS})"
        f" VALUES (?1, ?2, {_LAST_MESSAGE}, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        (
            turn_id,
            call_id,
            state.engine,
            state.version,
            state.calls,
            state.dump,
            clean_surrogates(state.printed),
            to_json(state.sources),
            to_json(state.asked),
            to_json(state.closed),
            state.mac,
        ),
    )


class CodeRunRepository(Repository):
    """Store operations for runs of code. A run belongs to the session's last message, which holds its call."""

    record_state = writes(as_method(store_state))
    record_state_with_next = joins_next(as_method(store_state))

    @reads
    def get(self, tx: Transaction, turn_id: str, call_id: str) -> StoredCodeRun | None:
        """Return the run of a call with the calls that its code has made, or None."""
        row = tx.execute(
            f"SELECT {_COLUMNS} FROM code_runs WHERE turn_id = ?1 AND call_id = ?2 AND message_id = {_LAST_MESSAGE}",
            (turn_id, call_id),
        ).fetchone()
        if row is None:
            return None
        effects = tx.execute(
            "SELECT call_id, tool, arguments, state, result FROM effects WHERE turn_id = ?1"
            f" AND message_id = {_LAST_MESSAGE} AND substr(call_id, 1, ?2) = ?3 ORDER BY id",
            (turn_id, len(call_id) + 1, call_id + NESTED_SEPARATOR),
        )
        found = [_to_effect(one) for one in effects]
        return StoredCodeRun(_to_state(row), {one.call_id: one for one in found})


def _to_state(row: Sequence[object]) -> CodeRunState:
    engine, version, calls, dump, printed, sources, asked, closed, mac = row
    return CodeRunState(
        engine=str(engine),
        version=str(version),
        calls=msgspec.convert(calls, int),
        dump=msgspec.convert(dump, bytes),
        printed=str(printed),
        sources=_TEXTS.decode(msgspec.convert(sources, bytes)),
        asked=_TEXTS.decode(msgspec.convert(asked, bytes)),
        closed=_RESULTS.decode(msgspec.convert(closed, bytes)),
        mac=msgspec.convert(mac, bytes),
    )


def _to_effect(row: Sequence[object]) -> NestedEffect:
    call_id, tool, arguments, state, result = row
    known = _RESULT.decode(result) if state == EffectState.DONE and isinstance(result, bytes) else None
    return NestedEffect(str(call_id), str(tool), str(arguments), known)
