"""The README's pictures: the program in a real terminal, with a scripted model, as PNG files in `docs/screens`.

Wants tmux, the fonts DejaVu Sans Mono and WenQuanYi Zen Hei (Debian: fonts-dejavu-core, fonts-wqy-zenhei), and
cairosvg, which no gate needs: `make screens` installs it.
"""

import asyncio
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path

import cairosvg  # type: ignore[import-not-found]
from msgspec import Struct, structs

from hermes.core.usage import Usage
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from tmux import Tmux, in_tmux  # noqa: E402

FOLDER = ROOT / "docs" / "screens"
FONTS = (("\u2800", "\u28ff", "DejaVu Sans"), ("\u2e80", "\uffef", "WenQuanYi Zen Hei"))
"""Fonts of letters from one to another, which DejaVu Sans Mono does not have; the drawing program looks for none."""
SIZE, WIDTH, HEIGHT, EDGE = 14, 8.43, 18, 14
"""Of a letter, of a cell, and of the rim, in units of the drawing."""
SCALE = 1.5
PAPER, INK = "#16181d", "#d8dbe2"
PALETTE = [
    "#2b303b",
    "#e06c75",
    "#98c379",
    "#e5c07b",
    "#61afef",
    "#c678dd",
    "#56b6c2",
    "#c8ccd4",
    "#6b7280",
    "#ef8791",
    "#b1d696",
    "#f0d197",
    "#82c0f5",
    "#d69ae6",
    "#7bcbd4",
    "#ffffff",
]
_PIECE = re.compile("\x1b\\[([0-9;]*)m|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[()].|(.)")


class Pen(Struct, frozen=True):
    """How a letter looks."""

    ink: str = ""
    paper: str = ""
    bold: bool = False
    dim: bool = False
    slanted: bool = False
    underlined: bool = False
    struck: bool = False
    reverse: bool = False


_SWITCHES = {
    1: ("bold", True),
    2: ("dim", True),
    3: ("slanted", True),
    4: ("underlined", True),
    7: ("reverse", True),
    9: ("struck", True),
    23: ("slanted", False),
    24: ("underlined", False),
    27: ("reverse", False),
    29: ("struck", False),
    39: ("ink", ""),
    49: ("paper", ""),
}


def coloured(number: int) -> str:
    """One of the 256 colours."""
    if number < 16:
        return PALETTE[number]
    if number >= 232:
        return "#" + f"{8 + (number - 232) * 10:02x}" * 3
    parts = ((number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6)
    return "#" + "".join(f"{55 + part * 40 if part else 0:02x}" for part in parts)


def changed(pen: Pen, codes: list[int]) -> Pen:
    """The pen after an SGR sequence."""
    while codes:
        code = codes.pop(0)
        if code == 0:
            pen = Pen()
        elif code == 22:
            pen = structs.replace(pen, bold=False, dim=False)
        elif code in (38, 48):
            deep = codes.pop(0) == 2
            colour = "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3)) if deep else coloured(codes.pop(0))
            pen = structs.replace(pen, **{"ink" if code == 38 else "paper": colour})
        elif code in _SWITCHES:
            name, value = _SWITCHES[code]
            pen = structs.replace(pen, **{name: value})
        elif 30 <= code % 60 <= 47 and code % 10 < 8:
            bright = 8 if code >= 90 else 0
            pen = structs.replace(pen, **{"ink" if code % 60 < 40 else "paper": PALETTE[code % 10 + bright]})
    return pen


def runs(line: str, pen: Pen) -> tuple[list[tuple[int, int, str, Pen]], Pen]:
    """What stands in a line, column, cells, letters and pen, and the pen behind it.

    A wide letter stands alone, so that columns hold.
    """
    found: list[tuple[int, int, str, Pen]] = []
    column = 0
    for piece in _PIECE.finditer(line):
        if piece[1] is not None:
            pen = changed(pen, [int(code or 0) for code in piece[1].split(";")])
        if not piece[2]:
            continue
        cells = 2 if unicodedata.east_asian_width(piece[2]) in "WF" else 1
        last = found[-1] if found else None
        if last and cells == 1 and last[3] == pen and last[1] == len(last[2]):
            found[-1] = (last[0], last[1] + 1, last[2] + piece[2], pen)
        else:
            found.append((column, cells, piece[2], pen))
        column += cells
    return found, pen


def drawing(screen: str, columns: int, cursor: tuple[int, int]) -> str:
    """The screen as SVG, with the cursor at this column and row."""
    lines = screen.rstrip("\n").split("\n")
    while lines and not re.sub("\x1b\\[[0-9;]*m", "", lines[-1]).strip():
        lines.pop()
    width, height = columns * WIDTH + 2 * EDGE, len(lines) * HEIGHT + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
        f'<g font-family="DejaVu Sans Mono" font-size="{SIZE}" xml:space="preserve">',
    ]
    pen = Pen()
    for row, line in enumerate(lines):
        found, pen = runs(line, pen)
        for column, cells, letters, own in found:
            parts += _run(EDGE + column * WIDTH, EDGE + row * HEIGHT, cells, letters, own)
    x, y = EDGE + cursor[0] * WIDTH, EDGE + cursor[1] * HEIGHT
    parts.append(f'<rect x="{x}" y="{y + 1}" width="{WIDTH}" height="{HEIGHT - 2}" fill="{INK}" opacity="0.7"/>')
    return "".join([*parts, "</g></svg>"])


