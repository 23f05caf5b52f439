"""The full chat in a real terminal: the keys that stop, go back, and change how it works."""

import asyncio

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux

pytestmark = NEEDED
PROMPT = "›"
HANG = ReplyDelivery(ending=Ending.HANG, at=4)


async def test_esc_stops_a_turn_and_says_so_beside_the_spinner() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": "sleep 300"}),)),
        Say("answered again"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("/mod")
                await screen.shows("/model")
                await screen.press("Escape")
                await screen.hides("/model ")
                await screen.press("C-u")
                await screen.enter("wait for it")
                await screen.shows("$ sleep 300", "Esc stops")
                await screen.type("a")
                await screen.press("C-j")
                await screen.type("b")
                await screen.shows("› a\n  b", "$ sleep 300")
                await screen.press("Escape")
                await screen.shows("Stopped after", "› a\n  b")
                await screen.press("C-u", "BSpace", "C-u")
                await screen.enter("again")
                await screen.answers("answered again")
                await screen.leave()


async def test_esc_esc_goes_back_to_a_chosen_message_with_its_files() -> None:
    replies: list[Reply] = [
        Say("first answer"),
        Say(calls=(Call("write_file", {"path": "poem.txt", "content": "one\n"}),)),
        Say("second answer"),
        Say("third answer"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            poem = home.cwd / "poem.txt"
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                for said, answer in (("one", "first"), ("write a poem", "second"), ("three", "third")):
                    await screen.enter(said)
                    await screen.answers(f"{answer} answer")
                assert poem.exists()
                await screen.press("Escape", "Escape")
                await screen.shows("Go back to which message?", "❯ three", "  write a poem", "  one", "Enter takes it")
                await screen.press("Down", "Enter")
                await screen.shows("2 turns were taken back.", "Deleted again: poem.txt", "› write a poem")
                assert not poem.exists()
                await screen.press("C-u")
                await screen.leave()


PLAN = "The plan:\n\n1. Rename main to run.\n2. Run the tests."


async def test_shift_tab_plans_and_an_approved_plan_is_carried_out() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "app.py", "content": "x\n"}),)),
        Say(PLAN),
        Say(PLAN.replace("plan", "other plan")),
        Say(calls=(Call("write_file", {"path": "app.py", "content": "x\n"}),)),
        Say("It is done."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": "sandbox"}}) as home:
            async with in_tmux(home, size=(80, 30)) as screen:
                await screen.shows("ask mode")
                await screen.press("BTab")
                await screen.shows("plan mode")
                await screen.press("BTab")
                await screen.shows("auto mode")
                await screen.press("BTab", "BTab")
                await screen.shows("plan mode")
                await screen.enter("rename main")
                await screen.shows("2. Run the tests.", "Carry out this plan?", "A letter answers")
                assert not (home.cwd / "app.py").exists()
                await screen.press("n")
                await screen.hides("Carry out this plan?")
                await screen.enter("another way")
                await screen.shows("other plan", "Carry out this plan?", "A letter answers")
                await screen.press("a")
                await screen.answers("Carry out this plan.", "It is done.", "auto mode")
                assert (home.cwd / "app.py").read_text() == "x\n"
                await screen.enter("/mode ask")
                await screen.shows("Mode ask:", "ask mode")
                session = (await screen.leave()).rpartition("hermes --resume ")[2].split()[0]
            async with in_tmux(home, "--resume", session, "--mode", "plan") as screen:
                await screen.shows("plan mode", "It is done.")
            async with in_tmux(home, "--resume", session) as screen:
                await screen.shows("ask mode", "It is done.")


async def test_a_mode_is_a_command_and_words_behind_it_are_sent() -> None:
    async with ScriptedServer([Say("I plan."), Say("I do.")]) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": "sandbox"}}) as home:
            async with in_tmux(home) as screen:
                await screen.shows("ask mode")
                await screen.enter("/plan")
                await screen.shows("Mode plan:", "plan mode")
                await screen.enter("/ask")
                await screen.shows("Mode ask:", "ask mode")
                await screen.enter("/plan rename main")
                await screen.answers("I plan.", "plan mode")
                assert server.requests[0].last_user_text.startswith("rename main\n")
                await screen.enter("/auto go on")
                await screen.answers("I do.", "auto mode")
                assert server.requests[1].last_user_text.startswith("go on\n")
                await screen.leave()


async def test_a_mode_chosen_before_the_session_is_open_holds_for_what_is_sent_before_it_too() -> None:
    replies: list[Reply] = [Say(calls=(Call("write_file", {"path": "app.py", "content": "x\n"}),)), Say("I planned.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": "sandbox"}}) as home:
            async with in_tmux(home) as screen:
                await screen.shows("/help lists the commands")
                await screen.press("BTab")
                await screen.type("rename main")
                await screen.press("Enter")
                await screen.answers("I planned.", "plan mode")
                assert not (home.cwd / "app.py").exists()
                await screen.leave()


