"""The full chat in a real terminal: turns with tools, questions, and control while it works."""

import re

import pytest

from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux

pytestmark = NEEDED
PROMPT = "›"
HANG = ReplyDelivery(ending=Ending.HANG, at=4)


async def test_tools_a_diff_the_way_back_and_older_sessions() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "poem.txt", "content": "one\ntwo\nthree\n"}),)),
        Say(calls=(Call("patch", {"path": "poem.txt", "old_string": "two", "new_string": "2"}),)),
        Say("The poem is written."),
        Say("Something about turnips."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("Hermes", PROMPT, "mock-model")
                await screen.enter("write a poem")
                shown = await screen.answers("The poem is written.")
                order = ("write a poem", "write poem.txt", "patch poem.txt", "-two", "+2", "The poem is", "mock-model")
                places = [shown.index(one) for one in order]
                assert places == sorted(places), shown
                await screen.enter("/new")
                await screen.shows("hermes --resume")
                await screen.enter("speak of vegetables")
                await screen.answers("Something about turnips.")
                await screen.enter("/sessions")
                await screen.shows("Go on with which session?", "❯", "Enter takes it")
                await screen.press("Enter")
                await screen.shows("Going on with", "› write a poem")
                await screen.press("C-l")
                await screen.enter("/clear")
                shown = await screen.shows("goes on with it.", "A new session: ")
                assert "write a poem" not in shown
                await screen.enter("/search turnips")
                await screen.shows("Found; go on with which session?", "Enter takes it")
                await screen.press("Escape")
                await screen.hides("Found; go on")
                left = await screen.leave()
                session = re.findall(r"hermes --resume (\S+)", left)[-1]
            async with in_tmux(home, "--resume", session) as screen:
                await screen.shows("Going on with", "› write a poem", "The poem is written.", "mock-model")
                await screen.press("C-c")
                await screen.shows("Ctrl-C again or Ctrl-D leaves.")
                await screen.press("C-c")
                await screen.ends()


async def test_what_was_done_is_taken_back() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "poem.txt", "content": "one\ntwo\n"}),)),
        Say("The poem is written."),
        Say(calls=(Call("write_file", {"path": "poem.txt", "content": "something else\n"}),)),
        Say("It is another one now."),
        Say("Said again in other words."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            poem = home.cwd / "poem.txt"
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("write a poem")
                await screen.answers("The poem is written.")
                await screen.enter("write another one")
                await screen.answers("It is another one now.")
                await screen.enter("/diff")
                await screen.shows("-two", "+something else")
                await screen.press("C-l")
                await screen.enter("/undo")
                await screen.shows("1 turn was taken back.", "poem.txt", "› write another one")
                assert poem.read_text() == "one\ntwo\n"
                await screen.press("C-u")
                await screen.hides("› write another one")
                await screen.enter("/redo")
                await screen.shows("messages are back.")
                assert poem.read_text() == "something else\n"
                await screen.enter("/rollback")
                await screen.shows("before which turn?", "Enter takes it")
                await screen.press("Enter")
                await screen.hides("Enter takes it")
                await screen.wait_for(lambda: poem.read_text() == "one\ntwo\n", "the file is not what it was")
                await screen.enter("/retry")
                await screen.shows("Said again in other words.")
                await screen.leave()


async def test_steer_queue_interrupt_and_stop() -> None:
    wait = Call("terminal", {"command": "until [ -e go ]; do sleep 0.05; done; echo went"})
    replies: list[Reply] = [
        Say(calls=(wait,)),
        Say("first answer"),
        Say("second answer"),
        Say("a long tale that never ends", delivery=HANG),
        Say("instead of it"),
        Say(calls=(Call("write_file", {"path": "made.txt", "content": "x"}),)),
        Say("and then nothing more", delivery=HANG),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("begin")
                await screen.shows("until [ -e go ]", " s")
                await screen.enter("join the turn")
                await screen.shows("joins soon: join the turn")
                await screen.enter("/queue a turn of its own")
                await screen.shows("↳ queued: a turn of its own", "2 waiting")
                (home.cwd / "go").touch()
                shown = await screen.shows("first answer", "second answer")
                order = ("› begin", "› join the turn", "first answer", "› a turn of its own", "second answer")
                places = [shown.index(one) for one in order]
                assert places == sorted(places), shown
                assert "queued:" not in await screen.hides("waiting")
                assert "join the turn" in str(server.requests[1].body)
                await screen.enter("tell me a tale")
                await screen.shows("a long tale")
                await screen.enter("/interrupt something else")
                shown = await screen.shows("instead of it")
                assert "Stopped after" in shown and "nothing was changed" in shown
                await screen.enter("make a file")
                await screen.shows("and then")
                await screen.press("C-c")
                await screen.shows("1 file changed (made.txt)")
                await screen.enter("/quit")
                await screen.ends()
        assert len(server.requests) == len(replies)


async def test_making_it_shorter_is_shown_and_stopped_and_what_waits_is_sent_behind_it() -> None:
    def is_summary(request: RecordedRequest) -> bool:
        return "condense" in request.system and not request.tool_names

    def answer(request: RecordedRequest) -> Reply:
        if is_summary(request):
            return Say("notes", delivery=ReplyDelivery(hold_at=0))
        return Say(f"{'word ' * 300}answer to {request.last_user_text.splitlines()[0]}.")

    async with ScriptedServer(ScriptedModel(answer)) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                for text in ("a", "b", "c"):
                    await screen.enter(f"question {text}")
                    await screen.answers(f"answer to question {text}.")
                await screen.enter("/compress here 1")
                await screen.shows("making the conversation shorter", " s · Esc stops")
                await screen.enter("/new")
                await screen.shows("/new waits for this to end: making the conversation shorter.")
                await screen.press("Escape")
                await screen.shows("Stopped: the conversation is as it was.")
                await screen.hides("Esc stops")
                await screen.enter("/compact here 1")
                await screen.wait_for(lambda: sum(map(is_summary, server.requests)) == 2, "it is not asked again")
                await screen.shows("making the conversation shorter", "Esc stops")
                await screen.enter("question d")
                await screen.enter("question e")
                await screen.shows("queued: question d", "queued: question e", "2 waiting")
                server.release()
                await screen.answers("answer to question e.")
                shown = await screen.everything()
                order = ("/compress --undo` restores", "answer to question d.", "› question e", "answer to question e.")
                places = [shown.index(one) for one in order]
                assert places == sorted(places), shown
                assert "waiting" not in await screen.screen()
                await screen.leave()


async def test_an_approval_is_answered_by_keys_that_were_meant_for_it() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    replies: list[Reply] = [remove, Say("It stays."), remove, Say("It is gone."), remove, Say("Nothing there.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("clean up")
                await screen.shows("Run this command?", "rm -r old", str(home.cwd)[-20:], "❯ n  No", "Enter takes it")
                await screen.press("Enter")
                await screen.shows("It stays.", "refused")
                assert (home.cwd / "old").exists()
                await screen.enter("clean up again")
                await screen.shows("rm -r old", "❯ n  No", "Enter takes it")
                await screen.press("Down")
                await screen.shows("❯ y  Yes, this once")
                await screen.press("Enter")
                await screen.shows("It is gone.", "allowed once")
                assert not (home.cwd / "old").exists()
                (home.cwd / "old").mkdir()
                await screen.press("C-l")
                await screen.enter("and once more")
                # What a person is typing when the question comes goes on into the line and answers nothing.
                await screen.until(lambda shown: "waiting until you stop" in shown, "the question is not shown")
                for letter in "yes yes":
                    await screen.type(letter)
                await screen.shows("› yes yes", "rm -r old")
                assert (home.cwd / "old").exists()
                await screen.shows("❯ n  No", "Enter takes it")
                await screen.press("Escape")
                await screen.shows("Nothing there.")
                assert (home.cwd / "old").exists()
                assert "› yes yes" in await screen.screen()
                await screen.press("C-u")
                await screen.leave()


async def test_the_models_questions() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("clarify", {"question": "Which one?", "choices": ["red", "blue"]}),)),
        Say(calls=(Call("clarify", {"question": "Which name?"}),)),
        Say(calls=(Call("clarify", {"question": "What else?", "choices": ["tea", "coffee"]}),)),
        Say("Thank you."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("ask me")
                await screen.shows("? Which one?", "red", "Enter takes it")
                await screen.press("Down", "Enter")
                await screen.shows("→ blue", "? Which name?", "answer ›")
                await screen.enter("小明")
                await screen.shows("? What else?", "Enter takes it")
                await screen.enter("water")
                await screen.shows("→ water", "Thank you.")
                await screen.leave()
            bodies = [request.body.decode() for request in server.requests]
            assert "blue" in bodies[1] and "小明" in bodies[2] and "water" in bodies[3]


@pytest.mark.parametrize(
    ("typed", "answer"), [("2", "blue"), ("BLUE", "blue"), ("3", "3"), ("a deep red", "a deep red")]
)
async def test_what_is_typed_answers_a_question_with_choices(typed: str, answer: str) -> None:
    ask = Say(calls=(Call("clarify", {"question": "Which one?", "choices": ["red", "blue"]}),))
    async with ScriptedServer([ask, Say("Thank you.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("ask me")
                await screen.shows("1. red", "2. blue", "answer ›")
                await screen.press("Enter" if typed == "3" else "C-u")  # an empty line is no answer
                await screen.enter(typed)
                await screen.shows(f"→ {answer}", "Thank you.")
                await screen.leave()
        (result,) = server.requests[1].results.values()
        assert result.endswith(f"The person answered: {answer}") and "joins soon" not in result


@pytest.mark.parametrize("choices", [["red", "blue"], []])
async def test_esc_says_that_the_person_closed_the_question(choices: list[str]) -> None:
    ask = Say(calls=(Call("clarify", {"question": "Which one?", "choices": choices}),))
    async with ScriptedServer([ask, Say("Thank you.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("ask me")
                await screen.shows("? Which one?", "answer ›")
                await screen.press("Escape")
                await screen.shows("The question was left unanswered.", "Thank you.")
                await screen.leave()
        assert "The person closed the question" in next(iter(server.requests[1].results.values()))
