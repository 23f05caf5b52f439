"""Questions as menus that the keyboard answers, one at a time. Nothing that was typed for something else answers them.

A menu takes keys only once it has been on the screen for a moment in which no key was pressed: what a person is just
typing goes on into the input line.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from hermes.app.desk import Option
from hermes.util.say import say

QUIET = 0.6
"""Seconds without a key after which a menu listens."""
MOST_SHOWN = 10
"""Options shown at once."""


class Menu(Struct, eq=False):
    """One question: `lines` stand above the options; `chosen` is where Enter would go; `answer` is set in the end."""

    lines: Sequence[str]
    options: Sequence[Option]
    answer: "asyncio.Future[int | None]"
    chosen: int = 0
    filter: str = ""
    typing: bool = False
    """Whether letters narrow the options down, as in long lists."""
    quiet_since: float = 0.0
    letters: dict[str, int] = field(default_factory=dict)
    """Keys that move to an option."""

    def shown(self) -> list[int]:
        """The options that are left by what was typed."""
        words = self.filter.lower().split()
        return [
            number
            for number, option in enumerate(self.options)
            if all(word in f"{option.label} {option.detail}".lower() for word in words)
        ]

    def move(self, steps: int) -> None:
        """Go up or down, round the ends."""
        shown = self.shown()
        if shown:
            at = shown.index(self.chosen) if self.chosen in shown else 0
            self.chosen = shown[(at + steps) % len(shown)]

    def type(self, letters: str) -> None:
        """Narrow down by letters, or move to the option that a letter stands for."""
        if self.typing:
            self.filter += letters
            shown = self.shown()
            if self.chosen not in shown and shown:
                self.chosen = shown[0]
        elif letters in self.letters:
            self.chosen = self.letters[letters]
        elif letters.isdecimal() and 0 < int(letters) <= len(self.options):
            self.chosen = int(letters) - 1

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
    """The menus of a chat: one is shown, the others wait in order."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._turn = asyncio.Lock()
        self.menu: Menu | None = None

    async def ask(
        self,
        lines: Sequence[str],
        options: Sequence[Option],
        *,
        chosen: int = 0,
        typing: bool = False,
        letters: dict[str, int] | None = None,
    ) -> int | None:
        """Show a menu when the one before has its answer; the number of the option taken, None when it was left."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            menu = Menu(lines, options, loop.create_future(), chosen, typing=typing, letters=letters or {})
            menu.quiet_since = loop.time()
            self.menu = menu
            waking = loop.call_later(QUIET, self._changed)
            self._changed()
            try:
                return await menu.answer
            finally:
                waking.cancel()
                self.menu = None
                self._changed()

    def listens(self) -> bool:
        """Whether keys go to the menu."""
        menu = self.menu
        return menu is not None and asyncio.get_running_loop().time() - menu.quiet_since >= QUIET

    def disturbed(self) -> None:
        """A key was pressed that was not for the menu: it waits for quiet anew."""
        if self.menu is not None and not self.listens():
            loop = asyncio.get_running_loop()
            self.menu.quiet_since = loop.time()
            loop.call_later(QUIET, self._changed)

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

    def drawn(self, paint: Callable[[str, str], str], cut: Callable[[str], str]) -> list[str]:
        """The menu as lines; empty when there is none."""
        menu = self.menu
        if menu is None:
            return []
        listens = self.listens()
        lines = list(menu.lines)
        if menu.typing:
            lines.append(paint("menu.hint", say("filter: {letters}", letters=menu.filter)))
        part, above, below = menu.window()
        if above:
            lines.append(paint("menu.hint", "    " + say("{n} more above", n=above)))
        for number in part:
            option = menu.options[number]
            label = f"{option.label}  {option.detail}".rstrip()
            chosen = number == menu.chosen
            style = "menu.chosen" if chosen and listens else "menu.option" if listens else "menu.hint"
            lines.append(paint(style, cut(f"{'❯' if chosen else ' '} {label}")))
        if below:
            lines.append(paint("menu.hint", "    " + say("{n} more below", n=below)))
        if not part:
            lines.append(paint("menu.hint", "    " + say("nothing fits")))
        hint = say("↑ ↓ choose, Enter takes it, Esc leaves") if listens else say("… waiting until you stop typing")
        return [*lines, paint("menu.hint", hint)]