def _run(x: float, y: float, cells: int, letters: str, pen: Pen) -> list[str]:
    ink, paper = pen.ink or INK, pen.paper
    if pen.reverse:
        ink, paper = paper or PAPER, ink
    parts = []
    if paper:
        parts.append(f'<rect x="{x}" y="{y}" width="{cells * WIDTH}" height="{HEIGHT}" fill="{paper}"/>')
    if letters.strip():
        style = f'fill="{ink}"' + (' font-weight="bold"' if pen.bold else "") + (' opacity="0.6"' if pen.dim else "")
        style += ' font-style="italic"' if pen.slanted else ""
        style += ' text-decoration="underline"' if pen.underlined else ""
        # A letter at a time: no font's own widths move what stands behind.
        parts += [
            f'<text x="{x + number * WIDTH:.2f}" y="{y + SIZE - 0.5}" {style}{_font(letter)}>{escape(letter)}</text>'
            for number, letter in enumerate(letters)
            if letter != " "
        ]
    return parts


def _font(letter: str) -> str:
    for first, last, name in FONTS:
        if first <= letter <= last:
            return f' font-family="{name}"'
    return ""


# What is shown.

SETUP = (
    "import sys; from hermes.admin.models.setup import LocalModelServer; from hermes.cli.commands.setup "
    "import run;"
    "sys.exit(run([], servers=(LocalModelServer('ollama', 'Ollama', {port}),)))"
)
POEM = (
    '"""Says hello."""\n\n\ndef greeting(name: str) -> str:\n    return "Hello " + name\n\n\nprint(greeting("you"))\n'
)
TOOLS: list[Reply] = [
    Say(calls=(Call("search_files", {"pattern": "greeting"}), Call("read_file", {"path": "hello.py"}))),
    Say(
        calls=(
            Call(
                "patch",
                {"path": "hello.py", "old_string": '"Hello " + name', "new_string": 'f"Hello, {name.title()}!"'},
            ),
        )
    ),
    Say(calls=(Call("terminal", {"command": "python3 hello.py"}),)),
    Say(
        "The greeting now has its **comma**, and a name is written as a name:\n\n```python\n"
        'def greeting(name: str) -> str:\n    return f"Hello, {name.title()}!"\n```\n\n'
        "`python3 hello.py` says *Hello, You!*",
        chunk=40,
    ),
]
APPROVAL: list[Reply] = [
    Say(calls=(Call("terminal", {"command": "rm -rf build && git push --force origin main"}),)),
    Say("As you like."),
]
CHINESE: list[Reply] = [
    Say(
        "# 三种语言的比较\n\n| 语言 | 发布年份 | 特点 | 许可证 |\n|---|---:|---|---|\n"
        "| Python | 1991 | 简洁，库丰富 | PSF |\n| Rust | 2015 | 内存安全，速度快 | MIT / Apache-2.0 |\n"
        "| Go | 2009 | 编译快，并发简单 | BSD-3 |\n\n"
        "1. 写脚本和做数据分析，**Python** 最省事；\n2. 要性能又要安全，选 **Rust**；\n"
        "3. 网络服务，`Go` 和 `net/http` 就够了。\n",
        chunk=30,
    ),
]
COUNTED = (Usage(input=2_983, output=61), Usage(input=3_196, output=74, cache_read=2_944))
COUNTED += (Usage(input=3_322, output=38, cache_read=3_136), Usage(input=3_390, output=82, cache_read=3_264))
USED: list[Reply] = [structs.replace(say, usage=used) for say, used in zip(TOOLS, COUNTED, strict=True)]
PRICES = {"qwen3-coder": {"input": 0.4, "output": 1.6, "cache_read": 0.04}}
Act = Callable[[Tmux], Awaitable[object]]


