"""Slash commands in the chats that people sit at: the full one in a real terminal, and lines."""

from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import on_a_terminal
from tests.e2e.tmux import NEEDED, in_tmux
from tests.forked_hermes import run_hermes

PROMPT = "›"


class Working:
    """Answers turns and, apart from them, the judge of a goal."""

    def __init__(self, answers: list[Reply], verdicts: list[Reply]) -> None:
        self.answers, self.verdicts = answers, verdicts

    def reply(self, request: RecordedRequest) -> Reply:
        judged = "You judge whether a goal" in request.body.decode()
        return (self.verdicts if judged else self.answers).pop(0)


@NEEDED
async def test_a_model_a_goal_and_a_branch_in_the_full_chat() -> None:
    answers: list[Reply] = [Say("one is planted"), Say("two are planted"), Say("hello from the branch")]
    held = Say("NOT REACHED: one is missing", delivery=ReplyDelivery(hold_at=1))
    async with ScriptedServer(Working(answers, [held, Say("REACHED: both stand")])) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("Hermes", PROMPT, "mock-model")
                await screen.enter("/model other-model")
                await screen.shows("other-model from", "answers now")
                await screen.enter("/goal plant two trees")
                await screen.shows("one is planted", "goal 1/20")
                await server.wait_held(await server.wait_for(2))
                server.release()
                await screen.shows("going on", "two are planted", "The goal is reached: both stand")
                await screen.hides("goal 2/20")
                assert {one.model for one in server.requests} == {"other-model"}
                await screen.enter("/branch elsewhere")
                await screen.shows("This is a branch of")
                await screen.enter("are you there?")
                await screen.shows("hello from the branch")
                await screen.enter("/context")
                await screen.shows("your messages", "free")
                await screen.enter("/sessions")
                await screen.shows("└─ elsewhere")
                await screen.press("Escape")
                await screen.press("C-d")
                await screen.ends()


@NEEDED
async def test_the_background_asks_and_answers_in_the_full_chat() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "rm -r old"}),)), Say("The folder is gone.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("Hermes", PROMPT, "mock-model")
                await screen.enter("/background clean up")
                await screen.shows("rm -r old", "Yes")
                await screen.shows("❯ n  No", "Enter takes it")
                await screen.press("Down")
                await screen.shows("❯ y  Yes, this once")
                await screen.press("Enter")
                await screen.shows("Background session 1 is done", "The folder is gone.", "/resume")
                assert not (home.cwd / "old").exists()
                await screen.press("C-d")
                await screen.ends()


async def test_a_goal_and_an_undo_in_lines() -> None:
    answers: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "a.txt", "content": "x"}),)),
        Say("written"),
        Say("the second part"),
    ]
    verdicts: list[Reply] = [Say("NOT REACHED: more is needed"), Say("REACHED: fine")]
    async with ScriptedServer(Working(answers, verdicts)) as server:
        with TempHome.for_server(server.url) as home:
            lines = b"/goal write it\n/goal\n/undo 2\n/usage\n/background what?\n/quit\n"
            done = await run_hermes(home, stdin=lines)
            assert done.code == 0, done.stderr
            out = done.stdout
            places = [
                out.index(one)
                for one in ("written", "going on", "the second part", "reached: fine", "It is reached", "back")
            ]
            assert places == sorted(places), out
            assert "> " in out and "Traceback" not in out + done.stderr
            assert not (home.cwd / "a.txt").exists()


async def test_a_question_from_the_background_is_answered_in_lines() -> None:
    replies: list[Reply] = [Say(calls=(Call("terminal", {"command": "rm -r old"}),)), Say("The folder is gone.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home, "--plain") as screen:
                await screen.shows("> ")
                screen.type("/background clean up\r")
                await screen.shows_next("/approvals answers it.")
                screen.type("/approvals\r")
                await screen.shows_next("A number")
                screen.type("1\r")
                await screen.shows_next("Yes, this once")
                await screen.shows_next("A number")
                screen.type("2\r")
                await screen.shows_next("Allowed.")
                await screen.shows_next("The folder is gone.")
                assert not (home.cwd / "old").exists()
                screen.type("/quit\r")
                assert await screen.end() == 0
