"""A program in a real terminal: a tmux server of its own, keys sent to it, its screen read back."""

import asyncio
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.testing.home import TempHome

NEEDED = pytest.mark.needs("tmux")
"""For the tests of a module."""
_ROOM = "/dev/shm"
POLL = 0.02
"""Seconds between two looks at a screen that has not changed to what is waited for."""
DEADLINE = 60.0
TERM = "tmux-256color"
MODES = "cursor_flag alternate_on mouse_any_flag keypad_flag keypad_cursor_flag insert_flag origin_flag wrap_flag"
FRESH_MODES = "1 0 0 0 0 0 0 1"
"""What a terminal's modes are before anything ran in it."""
_IDLE = re.compile(r"\n\n\n›[^\n]*\n [^\n]+\s*\Z")
# The program is followed by a shell's end: what it left of the terminal stays on the screen, to be looked at.
_SHELL = """
trap : INT
stty -g > {folder}/before
{program}
code=$?
stty -g > {folder}/after
printf 'left with %d\\n' "$code"
exec cat -v
"""


class Tmux:
    """One pane of one server. Everything is read from the captured screen."""

    def __init__(self, socket: Path, folder: Path) -> None:
        self._socket = socket
        self.folder = folder
        """Where the terminal's settings stand before and after the program."""

    async def ask(self, *arguments: str, data: bytes = b"") -> str:
        """A tmux command's answer."""
        process = await asyncio.create_subprocess_exec(
            "tmux",
            "-S",
            str(self._socket),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await process.communicate(data)
        assert process.returncode == 0, f"tmux {arguments}: {error.decode()}"
        return out.decode("utf-8", "replace")

    async def type(self, text: str) -> None:
        """Letters, as they are."""
        await self.ask("send-keys", "-l", "--", text)

    async def press(self, *keys: str) -> None:
        """Keys by tmux' names: Enter, C-c, Up, BSpace, M-Enter."""
        await self.ask("send-keys", *keys)

    async def enter(self, line: str) -> None:
        """Type a line, see it in the input, and send it."""
        await self.type(line)
        await self.shows(line[-30:])
        await self.press("Enter")

    async def paste(self, text: str) -> None:
        """Paste: marked as one where the program asked for that."""
        await self.ask("load-buffer", "-b", "pasted", "-", data=text.encode())
        await self.ask("paste-buffer", "-p", "-r", "-b", "pasted")

    async def screen(self, *, colours: bool = False) -> str:
        """What stands on the screen; with colours also the spaces that have some, at the ends of lines."""
        return await self.ask("capture-pane", "-p", *(["-e", "-N"] if colours else []))

    async def everything(self) -> str:
        """The scrollback and the screen, wrapped lines joined."""
        return await self.ask("capture-pane", "-p", "-J", "-S", "-")

    async def tell(self, name: str) -> str:
        """A format of tmux: `cursor_x`, `pane_title`, ..."""
        return (await self.ask("display-message", "-p", f"#{{{name}}}")).strip()

    async def modes(self) -> str:
        """The terminal's modes, in the order of `MODES`."""
        return (await self.ask("display-message", "-p", " ".join(f"#{{{one}}}" for one in MODES.split()))).strip()

    async def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        column, row = (await self.ask("display-message", "-p", "#{cursor_x} #{cursor_y}")).split()
        return int(column), int(row)

    async def until_cursor(self, column: int, what: str) -> None:
        """Wait until the cursor stands in this column."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DEADLINE
        while (await self.cursor())[0] != column:
            assert loop.time() < end, f"{what}: {await self.cursor()}\n{await self.screen()}"
            await asyncio.sleep(POLL)

    async def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size."""
        await self.ask("resize-window", "-x", str(columns), "-y", str(rows))

    async def until(self, holds: Callable[[str], bool], what: str) -> str:
        """Wait until the screen is as it should be; the screen."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DEADLINE
        while not holds(screen := await self.screen()):
            if loop.time() > end:
                raise AssertionError(f"{what}:\n{await self.everything()}")
            await asyncio.sleep(POLL)
        return screen

    async def shows(self, *texts: str) -> str:
        """Wait until all of these stand on the screen."""
        return await self.until(lambda screen: all(text in screen for text in texts), f"{texts} is not shown")

    async def answers(self, *texts: str) -> str:
        """Wait until all of these stand on the screen and the turn has ended: two empty lines above the prompt."""
        return await self.until(
            lambda screen: all(text in screen for text in texts) and bool(_IDLE.search(screen)), f"{texts}: no answer"
        )

    async def leave(self) -> str:
        """Leave by `/quit`, which goes at any time; the screen behind it."""
        await self.type("/quit")
        await self.press("Enter")
        return await self.ends()

    async def hides(self, *texts: str) -> str:
        """Wait until none of these stands on the screen."""
        return await self.until(lambda screen: not any(text in screen for text in texts), f"{texts} still shown")

    async def ends(self, code: int = 0) -> str:
        """Wait until the program has ended, with this code; the screen. The terminal is as it was."""
        screen = await self.shows("left with ")
        assert f"left with {code}" in screen, screen
        before, after = (self.folder / "before").read_text(), (self.folder / "after").read_text()
        assert before == after, f"the terminal's settings were {before} and are {after}"
        assert await self.modes() == FRESH_MODES
        return screen

    async def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something outside the screen."""
        loop = asyncio.get_running_loop()
        end = loop.time() + DEADLINE
        while not holds():
            if loop.time() > end:
                raise AssertionError(f"{what}:\n{await self.everything()}")
            await asyncio.sleep(POLL)


@asynccontextmanager
async def in_tmux(
    home: TempHome,
    *arguments: str,
    size: tuple[int, int] = (100, 30),
    program: str = "",
    more: Mapping[str, str] | None = None,
) -> AsyncIterator[Tmux]:
    """Run `hermes` with these arguments (or a shell's `program`) in a terminal; it is killed in the end."""
    folder = home.root / "tmux"
    folder.mkdir(exist_ok=True)
    # Apart from /tmp: sandboxes of tests that run beside this one hide every socket there, and it is gone in a moment.
    room = Path(tempfile.mkdtemp(prefix="tmux-", dir=_ROOM if os.access(_ROOM, os.W_OK) else None))
    socket = room / "socket"
    command = program or shlex.join([sys.executable, "-m", "hermes", *arguments])
    script = folder / "script.sh"
    script.write_text(_SHELL.format(folder=shlex.quote(str(folder)), program=command))
    config = folder / "tmux.conf"
    config.write_text(
        f"set -g default-terminal {TERM}\nset -g status off\nset -g history-limit 20000\nset -g exit-empty on\n"
        "set -g set-clipboard on\nset -g allow-rename on\nset -g escape-time 0\n"
    )
    columns, rows = size
    environ = {**home.environ, **(more or {})}
    environ.pop("TERM", None)  # tmux' own
    starting = await asyncio.create_subprocess_exec(
        *("tmux", "-S", str(socket), "-f", str(config), "-u", "new-session", "-d", "-x", str(columns), "-y", str(rows)),
        *("-c", str(home.cwd), "sh", str(script)),
        env={"TERM": "xterm-256color", **environ},
        stdin=asyncio.subprocess.DEVNULL,
    )
    assert await starting.wait() == 0
    tmux = Tmux(socket, folder)
    server = int(await tmux.tell("pid"))
    try:
        yield tmux
    finally:
        os.kill(server, 15)
        async with asyncio.timeout(DEADLINE):
            while _lives(server):  # noqa: ASYNC110 - not a process of ours, which could be waited for
                await asyncio.sleep(POLL)
        shutil.rmtree(room)


def _lives(pid: int) -> bool:
    """Whether a process runs; one that only waits to be taken note of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
