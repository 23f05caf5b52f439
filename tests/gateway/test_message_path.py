"""The way of a warm message: what is done once is done once, each text is redacted at the places that are named, and
what was said before costs the database nothing.
"""

from typing import Any

import apsw
import pytest

from bench.paths import KEY_MADE, ROW_QUERY, ROW_READ, record_warm_message
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.ntfy import Fake

pytestmark = pytest.mark.slow

REDACTIONS = {
    ("gateway/router.py", "_redact_event"): 1,
    ("gateway/chat_session.py", "ChatSession.post_inbound"): 1,
    ("runtime/recorder.py", "TurnRecorder.redact_message"): 2,
    ("runtime/recorder.py", "TurnRecorder._redact_event"): 2,
    ("runtime/recorder.py", "TurnRecorder._hold_back"): 1,
    ("admin/service/gateway_log.py", "GatewayLog.write_entry"): 4,
    ("sessions/turn_log.py", "TurnLog.write_line"): 1,
}
"""The person's message into the journal, the inbox, the request and the transcript, and what is shown of the turn's
beginning; the answer in pieces, in the transcript and at the turn's end; four lines of the gateway's log and one of the
home's.
"""


async def test_a_warm_message_is_read_addressed_and_redacted_once_at_each_place() -> None:
    recorder = await record_warm_message()
    assert (recorder.calls[ROW_QUERY], recorder.calls[ROW_READ], recorder.calls[KEY_MADE]) == (1, 1, 1)
    assert dict(recorder.callers) == REDACTIONS


async def test_no_query_of_a_turn_reads_more_rows_the_more_turns_there_were() -> None:
    scanned: dict[str, int] = {}
    """By statement: the most rows that one run of it has read in order, without looking them up in an index."""

    def note_scan(event: dict[str, Any]) -> None:
        rows = event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
        scanned[event["sql"]] = max(rows, scanned.get(event["sql"], 0))

    def watch_connection(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note_scan)

    async def take_turns(chat: Fake, count: int) -> dict[str, int]:
        scanned.clear()
        for turn in range(len(chat.messages) + 1, len(chat.messages) + count + 1):
            await chat.say("hello")
            await chat.until(lambda turn=turn: len(chat.messages) == turn)  # type: ignore[misc]
        return scanned.copy()

    apsw.connection_hooks.append(watch_connection)
    try:
        async with ScriptedServer(ScriptedModel([], then=Say("Seen."))) as server, Fake() as chat:
            with home_for(server, {"ntfy": chat}, batch_seconds=0) as home:
                async with running(home):
                    before, after = await take_turns(chat, 10), await take_turns(chat, 40)
    finally:
        apsw.connection_hooks.remove(watch_connection)
    assert any("FROM deliveries" in sql for sql in before)
    assert {sql: rows for sql, rows in after.items() if rows > before.get(sql, 0) + 10} == {}
