"""Nothing that comes from a model, a tool, a file, a server or a name is obeyed by the terminal; all of it can be read.

Judged three times: every sequence that reaches the terminal is one of our own; pyte's screen shows the words; tmux'
clipboard and title are what they were.
"""

import asyncio
import random
import re
import sys
import unicodedata
from collections.abc import Callable

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.cli.tui.event_view import EventView
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings, ToolProgress
from hermes.core.events import (
    Event,
    FellBack,
    Level,
    Notice,
    Queued,
    Refused,
    Retrying,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from hermes.core.messages import ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Fail, Reply, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import Screen, on_a_terminal
from tests.e2e.tmux import NEEDED, POLL, in_tmux

OSC52 = "\x1b]52;c;c3RvbGVu\x07"
HOSTILE = (
    f"{OSC52}\x1b]0;owned\x07\x1b]8;;https://evil.example/\x07link\x1b]8;;\x07\x1b[38;5;199m\x1b[9;9H\x1b[?1049h"
    '\x1b[?1000h\x1bc\x1bP$q"p\x1b\\\x1b_pm\x1b\\\x9b38;5;199m\x9d0;owned\x9c\x1b[6n\x1b[21t\x07\x00\x08\x7f\x85'
    "\u202egpj.exe\u202c\u2066\u200f\u061c<b>bold</b><script>x</script>"
)
_OURS = re.compile(
    "\x1b\\[(?:[0-9]*[A-DGJK]|(?:[0-9]+(?:;[0-9]+)*)?m)|\x1b\\[\\?(?:1|7|12|25|1004|2004|2026)[hl]"
    "|\x1b\\[2[23];2t|\x1b\\]11;\\?\x1b\\\\|\x1b\\]2;(?:[*?] )?(?:Hermes · work)?\x07|\r|\n|\x08"
)
_LOOSE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def loose(shown: str) -> list[str]:
    """What a terminal would obey that is not ours, each with what stands around it."""
    rest = _OURS.sub("", shown)
    return [rest[max(found.start() - 30, 0) : found.end() + 30] for found in _LOOSE.finditer(rest)]


def marked(name: str) -> str:
    """Hostile text with a word before and behind, to be found again on the screen."""
    return f"{name}-before {HOSTILE} over\r{name}-behind"


SERVER = """import json, sys
hostile = {hostile!r}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {{
        "initialize": {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                       "serverInfo": {{"name": hostile, "version": hostile}}}},
        "tools/list": {{"tools": [{{"name": "evil", "description": hostile, "title": hostile,
                                  "inputSchema": {{"type": "object"}}}}]}},
        "tools/call": {{"content": [{{"type": "text", "text": "mcp-result " + hostile}}], "isError": True}},
    }}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {{}})}}), flush=True)
"""
SKILL = "---\nname: evil-skill\ndescription: {text}\n---\n\nDo nothing.\n"


def hostile_home(home: TempHome) -> None:
    (home.cwd / "hostile.bin").write_bytes(marked("output").encode("utf-8", "surrogateescape") + b"\xff\xfe\n")
    (home.cwd / f"file{OSC52.replace('/', '')}\x1b[38;5;199m.txt").write_text("x")
    skill = home.hermes / "skills" / "evil-skill"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL.format(text='"skill \\e]52;c;c3RvbGVu\\a\\e[38;5;199m text"'))
    (home.root / "server.py").write_text(SERVER.format(hostile=marked("mcp")))


