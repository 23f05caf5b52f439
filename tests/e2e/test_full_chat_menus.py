"""The full chat in a real terminal: lists of completions, menus that are narrowed down, and keys beside a question."""

import yaml

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux

pytestmark = NEEDED
PROMPT = "›"
PLAN = "Here is the plan:\n\n1. Rename main.\n2. Run the tests."


async def test_tab_goes_into_the_only_folder_and_then_from_entry_to_entry() -> None:
    async with ScriptedServer([Say("It is read.")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "src/inner").mkdir(parents=True)
            for name in ("a.py", "b.py", "inner/c.py"):
                (home.cwd / "src" / name).write_text(f"what {name} says")
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("read @sr")
                await screen.press("Tab")
                await screen.shows(f"{PROMPT} read @src/\n", " a.py", " b.py", " inner/")
                await screen.press("Tab")
                await screen.shows(f"{PROMPT} read @src/a.py\n")
                await screen.press("Tab")
                await screen.shows(f"{PROMPT} read @src/b.py\n")
                await screen.press("BTab")
                await screen.shows(f"{PROMPT} read @src/a.py\n", "ask mode")
                await screen.press("BTab")
                await screen.shows(f"{PROMPT} read @src/inner/\n")
                await screen.type("/")
                await screen.shows(f"{PROMPT} read @src/inner/\n", " c.py")
                await screen.press("Tab")
                await screen.shows(f"{PROMPT} read @src/inner/c.py\n")
                await screen.hides("\n c.py")
                await screen.press("Enter")
                await screen.answers("It is read.")
                assert "what inner/c.py says" in str(server.requests[0].last_user_text)
                await screen.leave()


async def test_enter_closes_the_list_of_a_folder_and_sends_nothing() -> None:
    async with ScriptedServer([Say("It is read.")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "src").mkdir()
            (home.cwd / "src/a.py").write_text("what a says")
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("read @sr")
                await screen.shows(" src/")
                await screen.press("Tab")
                await screen.shows(f"{PROMPT} read @src/\n", " a.py")
                await screen.press("Enter")
                await screen.hides(" a.py")
                await screen.shows(f"{PROMPT} read @src/\n")
                assert server.requests == []
                await screen.press("Enter")
                await screen.answers("It is read.")
                await screen.leave()


async def test_a_file_is_found_wherever_it_is_the_best_first_and_not_where_git_ignores_it() -> None:
    async with ScriptedServer([Say("It is read.")]) as server:
        with TempHome.for_server(server.url) as home:
            for name in ("src/util.py", "src/deep/my_util.py", "build/util.py", "src/.util", "utile.md"):
                (home.cwd / name).parent.mkdir(parents=True, exist_ok=True)
                (home.cwd / name).write_text(f"what {name} says")
            (home.cwd / ".gitignore").write_text("build/\n")
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("read @UTIL")
                shown = await screen.shows(" utile.md", " src/util.py", " src/deep/my_util.py")
                assert shown.index("utile.md") < shown.index("src/util.py") < shown.index("src/deep/my_util.py")
                assert "build" not in shown and "src/.util" not in shown
                await screen.press("C-w")
                await screen.type("@deep/ut")
                await screen.shows(f"{PROMPT} read @deep/ut\n src/deep/my_util.py")
                await screen.press("Tab")
                await screen.shows(f"{PROMPT} read @src/deep/my_util.py\n")
                await screen.press("Enter")
                await screen.answers("It is read.")
                assert "what src/deep/my_util.py says" in str(server.requests[0].last_user_text)
                await screen.leave()


async def test_enter_takes_the_marked_command_and_says_which_fit_where_none_is() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(110, 40)) as screen:
                await screen.shows("mock-model")
                await screen.type("/who")
                await screen.shows("/whoami ")
                assert "\x1b[7m" in await screen.screen(colours=True)
                await screen.press("Enter")
                await screen.shows(f"{PROMPT} /whoami", "at this terminal")
                await screen.type("/st")
                await screen.shows("/steer ", "/stop ", "/status ")
                await screen.press("Down")
                await screen.shows(f"{PROMPT} /stop\n")
                await screen.press("Enter")
                await screen.shows("No background process runs.")
                await screen.type("/st")
                await screen.shows("/steer ", "/stop ", "/status ")
                await screen.press("Escape")
                await screen.hides("/steer ")
                await screen.press("Enter")
                await screen.shows("There is no command /st. Which one: /", "/status", "?")
                await screen.type("/mo")
                await screen.shows("/model ", "/mode ")
                await screen.press("Enter")
                await screen.shows(f"{PROMPT} /model", "Enter takes it")
                await screen.press("Escape")
                await screen.hides("Enter takes it")
                await screen.type("/yol")
                await screen.shows("/yolo ")
                await screen.press("Enter")
                await screen.shows("There is no command /yol. Did you mean /yolo?")
                assert server.requests == []
                await screen.leave()


async def test_the_cursor_stands_at_what_narrows_a_list_down() -> None:
    async with ScriptedServer([], api_key="x") as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("/model")
                await screen.shows("Which model?", "\nfilter:")
                await screen.type("moc")
                shown = await screen.shows("filter: moc")
                column, row = await screen.cursor()
                assert shown.split("\n")[row][:column] == "filter: moc"
                await screen.press("Escape")
                await screen.hides("filter:")
                await screen.leave()


async def test_what_narrows_the_models_down_reaches_neither_the_line_nor_the_model() -> None:
    async with ScriptedServer([Say("hello")], api_key="x") as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("/model moc")
                await screen.shows(f"{PROMPT} /model moc\n mock-model")
                await screen.press("C-u")
                await screen.enter("/model")
                await screen.shows("Which model?", "❯ mock-model", "letters narrow it down")
                await screen.type("zzz")
                await screen.shows("filter: zzz", "nothing fits")
                await screen.press("C-a", "C-k")
                await screen.press("C-u")
                await screen.hides("filter: zzz")
                await screen.shows("❯ mock-model")
                await screen.paste("mock\n")
                await screen.shows("filter: mock", "❯ mock-model")
                await screen.press("Enter")
                shown = await screen.shows("answers now.", "--global keeps it")
                assert "zzz" not in shown and server.requests == []
                await screen.leave()


async def test_control_keys_beside_a_question_edit_the_line_and_always_says_how_to_remove_it() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    replies: list[Reply] = [remove, Say("It is gone."), remove, Say("It stays.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("clean up")
                await screen.shows("Run this command?", "❯ n  No", "A letter answers")
                await screen.press("C-u", "C-o", "C-t", "Left")
                await screen.type("hm")
                await screen.shows(f"{PROMPT} hm\n", "A letter answers")
                await screen.press("BSpace")
                await screen.shows(f"{PROMPT} h\n")
                await screen.press("C-u")
                shown = await screen.hides(f"{PROMPT} h\n")
                assert "^" not in shown and (home.cwd / "old").exists()
                await screen.shows("A letter answers")
                await screen.press("a")
                await screen.answers("allowed from now on", "config.yaml", "/permissions removes it", "It is gone.")
                kept = home.hermes / "config.yaml"
                assert yaml.safe_load(kept.read_text())["command_allowlist"] == ["rm -r old"]
                await screen.press("C-l")
                await screen.enter("/permissions")
                await screen.shows("Mode: ask", "Allowed without a question", "1  rm -r old")
                await screen.enter("/permissions remove 1")
                await screen.shows("Removed: rm -r old.")
                assert yaml.safe_load(kept.read_text())["command_allowlist"] == []
                (home.cwd / "old").mkdir()
                await screen.enter("clean up")
                await screen.shows("Run this command?", "A letter answers")
                await screen.press("n")
                await screen.answers("It stays.")
                await screen.enter("/new")
                await screen.press("C-l")
                await screen.enter("/permissions")
                await screen.shows("No command is always allowed yet.")
                await screen.leave()


async def test_shift_tab_beside_the_question_about_a_plan_changes_the_mode_as_after_a_no() -> None:
    async with ScriptedServer([Say(PLAN), Say("Then not.")]) as server:
        with TempHome.for_server(server.url, more_config={"terminal": {"backend": "sandbox"}}) as home:
            async with in_tmux(home, "--mode", "plan", size=(80, 30)) as screen:
                await screen.shows("plan mode")
                await screen.enter("rename main")
                await screen.shows("Carry out this plan?", "A letter answers")
                await screen.press("BTab")
                await screen.hides("Carry out this plan?", "plan mode")
                await screen.shows("auto mode")
                assert len(server.requests) == 1
                await screen.enter("leave it")
                await screen.answers("Then not.")
                await screen.leave()


async def test_status_and_usage_say_whether_the_model_works_and_how_full_the_window_is() -> None:
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("/status")
                await screen.shows("The model: not asked in this session yet.", "of 2,000,000 tokens (0%)")
                await screen.enter("hi")
                await screen.answers("hello")
                await screen.press("C-l")
                await screen.enter("/status")
                await screen.shows("The model works: it answered last at", "of 2,000,000 tokens (0%)")
                await screen.press("C-l")
                await screen.enter("/tokens")
                await screen.shows("1 call", "Context in use: ", "of 2,000,000 tokens (0%).")
                assert len(server.requests) == 1
                await screen.leave()


async def test_commands_known_from_elsewhere_and_the_nearest_one() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(110, 40)) as screen:
                await screen.shows("mock-model")
                for typed, told in (
                    ("/bashes", "This session: nothing runs."),
                    ("/continue", "There is no other session yet."),
                    ("/voice", "Nothing here can hear voice messages yet."),
                    ("/rename a day in may", "This session is called “a day in may”."),
                    ("/login", "hermes auth add NAME"),
                    ("/vim", "display.editing_mode vi"),
                    ("/todos", "Ctrl-T hides and shows it"),
                    ("/perm", "Mode: ask"),
                    ("/usgae", "Did you mean /usage?"),
                    ("/modle", "Did you mean /model?"),
                ):
                    await screen.enter(typed)
                    await screen.shows(told)
                assert server.requests == []
                await screen.leave()