async def test_auto_mode_is_refused_where_there_is_no_sandbox() -> None:
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("ask mode")
                await screen.enter("/mode auto")
                await screen.shows("Auto mode needs a sandbox")
                await screen.press("BTab", "BTab")
                await screen.shows("ask mode")
                await screen.leave()


async def test_ctrl_b_sends_a_command_into_the_background_and_its_end_is_told() -> None:
    command = "echo begun; touch started; until test -e end; do sleep 0.1; done; echo over"
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": command}),)),
        Say("It goes on."),
        Say("It is 4."),
        Say("It is over."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(120, 40)) as screen:
                await screen.shows("mock-model")
                await screen.enter("wait for it")
                await screen.shows("$ echo begun", "Ctrl-B sends it into the background")
                await screen.wait_for((home.cwd / "started").exists, "it has not begun")
                await screen.press("C-b")
                await screen.answers("It goes on.")
                (result,) = server.requests[-1].results.values()
                assert "begun\n[the person sent it into the background: it runs on as proc_" in result
                await screen.enter("what is 2+2?")
                await screen.answers("It is 4.")
                await screen.enter("/tasks")
                await screen.shows("Processes of its tools:", "proc_")
                (home.cwd / "end").touch()
                await screen.shows("exited with code 0: echo begun")
                await screen.enter("and now?")
                await screen.answers("It is over.")
                assert "exited with code 0." in str(server.requests[-1].messages)
                await screen.leave()


