"""The full chat in a real terminal: the input line, sizes, languages, and terminals that can do less."""

import base64
import re
import sys

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux

pytestmark = NEEDED
PROMPT = "›"
SGR = re.compile("\x1b\\[[0-9;]*m")
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EDITOR = """import sys
text = open(sys.argv[1]).read()
open(sys.argv[1], "w").write(text + "and more\\nfrom the editor\\n")
"""


async def test_the_mark_of_a_line_typed_right_after_esc_stays() -> None:
    async with ScriptedServer([Say("answer")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                for line in ("/title A walk", "# no comment", "!true"):
                    await screen.press("Escape", line[0])
                    await screen.type(line[1:])
                    await screen.shows(f"{PROMPT} {line}")
                    assert server.requests == []
                    await screen.press("C-u")


async def test_completion_history_pastes_pictures_commands_and_an_editor() -> None:
    replies: list[Reply] = [Say(f"answer {number}") for number in range(6)]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "notes.txt").write_text("what the notes say")
            (home.cwd / "dot.png").write_bytes(DOT)
            editor = home.root / "editor.py"
            editor.write_text(EDITOR)
            home.more["EDITOR"] = f"{sys.executable} {editor}"
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("/hel")
                await screen.shows("/help ", "this list, or more")
                await screen.press("Tab")
                await screen.shows("› /help\n")
                await screen.hides("this list, or more")
                await screen.press("Enter")
                await screen.shows("Ctrl-O", "Usual commands")
                await screen.press("C-l")
                await screen.type("read @not")
                await screen.shows("› read @not\n notes.txt")
                await screen.press("Tab", "Enter")
                await screen.shows("answer 0")
                assert "what the notes say" in str(server.requests[0].last_user_text)

                await screen.press("Up")
                await screen.shows("› read @notes.txt\n")
                await screen.press("C-u")
                await screen.paste("\n".join(f"pasted line {number}" for number in range(40)))
                await screen.shows("[pasted 1: 40 lines]")
                await screen.press("Enter")
                await screen.shows("answer 1")
                assert "pasted line 0\npasted line 1\n" in server.requests[1].last_user_text
                assert "pasted line 39" in server.requests[1].last_user_text

                await screen.press("C-l")
                await screen.paste(str(home.cwd / "dot.png"))
                await screen.shows("[picture 1: dot.png]")
                await screen.type("what is this")
                await screen.press("Enter")
                await screen.shows("answer 2")
                assert b"image" in server.requests[2].body and b"what is this" in server.requests[2].body

                await screen.press("C-l")
                await screen.enter("!echo mine and mine")
                await screen.shows("! echo mine and mine\n  mine and mine")
                await screen.type("begun ")
                await screen.press("C-x", "C-e")
                await screen.shows("› begun and more\n  from the editor")
                await screen.press("Enter")
                await screen.shows("answer 3")
                assert "mine and mine" in server.requests[3].body.decode()
                assert "begun and more\nfrom the editor" in server.requests[3].last_user_text

                await screen.press("C-r")
                await screen.type("notes")
                await screen.shows("search back: notes", "› read @notes.txt")
                await screen.press("Enter", "Enter")
                await screen.shows("answer 4")
                await screen.leave()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.press("Up", "Up")
                await screen.shows("› read @notes.txt\n")
                await screen.press("C-u")
                await screen.leave()


async def test_a_paste_has_the_lines_that_are_seen_and_a_backslash_before_enter_begins_one() -> None:
    async with ScriptedServer([Say("one"), Say("two"), Say("three")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                for end in ("\n", "\r\n", "\r"):
                    await screen.paste("".join(f"pasted line {number}{end}" for number in range(30)))
                    await screen.shows("[pasted 1: 30 lines]")
                    await screen.press("C-u")
                    await screen.hides("[pasted 1")
                await screen.type("first\\")
                await screen.press("Enter")
                await screen.hides("first\\")
                await screen.type("second")
                await screen.until(lambda shown: bool(re.search(r"› first *\n  second", shown)), "no second line")
                await screen.press("Enter")
                await screen.answers("one")
                assert server.requests[0].last_user_text.startswith("first\nsecond\n")
                await screen.type("a path: C:\\\\")
                await screen.press("Enter")
                await screen.answers("two")
                assert server.requests[1].last_user_text.startswith("a path: C:\\\\")
                await screen.leave()


async def test_a_lone_question_mark_and_a_lone_slash_ask_for_help() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(110, 50)) as screen:
                await screen.shows("mock-model")
                for line in ("?", "/"):
                    await screen.type(line)
                    await screen.shows(f"{PROMPT} {line}")
                    await screen.press("Enter")
                    await screen.shows("Keys to press", "Usual commands")
                    await screen.press("C-l")
                    await screen.hides("Keys to press")
                assert server.requests == []
                await screen.leave()


async def test_vi_keys() -> None:
    async with ScriptedServer([Say("It is said.")]) as server:
        with TempHome.for_server(server.url, more_config={"display": {"editing_mode": "vi"}}) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.type("one two three")
                await screen.shows("one two three")
                await screen.press("Escape")
                await screen.until_cursor(14, "the line is not in command mode")
                await screen.type("0dwA four")
                await screen.shows("› two three four")
                await screen.press("Enter")
                await screen.shows("It is said.")
                assert server.requests[0].last_user_text.startswith("two three four\n")
                await screen.leave()


async def test_chinese_stays_aligned() -> None:
    told = "你好，世界。\n\n- 第一\n- 第二\n"
    async with ScriptedServer([Say(told, chunk=1)]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(40, 20)) as screen:
                await screen.shows("mock-model")
                await screen.type("写一首诗吧吗")
                await screen.shows("› 写一首诗吧吗")
                row = (await screen.cursor())[1]
                assert await screen.cursor() == (2 + 12, row)
                await screen.press("BSpace")
                await screen.hides("吧吗")
                assert await screen.cursor() == (2 + 10, row)
                await screen.press("Left", "Left")
                await screen.until_cursor(2 + 6, "the cursor is not two characters to the left")
                await screen.type("好")
                await screen.shows("› 写一首好诗吧")
                assert await screen.cursor() == (2 + 8, row)
                await screen.press("C-e", "Enter")
                await screen.shows("你好，世界。", "第二")
                assert "写一首好诗吧" in server.requests[0].last_user_text
                # A line that is just as wide as the terminal, and one that wraps in the middle of a character.
                await screen.type("一二三四五六七八九十" * 4)
                shown = await screen.shows("› 一二三四五六七八九十一二三四五六七八九")
                assert "十" * 2 not in shown
                await screen.press("C-u")
                await screen.leave()


@pytest.mark.parametrize("size", [(60, 15), (200, 60)])
async def test_sizes_and_a_change_of_size_while_an_answer_comes(size: tuple[int, int]) -> None:
    lines = [f"line {number:03} " + "of words " * (number % 7 + 1) for number in range(90)]
    text = "\n\n".join(lines)
    async with ScriptedServer([Say(text, chunk=40, delivery=ReplyDelivery(hold_at=60))]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=size) as screen:
                await screen.shows("mock-model")
                await screen.enter("tell me a tale")
                await screen.shows("line 05")
                await screen.type("half a line of mine")
                await screen.shows("half a line of mine")
                await screen.resize(90, 24)
                await screen.resize(61, 18)
                await screen.shows("half a line of mine")
                server.release()
                await screen.shows("line 089", "half a line of mine")
                await screen.resize(*size)
                await screen.shows("line 089", "half a line of mine")
                await screen.press("C-u")
                await screen.hides("half a line of mine")
                await screen.leave()
                whole = await screen.everything()
                words = " ".join(whole.split())
                at = [words.index(" ".join(line.split())) for line in lines]
                assert at == sorted(at)
                assert words.count("tell me a tale") == 1, whole
                assert "half a line" not in words and "waiting for the model" not in words, whole
                assert words.count("mock-model") == 0, whole


@pytest.mark.parametrize("way", ["--plain", "dumb"])
async def test_plain_chats_draw_nothing(way: str) -> None:
    async with ScriptedServer([Say("a plain answer")]) as server:
        with TempHome.for_server(server.url) as home:
            program = f"env TERM=dumb {sys.executable} -m hermes" if way == "dumb" else ""
            arguments = ["--plain"] if way == "--plain" else []
            async with in_tmux(home, *arguments, program=program) as screen:
                await screen.shows("\n>")
                await screen.enter("hello")
                await screen.shows("a plain answer")
                assert "\x1b" not in await screen.screen(colours=True)
                await screen.enter("/quit")
                await screen.ends()


async def test_no_color_and_a_pipe() -> None:
    async with ScriptedServer([Say("a **plain** answer\n\n```python\nprint(1)\n```\n"), Say("piped")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, more={"NO_COLOR": "1"}) as screen:
                await screen.enter("hello")
                await screen.shows("print(1)", "mock-model")
                coloured = await screen.screen(colours=True)
                codes = {int(code or 0) for code in re.findall(r"[0-9]*(?=[;m])", "".join(SGR.findall(coloured)))}
                assert codes <= {0, 1, 2, 3, 4, 7, 39, 49}, coloured
                await screen.leave()
            async with in_tmux(home, program=f"echo hi | {sys.executable} -m hermes | cat -v") as screen:
                await screen.shows("piped")
                shown = await screen.ends()
                assert "^[" not in shown


async def test_everything_in_chinese() -> None:
    replies: list[Reply] = [
        Say(calls=(Call("write_file", {"path": "a.txt", "content": "x\n"}),)),
        Say(calls=(Call("terminal", {"command": "rm -r old"}),)),
        Say("好的。"),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home, size=(80, 24), more={"LANG": "zh_CN.UTF-8"}) as screen:
                await screen.shows("列出命令", "mock-model")
                await screen.enter("清理一下")
                shown = await screen.shows("✓ 写入 a.txt", "运行这条命令？", "❯ n  否", "Enter 确定")
                assert "Yes" not in shown and "choose" not in shown
                await screen.press("Enter")
                await screen.shows("好的。")
                await screen.type("/se")
                shown = await screen.shows("/sessions", "/search")
                assert "choose among" not in shown
                await screen.press("C-u")
                await screen.leave()
