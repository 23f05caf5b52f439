"""Questions as menus that arrows and Enter answer, one at a time. Nothing that is typed answers them.

A menu takes keys only once it has been on the screen for a moment in which no key was pressed. Letters always go into
the input line; while there is something in it, Enter sends that, unless an arrow has just moved in the menu.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from hermes.commands.context import MenuOption
from hermes.i18n.messages import say

QUIET = 0.6
"""Seconds without a key after which a menu listens."""
BEAT = 0.2
"""Seconds between two looks at whether this process, and with it the screen, stood still."""
MOST_SHOWN = 10
"""Options shown at once."""
_BELOW = 4
"""Lines below a menu: the input line, the status line, and what is next to them."""

Paint = Callable[[str, str], str]
Wrap = Callable[[str, str], list[str]]


class Menu(Struct, eq=False):
    """One question. `chosen` is where Enter would go; `answer` is set in the end."""

    options: Sequence[MenuOption]
    answer: "asyncio.Future[int | None]"
    chosen: int = 0
    lines: Sequence[str] = ()
    """What stands above the options and goes with them."""
    asked: int = 0
    """Lines of the question that stay above it."""
    filter: str = ""
    typing: bool = False
    """Whether letters narrow the options down, as in long lists that the person has asked for."""
    touched: bool = False
    """Whether an arrow has moved in it since a key was pressed for something else."""
    quiet_since: float = 0.0

    def shown(self) -> list[int]:
        """The options that are left by what was typed."""
        words = self.filter.lower().split()
        return [
            number
            for number, option in enumerate(self.options)
            if all(word in f"{option.label} {option.detail}".lower() for word in words)
        ]

    def move(self, steps: int) -> None:
        """Go up or down; the ends are ends."""
        shown = self.shown()
        if shown:
            at = shown.index(self.chosen) if self.chosen in shown else 0
            self.chosen = shown[max(0, min(at + steps, len(shown) - 1))]
        self.touched = True

    def type(self, letters: str) -> None:
        """Narrow down by letters."""
        self.filter += letters
        shown = self.shown()
        if self.chosen not in shown and shown:
            self.chosen = shown[0]

    def erase(self) -> None:
        """Take the last letter back."""
        self.filter = self.filter[:-1]

    def take(self) -> None:
        """Answer with what is chosen."""
        if not self.answer.done() and self.chosen in self.shown():
            self.answer.set_result(self.chosen)

    def leave(self) -> None:
        """Answer with nothing."""
        if not self.answer.done():
            self.answer.set_result(None)

    def window(self) -> tuple[list[int], int, int]:
        """The options to draw, and how many are hidden above and below them."""
        shown = self.shown()
        at = shown.index(self.chosen) if self.chosen in shown else 0
        first = max(0, min(at - MOST_SHOWN // 2, len(shown) - MOST_SHOWN))
        part = shown[first : first + MOST_SHOWN]
        return part, first, len(shown) - first - len(part)


class Menus:
    """The menus of a chat: one is shown, the others wait in order. `tell` puts a question's lines above it for good."""

    def __init__(self, changed: Callable[[], None], tell: Callable[[Sequence[str]], None]) -> None:
        self._changed = changed
        self._tell = tell
        self._turn = asyncio.Lock()
        self._beat = 0.0
        self._beating: asyncio.TimerHandle | None = None
        self._hidden = False
        self.menu: Menu | None = None

    async def ask(
        self,
        lines: Sequence[str],
        options: Sequence[MenuOption],
        *,
        chosen: int = 0,
        typing: bool = False,
        stays: bool = False,
    ) -> int | None:
        """Show a menu when the one before has its answer; the number of the option taken, None when it was left.

        With `stays` the question's lines are put into the scrollback, where all of them can be read.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            if stays:
                self._tell(lines)
            self.menu = menu = Menu(options, loop.create_future(), chosen, typing=typing)
            menu.lines, menu.asked = ((), len(lines)) if stays else (lines, 0)
            menu.quiet_since = self._beat = loop.time()
            self._look()
            self._changed()
            try:
                return await menu.answer
            finally:
                if self._beating is not None:
                    self._beating.cancel()
                self.menu = None
                self._changed()

    def listens(self) -> bool:
        """Whether arrows and Enter go to the menu."""
        menu = self.menu
        if menu is None or self._hidden:
            return False
        now = asyncio.get_running_loop().time()
        return now - menu.quiet_since >= QUIET and now - self._beat < QUIET

    def filters(self) -> bool:
        """Whether letters go to the menu, too."""
        return self.menu is not None and self.menu.typing and self.listens()

    def takes(self, line: str) -> bool:
        """Whether Enter goes to the menu, with this in the input line."""
        return self.listens() and self.menu is not None and (not line or self.menu.touched)

    def pressed(self) -> None:
        """A key was pressed that is not for the menu: it waits for quiet anew."""
        if self.menu is not None:
            self.menu.quiet_since = asyncio.get_running_loop().time()
            self.menu.touched = False

    def any_key(self) -> None:
        """Some key is about to be handled: one that comes before the menu listens is for something else."""
        if not self.listens():
            self.pressed()

    def hide(self, hidden: bool) -> None:
        """Another program has the screen, or has given it back: what nobody could see listens to nobody."""
        self._hidden = hidden
        self.pressed()

    def _look(self) -> None:
        """Notice that the process stood still, as after Ctrl-Z: then nobody could see the menu, either."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._beat >= QUIET:
            self.pressed()
        self._beat = now
        self._beating = loop.call_later(BEAT, self._look)
        self._changed()

    def move(self, steps: int) -> None:
        """Go up or down in what is shown."""
        if self.menu is not None:
            self.menu.move(steps)

    def type(self, letters: str) -> None:
        """Letters for what is shown."""
        if self.menu is not None:
            self.menu.type(letters)

    def erase(self) -> None:
        """Take a letter back."""
        if self.menu is not None:
            self.menu.erase()

    def take(self) -> None:
        """Answer with what is chosen."""
        if self.menu is not None:
            self.menu.take()

    def leave(self) -> None:
        """Answer with nothing."""
        if self.menu is not None:
            self.menu.leave()

    def drawn(self, paint: Paint, wrap: Wrap, rows: int) -> list[str]:
        """The menu as lines, whole options where `rows` of the terminal leave room; empty when there is none."""
        menu = self.menu
        if menu is None:
            return []
        listens = self.listens()
        lines = list(menu.lines)
        if menu.typing:
            lines.append(paint("menu.hint", say("filter: {letters}", letters=menu.filter)))
        lines += self._options(menu, paint, wrap, rows - len(lines), listens=listens)
        hidden = menu.asked + len(lines) + _BELOW - rows
        if hidden > 0:
            lines.append(paint("warning", say("{n} lines of the question are not shown: scroll up", n=hidden)))
        hint = say("↑ ↓ choose, Enter takes it, Esc leaves") if listens else say("… waiting until you stop typing")
        return [*lines, paint("menu.hint", hint)]

    def _options(self, menu: Menu, paint: Paint, wrap: Wrap, rows: int, *, listens: bool) -> list[str]:
        """The options to choose from; where there is too little room only what is chosen is shown whole."""
        part, above, below = menu.window()
        if not part:
            return [paint("menu.hint", "    " + say("nothing fits"))]
        blocks = [self._option(menu, number, wrap, listens=listens) for number in part]
        tight = sum(len(block) for block in blocks) > rows - _BELOW - 3
        lines = [paint("menu.hint", "    " + say("{n} more above", n=above))] if above else []
        for number, block in zip(part, blocks, strict=True):
            lines += block if not tight or number == menu.chosen else block[:1]
        return [*lines, paint("menu.hint", "    " + say("{n} more below", n=below))] if below else lines

    def _option(self, menu: Menu, number: int, wrap: Wrap, *, listens: bool) -> list[str]:
        option, chosen = menu.options[number], number == menu.chosen
        style = "menu.chosen" if chosen and listens else "menu.option" if listens else "menu.hint"
        return wrap(style, f"{'❯' if chosen else ' '} {option.label}  {option.detail}".rstrip())