async def test_names_that_people_type_from_habit() -> None:
    replies: list[Reply] = [Say("Written."), Say("app.py:1 adds where it should multiply.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            git = ("git", "-C", str(home.cwd), "-c", "user.name=a", "-c", "user.email=a@example.com")
            (home.cwd / "app.py").write_text("print(6 * 7)\n")
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
                await (await asyncio.create_subprocess_exec(*git, *words)).wait()
            (home.cwd / "app.py").write_text("print(6 + 7)\n")
            (home.cwd / "new.txt").write_text("x\n")
            (home.cwd / "新.txt").write_text("z\n")
            (home.cwd / "big.txt").write_text("y\n" * 500)
            (home.cwd / "picture").write_bytes(b"\0\1\2")
            (home.cwd / "id_rsa").write_text("a key\n")
            async with in_tmux(home, size=(120, 50)) as screen:
                await screen.shows("mock-model")
                await screen.enter("/diff")
                await screen.shows(
                    "new.txt (created, +1 −0)", "\n+x\n", "picture (created) not text", "新.txt (created"
                )
                everything = await screen.everything()
                assert "-print(6 * 7)" in everything and "+print(6 + 7)" in everything and "\n+z\n" in everything
                assert "big.txt (created, +500 −0)" in everything and everything.count("\n+y\n") < 200
                assert "id_rsa (created) not shown: it may hold keys" in everything and "a key" not in everything
                await screen.enter("/cost")
                await screen.shows("/cost", "Nothing was used in this session yet.")
                await screen.enter("/theme")
                await screen.shows("Which skin?", "light", "Enter takes it")
                await screen.press("Down", "Enter")
                await screen.shows("it is kept in config.yaml")
                assert "skin:" in (home.hermes / "config.yaml").read_text()
                await screen.enter("/init")
                await screen.answers("Written.")
                assert "AGENTS.md" in server.requests[0].messages[-1]["content"]
                await screen.enter("/review")
                await screen.shows("Review what?", "uncommitted", "Enter takes it")
                await screen.press("Enter")
                await screen.answers("app.py:1 adds")
                assert "git diff HEAD" in str(server.requests[1].messages[-1])
                await screen.enter("/ps")
                await screen.shows("This session: nothing runs.")
                await screen.enter("/compact keep the test names")
                await screen.hides("/compress takes")
                await screen.leave()


async def test_alt_enter_queues_and_alt_up_takes_back() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": "until test -e end; do sleep 0.1; done"}),)),
        Say("All is done."),
        Say("The README, too."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("two")
                await screen.press("M-Enter")
                await screen.type("lines")
                await screen.press("Enter")
                await screen.shows("› two\n  lines", "$ until test")
                for said in ("then update the README", "then show git status"):
                    await screen.type(said)
                    await screen.press("M-Enter")
                    await screen.shows(f"queued: {said}")
                await screen.press("M-Up")
                await screen.hides("queued: then show git status")
                await screen.shows("› then show git status", "1 waiting")
                await screen.press("C-u")
                (home.cwd / "end").touch()
                await screen.answers("All is done.", "The README, too.")
                assert len(server.requests) == 3
                session = (await screen.leave()).rpartition("hermes --resume ")[2].split()[0]
            async with in_tmux(home, "--resume", session) as screen:
                await screen.shows("The README, too.", "mock-model")
                assert len(server.requests) == 3


async def test_search_and_resume_show_one_row_a_session() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("terminal", {"command": "echo a flaky test of turnips"}),)),
        Say("It was flaky, and flaky again."),
        Say("Something else."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("which test is flaky?")
                await screen.answers("flaky again.")
                await screen.enter("/clear")
                await screen.hides("flaky again.")
                await screen.enter("speak of vegetables")
                await screen.answers("Something else.")
                await screen.enter("/search flaky")
                shown = await screen.shows("Found; go on with which session?", "Enter takes it")
                menu = shown.partition("Found; go on")[2]
                assert menu.count("❯") == 1 and "4 messages · work" in menu, shown
                assert menu.count("flaky") >= 2 and "untrusted" not in menu, shown
                await screen.press("Escape")
                await screen.hides("Enter takes it")
                await screen.enter("/search turnips")
                await screen.shows("which test is flaky?", "a flaky test of turnips", "Enter takes it")
                assert "exit code" not in (await screen.screen()).rpartition("Found; go on")[2]
                await screen.press("Escape")
                await screen.hides("Enter takes it")
                await screen.enter("/resume")
                await screen.shows("Go on with which session?", "4 messages · work", "Enter takes it")
                await screen.type("flak")
                await screen.shows("filter: flak")
                await screen.press("Enter")
                await screen.shows("Going on with", "flaky again.")
                await screen.leave()


async def test_a_marked_model_is_a_favourite_and_stands_out() -> None:
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.press("M-m")
                await screen.shows("There is no other favourite")
                await screen.enter("/model")
                await screen.shows("Which model?", "❯ mock-model", "Ctrl-F marks a favourite")
                await screen.press("C-f")
                await screen.shows("❯ ★ mock-model")
                await screen.press("Escape")
                await screen.hides("Ctrl-F marks")
                await screen.enter("/model")
                await screen.shows("❯ ★ mock-model", "Ctrl-F marks a favourite")
                await screen.press("Enter")
                await screen.shows("answers now")
                await screen.leave()
            assert not list(home.cwd.iterdir())
