"""A question is worded and answered alike in both chats, and ends with what it is about."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from hermes.cli.approval_questions import ApprovalAsker, format_question, list_answers, list_risky_parts
from hermes.cli.plain import prompts
from hermes.core.events import ApprovalAnswered, ApprovalAsked, Event, TurnEnded, TurnStarted
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.i18n.messages import N_
from hermes.util.localizable import join_localizable

ASKED = ApprovalAsked(
    "approval_1",
    "call_1",
    "terminal",
    "rm -r old\u200b\necho done",
    "rule",
    "it deletes files",
    cwd="/home/me/project",
    once_covers="this call",
    session_covers="`rm -r *`",
    no_covers="`rm`",
)


class RecordingAsker(ApprovalAsker):
    """Shows nothing, and answers when `answer` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: asyncio.Future[AnswerScope] = asyncio.get_running_loop().create_future()
        self.background_ids: list[str] = []
        self.closed: list[tuple[str, str]] = []

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        return None

    async def ask_approval(self, event: ApprovalAsked, background_id: str) -> AnswerScope:
        self.background_ids.append(background_id)
        return await self.answer

    def show_closed(self, style: str, text: str) -> None:
        self.closed.append((style, text))


class Session:
    """As much of a session as an asker sees."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.approvals = self
        self.can_ask = False
        self.busy = False
        self.unasked = 0
        self.answers: list[tuple[str, AnswerScope, str]] = []
        self.answered = asyncio.Event()
        self.publish: Callable[[Event], None] = lambda event: None

    def subscribe(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        self.publish = subscriber
        return lambda: None

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        self.answers.append((approval_id, scope, by))
        self.answered.set()
        return True


def attach(asker: ApprovalAsker, session_id: str, *, background: bool = False) -> Session:
    session = Session(session_id)
    asker.attach_session(session, background=background)  # type: ignore[arg-type]
    return session


async def test_a_question_is_asked_once_and_its_answer_sent() -> None:
    asker = RecordingAsker()
    shown, background = attach(asker, "shown"), attach(asker, "other", background=True)
    assert shown.can_ask and background.can_ask
    shown.publish(ASKED)
    background.publish(ASKED)
    asker.answer.set_result(AnswerScope.ONCE)
    await shown.answered.wait()
    await background.answered.wait()
    assert asker.background_ids == ["", "other"] and asker.closed == []
    assert shown.answers == background.answers == [("approval_1", AnswerScope.ONCE, "person")]


@pytest.mark.parametrize(
    ("event", "style", "text"),
    [
        (ApprovalAnswered("approval_1", True, "person"), "notice", "It was answered elsewhere: allowed."),
        (ApprovalAnswered("approval_1", False, "withdrawn"), "notice", "The question was withdrawn."),
        (ApprovalAnswered("approval_1", False, "timeout"), "warning", "had no answer in time, which means no."),
        (TurnEnded(turn_id="t", reason=ExitReason.INTERRUPTED), "", ""),
    ],
)
async def test_a_question_that_nobody_waits_for_is_closed_with_the_reason(event: Event, style: str, text: str) -> None:
    asker = RecordingAsker()
    session, other = attach(asker, "one"), attach(asker, "two")
    session.publish(ASKED)
    other.publish(TurnEnded(turn_id="t", reason=ExitReason.INTERRUPTED))
    assert asker.closed == []
    session.publish(event)
    await asker.close()
    ((found_style, found_text),) = asker.closed
    assert found_style == style and found_text.endswith(text) and session.answers == []


def test_both_chats_say_the_same_of_a_question() -> None:
    lines = [text for _, text in format_question(ASKED, "session_2")]
    assert lines == [
        "The session session_2, which works in the background, asks. Run this command?",
        "    rm -r old\\u{200b}",
        "    echo done",
        "  in /home/me/project",
        "  • it deletes files",
        "  A no holds until the session is closed, for: `rm`",
    ]
    assert prompts.format_question(ASKED, "session_2").splitlines() == [
        "",
        f"! {lines[0]}",
        *lines[1:],
        "  [s]ession also allows, until it is closed: `rm -r *`",
        "  Allow it [o]nce (or yes)? [o/s/N] ",
    ]


def test_the_worst_reason_is_first_and_the_question_is_one_line() -> None:
    reasons = [N_("it writes {real}: {reason}", real="/x/deletes", reason="a setting"), "it starts another program"]
    reasons.append(N_("it deletes {path}", path="/x"))
    joined = join_localizable(". ", (join_localizable("; ", reasons), N_("`/new` begins anew")))
    lines = format_question(structs.replace(ASKED, reason=joined, cwd="", no_covers=""))
    assert lines[0] == ("question.danger", "Run this command?")
    assert lines[3:] == [
        ("failed", "  • it deletes /x"),
        ("question.reason", "  • it writes /x/deletes: a setting"),
        ("question.reason", "  • it starts another program"),
        ("question.detail", "  `/new` begins anew"),
    ]
    harmless = format_question(structs.replace(ASKED, reason="it starts another program"))
    assert harmless[0][0] == "question.asks"


@pytest.mark.parametrize(
    ("tool", "rule", "subject", "title"),
    [
        ("terminal", "network", "connect pypi.org", "Allow network access to pypi.org:443?"),
        ("terminal", "network", "connect pypi.org:443", "Allow network access to pypi.org:443?"),
        ("terminal", "network", "connect evil\u202emoc", "Allow network access to evil\\u{202e}moc:443?"),
        ("terminal", "outside-workspace", "write /x", "Let the command write here?"),
        ("terminal", "rm", "write /x", "Run this command?"),
        ("write_file", "outside-workspace", "write_file /x", "Write this file?"),
        ("mcp__a__b", "mcp", "mcp__a__b {}", "Allow mcp__a__b?"),
    ],
)
def test_the_question_says_what_it_is_about(tool: str, rule: str, subject: str, title: str) -> None:
    reason = N_("the command connects to {host}, port {port}{led}", host="pypi.org", port=443, led="")
    asked = structs.replace(ASKED, tool=tool, rule=rule, subject=subject, reason=reason)
    lines = format_question(asked)
    assert lines[0] == ("question.asks", title) and any(style == "question.subject" for style, _ in lines)


def test_only_answers_that_are_offered_count_and_enter_means_no() -> None:
    assert list_answers(ASKED) == {AnswerScope.DENY: "", AnswerScope.ONCE: "", AnswerScope.SESSION: "`rm -r *`"}
    said = {line: prompts.parse_answer(line, ASKED) for line in ("", "n", "O", " yes ", "s", "always", "sure")}
    assert said == {
        "": AnswerScope.DENY,
        "n": AnswerScope.DENY,
        "O": AnswerScope.ONCE,
        " yes ": AnswerScope.ONCE,
        "s": AnswerScope.SESSION,
        "always": None,
        "sure": None,
    }
    assert prompts.parse_answer(None, ASKED) is AnswerScope.DENY


def test_the_part_of_a_dangerous_command_that_is_asked_about_is_known_from_what_the_answers_cover() -> None:
    command = "echo begun && cd src && rm -r old && make"
    asked = structs.replace(ASKED, subject=command, session_covers="`cd src && rm -r old`", always_covers="`rm -r old`")
    assert list_risky_parts(asked) == ["rm -r old"]
    assert list_risky_parts(structs.replace(asked, reason="it reaches another host")) == []
    assert list_risky_parts(structs.replace(asked, tool="write_file")) == []
    assert list_risky_parts(structs.replace(asked, subject="rm -r old")) == []
    assert list_risky_parts(structs.replace(asked, session_covers="", always_covers="")) == []


OF_AGENT = structs.replace(ASKED, approval_id="approval_2", asker="dig \x1b[2J deep", asker_id="child")


def test_the_title_names_the_sub_agent_that_asks() -> None:
    (_, title), *_ = format_question(OF_AGENT)
    assert title == "Sub-agent dig \\u{1b}[2J deep asks. Run this command?"


async def test_a_sub_agents_question_survives_the_end_of_its_parents_turn() -> None:
    asker = RecordingAsker()
    session = attach(asker, "one")
    session.publish(ASKED)
    session.publish(OF_AGENT)
    session.publish(TurnEnded(turn_id="t", reason=ExitReason.TEXT_RESPONSE))
    assert len(asker.closed) == 1
    asker.answer.set_result(AnswerScope.ONCE)
    await session.answered.wait()
    assert session.answers == [("approval_2", AnswerScope.ONCE, "person")]


async def test_a_sub_agents_question_is_closed_when_it_is_withdrawn() -> None:
    asker = RecordingAsker()
    session = attach(asker, "one")
    session.publish(OF_AGENT)
    session.publish(ApprovalAnswered("approval_2", allowed=False, by="withdrawn"))
    assert asker.closed == [("notice", "The question was withdrawn.")] and session.answers == []


class LineAsker(RecordingAsker):
    """Has no place for questions between turns."""

    asks_between_turns = False

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[str] = []

    def announce(self, event: ApprovalAsked) -> None:
        self.announced.append(event.approval_id)


async def test_where_questions_have_no_place_between_turns_they_are_announced() -> None:
    asker = LineAsker()
    session = attach(asker, "one")
    session.publish(TurnStarted("t", "one", "hi"))
    session.publish(OF_AGENT)
    await asyncio.sleep(0)
    assert (asker.background_ids, asker.announced) == ([""], [])
    session.publish(TurnEnded(turn_id="t", reason=ExitReason.TEXT_RESPONSE))
    session.publish(structs.replace(OF_AGENT, approval_id="approval_3"))
    await asyncio.sleep(0)
    assert (asker.background_ids, asker.announced) == ([""], ["approval_2", "approval_3"])
    await asker.close()
