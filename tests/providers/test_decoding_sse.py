"""The event stream reader against the standard's rules, cut anywhere."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.providers.decoding import SseReader
from hermes.providers.wire import ServerEvent, WireError


def read(pieces: list[bytes]) -> list[ServerEvent]:
    reader = SseReader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.close()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_fields_comments_and_lines_in_every_line_end(end: str) -> None:
    lines = [": hello", "event: a", "id: 7", "data: one", "data:two", "data", "", "retry: 5", "", "data: x:y ", "", ""]
    assert read([end.join(lines).encode()]) == [
        ServerEvent(event="a", data="one\ntwo\n", id="7"),
        ServerEvent(event="", data="x:y "),
    ]


def test_a_byte_order_mark_is_passed_over_once() -> None:
    assert read([b"\xef", b"\xbb\xbfdata: a\n\n", b"\xef\xbb\xbfdata: b\n\n"]) == [ServerEvent(event="", data="a")]


def test_an_event_name_does_not_outlive_its_event() -> None:
    assert read([b"event: a\n\ndata: x\n\n"]) == [ServerEvent(event="", data="x")]


def test_the_last_event_counts_though_its_empty_line_is_missing() -> None:
    assert read([b"data: a\n\ndata: b"]) == [ServerEvent(event="", data="a"), ServerEvent(event="", data="b")]


def test_bytes_that_are_no_text_do_not_stop_the_stream() -> None:
    assert read([b"data: a\xffb\n\n"]) == [ServerEvent(event="", data="a\ufffdb")]


@pytest.mark.parametrize("piece", [b"data: yyyyyyyyyy", b"data: yyyyyyyyyy\n"])
def test_one_endless_event_is_refused(piece: bytes) -> None:
    reader = SseReader(limit=1000)
    with pytest.raises(WireError, match="more than 1000 bytes"):
        for _ in range(400):
            reader.feed(piece)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)
events = st.lists(st.tuples(text.map(str.strip), st.lists(text, min_size=1, max_size=3)), max_size=5)


@given(events=events, end=st.sampled_from(["\n", "\r\n", "\r"]), cuts=st.lists(st.integers(0, 200), max_size=12))
def test_where_the_bytes_are_cut_changes_nothing(
    events: list[tuple[str, list[str]]], end: str, cuts: list[int]
) -> None:
    lines: list[str] = []
    for name, data in events:
        lines += ([f"event: {name}"] if name else []) + [f"data: {line}" for line in data] + [""]
    stream = "".join(line + end for line in lines).encode()
    marks = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(marks)]
    expected = [ServerEvent(event=name, data="\n".join(data)) for name, data in events]
    assert read(pieces) == read([stream]) == read([stream[i : i + 1] for i in range(len(stream))]) == expected
