"""Where a conversation is cut, for conversations of every shape."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.context.pins import RetentionLimits, estimate_message_tokens, find_middle
from hermes.core.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, user_message
from hermes.store.records import MessageState, StoredMessage

Group = tuple[str, int]


def rows_of(groups: list[Group]) -> list[StoredMessage]:
    messages: list[Message] = []
    for number, (kind, size) in enumerate(groups):
        text = "x" * size
        if kind == "user":
            messages.append(user_message(text))
        elif kind == "text":
            messages.append(Message(role=Role.ASSISTANT, parts=(TextPart(text),)))
        else:
            call = ToolCallPart(call_id=f"c{number}", name="t", arguments="{}")
            messages.append(Message(role=Role.ASSISTANT, parts=(call,)))
            messages.append(Message(role=Role.TOOL, parts=(ToolResultPart(f"c{number}", "t", text),)))
    return [
        StoredMessage(number, 1, None, MessageState.ACTIVE, 0.0, None, None, message)
        for number, message in enumerate(messages, 1)
    ]


groups = st.lists(st.tuples(st.sampled_from(["user", "text", "calls"]), st.integers(0, 6_000)), min_size=1, max_size=60)
rooms = st.builds(
    RetentionLimits,
    first=st.integers(0, 5),
    first_tokens=st.integers(0, 4_000),
    last=st.integers(1, 30),
    last_tokens=st.integers(0, 20_000),
    most=st.integers(50, 40_000),
)


@given(groups, rooms, st.integers(0, 60))
def test_no_group_is_split_and_what_is_protected_stays(shape: list[Group], room: RetentionLimits, made: int) -> None:
    rows = rows_of(shape)
    sizes = [estimate_message_tokens(row.message) for row in rows]
    start, end = find_middle(rows, sizes, room, {made})
    assert 0 <= start <= end < len(rows)
    for place in (start, end):
        assert rows[place].message.role is not Role.TOOL
    tail = sizes[end:]
    newest = max(place for place, row in enumerate(rows) if row.message.role is not Role.TOOL)
    if sum(sizes[-room.last :]) <= room.most and start < end:
        # All that is protected fits: it stays, unless its first message is a result whose call does not fit.
        assert len(tail) >= min(room.last, len(rows)) or sum(tail) + sum(sizes[end - 2 : end]) > room.most
    assert sum(tail) <= room.most or end == newest
    if start < end:
        assert sum(sizes[:start]) <= room.first_tokens
        assert made not in {row.id for row in rows[:start]}


def test_the_first_three_and_the_last_twenty_stay() -> None:
    rows = rows_of([("user", 40), ("calls", 40)] * 40)
    sizes = [estimate_message_tokens(row.message) for row in rows]
    room = RetentionLimits(first=3, first_tokens=5_000, last=20, last_tokens=0, most=5_000)
    start, end = find_middle(rows, sizes, room, set())
    assert start == 3 and len(rows) - 21 <= end <= len(rows) - 20
    assert find_middle(rows[:22], sizes[:22], room, set())[0] in (22, 1, 2, 3)


def test_what_is_protected_gives_way_when_it_does_not_fit() -> None:
    rows = rows_of([("user", 400), ("calls", 40_000)] * 10)
    sizes = [estimate_message_tokens(row.message) for row in rows]
    room = RetentionLimits(first=3, first_tokens=500, last=20, last_tokens=2_000, most=25_000)
    start, end = find_middle(rows, sizes, room, set())
    assert start == 1 and sum(sizes[end:]) <= 25_000 and end > 20