REPLIES: list[Reply] = [
    Say(
        marked("model") + "\n\n```" + HOSTILE + "\n" + marked("code") + "\n```\n| a | b |\n|---|---|\n| " + HOSTILE,
        reasoning=marked("thought"),
        calls=(Call("terminal", {"command": "cat hostile.bin"}),),
    ),
    Say(calls=(Call("write_file", {"path": "new.txt", "content": marked("line").replace("\0", "") + "\n"}),)),
    Say(
        calls=(Call("write_file", {"path": f"name{HOSTILE}.txt".replace("\0", "").replace("/", ""), "content": "x\n"}),)
    ),
    Say(calls=(Call("patch", {"path": "new.txt", "old_string": "line-before", "new_string": "line-after"}),)),
    Say(calls=(Call(f"no_such{HOSTILE}", f'{{"a": "{HOSTILE}'),)),
    Say(calls=(Call("clarify", {"question": marked("question"), "choices": [marked("choice"), "two"]}),)),
    Say(calls=(Call("terminal", {"command": f"rm -r old '{HOSTILE}'"}),)),
    Say(calls=(Call("tool_call", {"name": "mcp__srv__evil", "arguments": {}}),)),
    Say("The end of it."),
    Fail(400, message=marked("refusal"), type=HOSTILE, code=HOSTILE),
]


async def test_hostile_text_from_everywhere() -> None:
    async with ScriptedServer(REPLIES) as server:
        with TempHome.for_server(server.url) as home:
            settings_ = {
                **(home.config or {}),
                "display": {"tool_progress": "verbose", "show_reasoning": True, "skin": "light"},
                "mcp_servers": {
                    "srv": {"command": sys.executable, "args": ["-I", str(home.root / "server.py")], "trust": "always"},
                    f"bad{OSC52}": {"command": f"/no/such{OSC52}"},
                },
            }
            hostile_home(home)
            home.write_config(settings_)
            home.more["TERM"] = "xterm-256color"
            (home.cwd / "old").mkdir()
            async with on_a_terminal(home, size=(100, 300)) as screen:
                judge = Judge(screen)
                await judge.shows("mock-model")
                screen.type("go\r")
                for shown, keys in (("question-behind", "\r"), ("rm -r old", "\r"), ("mcp__srv__evil {}", "\x1b[B\r")):
                    await judge.shows(shown, "Enter takes it")
                    screen.type(keys)
                    await judge.hides("Enter takes it")
                await judge.shows("The end of it.")
                screen.type("\x0f")
                screen.type("\x14")
                await judge.shows("thought-behind")
                screen.type("@fi")
                screen.type("\x15/evil")
                await judge.shows("/evil-skill")
                screen.type("\x15again\r")
                await judge.shows("refusal-behind")
                screen.type("/history\r/title\r/quit\r")
                assert await screen.end() == 0
                drawn = judge.drawn()
            assert loose(screen.text) == []
            assert "38;5;199" not in "".join(re.findall("\x1b\\[[^m]*m", screen.text))
            for name in ("model", "code", "refusal", "mcp", "thought"):
                assert f"{name}-before" in flat(drawn) and f"{name}-behind" in flat(drawn), f"{name}\n{drawn}"
            assert "output-behind" in drawn and "line-before" in drawn
            assert (judge.paper.title, judge.paper.icon_name) == ("", "")  # given back


def flat(text: str) -> str:
    """Without spaces and line ends: long lines are wrapped."""
    return "".join(text.split())