async def tools(screen: Tmux) -> None:
    await screen.enter("put a comma into the greeting, and mind how names are written")
    await screen.shows("Run this command?", "A letter answers")
    await screen.press("y")
    await screen.shows("says Hello, You!")


async def approval(screen: Tmux) -> None:
    await screen.enter("clean up, and put what is here online")
    await screen.shows("❯ n  No", "A letter answers")
    await screen.press("Down")
    await screen.shows("❯ y  Yes")


async def completion(screen: Tmux) -> None:
    await screen.type("/s")
    await screen.shows("/search", "/sessions")
    await screen.press("Down", "Down")
    await screen.shows("› /share")


async def chinese(screen: Tmux) -> None:
    await screen.enter("用表格比较一下 Python、Rust 和 Go")
    await screen.shows("net/http")


async def usage(screen: Tmux) -> None:
    await tools(screen)
    await screen.press("C-l")
    await screen.enter("/usage")
    await screen.shows("tokens in")
    await screen.enter("/context")
    await screen.shows("About")


async def first(screen: Tmux) -> None:
    await screen.shows("Which provider?", "Enter takes it")
    await screen.press("Enter")
    await screen.shows("[Y/n]")
    await screen.press("Enter")
    await screen.shows("Anything else?")
    await screen.press("Enter")
    await screen.shows("What next:", "Ctrl-D leaves", "mock-model ·")


async def shot(name: str, replies: list[Reply], act: Act, *, rows: int = 40, columns: int = 96) -> None:
    """One picture."""
    async with ScriptedServer(replies) as server:
        model = {"default": "qwen3-coder", "provider": "custom", "base_url": server.url, "api_key": "x"}
        config = {"model": {**model, "context_length": 131_072}, "terminal": {"backend": "local"}, "prices": PRICES}
        home = TempHome(None if name == "first-start" else config)
        with home:
            named = home.root.parent / "ada"  # a name that looks well in pictures
            shutil.rmtree(named, ignore_errors=True)  # what a program that was killed has left
            home.root = home.root.rename(named)
            home.more |= {"COLORTERM": "truecolor", "LANG": "en_US.UTF-8"}
            project = home.home / "greeting"
            project.mkdir()
            (project / "hello.py").write_text(POEM)
            hermes = f"{shlex.quote(sys.executable)} -m hermes"
            setup = ""
            if name == "first-start":
                port = server.url.rsplit(":", 1)[1].removesuffix("/v1")
                code = shlex.quote(SETUP.format(port=port))
                setup = f"echo '$ hermes setup'; {shlex.quote(sys.executable)} -c {code}; echo; echo '$ hermes'; "
            begin = f"until [ -e {home.root}/begin ]; do sleep 0.05; done; cd {project}; {setup}{hermes}"
            async with in_tmux(home, program=begin, size=(columns, rows)) as screen:
                # The program asks for the background, and shows changes on bands that fit it.
                await screen.ask("set", "-g", "window-style", f"bg={PAPER},fg={INK}")
                (home.root / "begin").touch()
                if name != "first-start":
                    await screen.shows("Hermes", "qwen3-coder")
                await act(screen)
                picture = drawing(await screen.screen(colours=True), columns, await screen.cursor())
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.png"
    cairosvg.svg2png(bytestring=picture.encode(), write_to=str(file), scale=SCALE)
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")


SHOTS: dict[str, tuple[list[Reply], Act]] = {
    "first-start": ([Say("ready")], first),
    "tools": (TOOLS, tools),
    "approval": (APPROVAL, approval),
    "completion": ([], completion),
    "chinese": (CHINESE, chinese),
    "usage": (USED, usage),
}


async def main(names: list[str]) -> None:
    """The pictures of these names, or all."""
    for name in names or SHOTS:
        replies, act = SHOTS[name]
        await shot(name, replies, act)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
