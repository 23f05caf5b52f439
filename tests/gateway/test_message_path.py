"""The way of a warm message: what is done once is done once, and each text is redacted at the places that are named."""

import pytest

from bench.paths import KEY_MADE, ROW_QUERY, ROW_READ, record_warm_message

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
