"""A frame carries the wordings of its messages, and a peer that does not know them reads the English."""

import msgspec

from hermes.core.events import Level, Notice
from hermes.i18n.messages import CHINESE, ENGLISH, N_, localize, set_language
from hermes.ipc.frames import EventFrame, StopFrame, decode_frame, encode_frame, request_decoder, response_decoder


def test_a_message_is_translated_by_the_peer_that_shows_it() -> None:
    line = encode_frame(EventFrame(Notice(Level.WARNING, N_("There is no session {session_id}.", session_id="x"))))
    frame = decode_frame(line, response_decoder())
    assert isinstance(frame, EventFrame) and isinstance(frame.event, Notice)
    assert frame.event.text == "There is no session x."
    set_language(CHINESE)
    try:
        assert localize(frame.event.text) == "没有会话 x。"
    finally:
        set_language(ENGLISH)


def test_a_peer_of_an_earlier_version_reads_the_english() -> None:
    line = encode_frame(EventFrame(Notice(Level.WARNING, N_("There is no session {session_id}.", session_id="x"))))
    assert response_decoder().decode(line) == EventFrame(Notice(Level.WARNING, "There is no session x."))


def test_a_frame_without_messages_is_as_it_was() -> None:
    assert encode_frame(StopFrame()) == msgspec.json.encode(StopFrame()) + b"\n"
    text = 'he said "wordings": {'
    frame = EventFrame(Notice(Level.INFO, text))
    assert decode_frame(encode_frame(frame), response_decoder()) == frame
    assert decode_frame(encode_frame(StopFrame()), request_decoder()) == StopFrame()
