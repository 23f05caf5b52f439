"""What is stored of the events of a turn."""

from pathlib import Path

from hermes.core.events import TurnEnded, TurnStarted
from hermes.core.outcomes import ExitReason
from hermes.runtime.recorder import TurnRecorder
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.util.clock import SystemClock


async def test_a_turn_without_a_first_message_is_named_and_takes_what_waited(tmp_path: Path) -> None:
    """A fault of our own before anything was said: the session goes on, and does not meet that message again."""
    store = await Store.open(tmp_path, SystemClock())
    try:
        await store.sessions.create(NewSession(id="s", source="cli", model="m", cwd="/"))
        await store.inbox.enqueue("s", "letter", b"{}")
        recorder = TurnRecorder(store, session_id="s", epoch=1, untitled=True)
        shown: list[object] = []
        recorder.subscribers.append(shown.append)
        recorder.take_inbox_rows(["letter"])
        await recorder.emit(TurnStarted(session_id="s", turn_id="t", text="hello"))
        await recorder.emit(TurnEnded(turn_id="t", reason=ExitReason.LOCAL_ERROR, error="It failed."))
        turn = await store.turns.get_newest("s")
        assert turn is not None
        assert (turn.id, turn.reason, turn.error) == ("t", ExitReason.LOCAL_ERROR, "It failed.")
        assert [type(one) for one in shown] == [TurnStarted, TurnEnded]
        assert await store.inbox.list_waiting("s") == []
        assert recorder.turn_id == ""
    finally:
        await store.close()