class Judge:
    """A terminal emulator that sees what a pseudo-terminal was sent."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._seen = 0
        self.paper = pyte.Screen(100, 300)
        self._stream = pyte.Stream(self.paper)

    def drawn(self) -> str:
        """The screen now."""
        news = self._screen.text[self._seen :]
        self._seen += len(news)
        self._stream.feed(news)
        return "\n".join(line.rstrip() for line in self.paper.display if line.strip())

    async def shows(self, *texts: str) -> None:
        await self._until(lambda drawn: all(flat(text) in flat(drawn) for text in texts), f"{texts} is not shown")

    async def hides(self, text: str) -> None:
        await self._until(lambda drawn: text not in drawn, f"{text} is still shown")

    async def _until(self, holds: Callable[[str], bool], what: str) -> None:
        end = asyncio.get_running_loop().time() + 60
        while not holds(drawn := self.drawn()):
            assert asyncio.get_running_loop().time() < end, f"{what}\n{drawn}"
            await asyncio.sleep(POLL)


@NEEDED
async def test_tmux_clipboard_and_title_stay() -> None:
    replies: list[Reply] = [
        Say(marked("model"), calls=(Call("terminal", {"command": "cat hostile.bin"}),)),
        Say("The end of it."),
    ]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config={"display": {"tool_progress": "verbose"}}) as home:
            hostile_home(home)
            async with in_tmux(home) as screen:
                await screen.ask("set-buffer", "what was there")
                await screen.shows("mock-model")
                title = await screen.tell("pane_title")
                assert title == f"Hermes · {home.cwd.name}"
                await screen.enter("go")
                await screen.shows("model-before", "model-behind", "output-behind", "The end of it.")
                await screen.enter("!cat hostile.bin")
                await screen.until(lambda shown: shown.count("output-behind") > 1, "the command's own output")
                assert await screen.ask("show-buffer") == "what was there"
                assert await screen.tell("pane_title") == title
                assert await screen.tell("alternate_on") == "0" and await screen.tell("mouse_any_flag") == "0"
                await screen.leave()


# The whole view, with random text.

_PIECES = st.sampled_from(
    [
        *(
            "\x1b",
            "\x9b",
            "\x9d",
            "\x90",
            "\x07",
            "\x00",
            "\r",
            "\n",
            "\n\n",
            "\t",
            "\x08",
            "\x7f",
            "]52;c;eA==",
            "[31m",
        ),
        *(
            "\u202e",
            "\u2066",
            "\u200f",
            "\u061c",
            "\u200d",
            "\ufeff",
            "\u0301",
            "世界",
            "👩‍👩‍👧",
            "\ud800",
            "\U000e0041",
        ),
        *("```", "`", "**", "_", "# ", "- ", "1. ", "| a | b |\n|---|---|\n|", "> ", "[x](", ")", "<b>", "&lt;", "\\"),
        *("word", " ", "@@ -1 +1 @@\n", "+added\n", "-gone\n", "https://evil.example/"),
    ]
)
HOSTILE_TEXT = st.lists(_PIECES | st.text(max_size=6), max_size=30).map("".join)
_SGR = re.compile("\x1b\\[[0-9;]*m")


def events(text: str, cuts: random.Random) -> list[Event]:
    """The same text by every way into the view."""
    found: list[Event] = [TurnStarted(turn_id="t", session_id="s", text=text), Queued(text=text, ahead=0)]
    at = 0
    while at < len(text):
        size = cuts.randint(1, 7)
        found.append(TextDelta(text=text[at : at + size]))
        found += [ReasoningDelta(text=text[at : at + size])] if size == 3 else []
        at += size
    for status in (ToolStatus.OK, ToolStatus.ERROR):
        for name in ("patch", text, "terminal"):
            found.append(ToolStarted(call_id="c", name=name, arguments=text, summary=text))
            found.append(ToolEnded(call_id="c", name=name, status=status, seconds=1.0, preview=text))
    found.append(Refused(call_id="c", tool=text, subject=text, reason=text))
    found.append(FellBack(provider=text, model=text, reason=text))
    found.append(Retrying(attempt=1, delay=1.0, reason=text, message=text))
    found.append(Notice(level=Level.WARNING, text=text))
    found.append(TurnEnded(turn_id="t", reason=ExitReason.PROVIDER_ERROR, text=text, error=text))
    return found


@given(text=HOSTILE_TEXT, width=st.integers(20, 120), seed=st.integers(0, 99))
@settings(max_examples=300)
def test_the_view_lets_nothing_through(text: str, width: int, seed: int) -> None:
    async def run() -> list[str]:
        lines: list[str] = []
        display = DisplaySettings(tool_progress=ToolProgress.VERBOSE, show_reasoning=True)
        view = EventView(TerminalStyle(display, lambda: width), lines.extend, lambda: None)
        for event in events(text, random.Random(seed)):
            view(event)
            view.flush()
            lines.extend(view.render_live(20))
        return lines

    for line in asyncio.run(run()):
        plain = _SGR.sub("", line)
        assert not [
            one for one in plain if (unicodedata.category(one) in ("Cc", "Cs") and one != "\t") or _LOOSE.match(one)
        ], repr(line)
