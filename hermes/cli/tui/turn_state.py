"""The calls of a turn: those under way, and a line or a few for each that has ended."""

import asyncio
import re
from collections import deque
from collections.abc import Sequence

from hermes.cli.tui.progress import CHANGING, Deeds, Running
from hermes.cli.tui.style import Look
from hermes.commands.views.tool_descriptions import describe_call
from hermes.config.display import ToolProgress
from hermes.core.events import ToolEnded, ToolStarted
from hermes.core.parts import ToolStatus
from hermes.i18n.messages import say
from hermes.util.text import inert, one_line

KEPT = 50
"""Results whose beginnings are kept to be unfolded."""
UNFOLDED = 5
"""Results that are shown again at once."""
_FOLDED = 3
_PREVIEW_LINES = {ToolProgress.SHORT: 0, ToolProgress.ALL: 1, ToolProgress.VERBOSE: 12}
_DIFF_LINES = 24
_NOTE = re.compile(r"\[exit code \d+[^\]]*\]")
"""What a terminal call adds to what its command said."""


class Work:
    """What is shown of calls, as much as the person wants to see."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._folded: list[tuple[str, float]] = []
        self._folding = ""
        self.running: dict[str, Running] = {}
        self.deeds = Deeds()
        """What the turn has done so far."""
        self.results: deque[ToolEnded] = deque(maxlen=KEPT)

    def begin(self) -> None:
        """A new turn."""
        self.deeds = Deeds()
        self.running.clear()

    def start(self, event: ToolStarted) -> None:
        """A call is under way."""
        words = describe_call(event, max(self._look.width - 16, 20))
        self.running[event.call_id] = Running(event.name, words, asyncio.get_running_loop().time())

    def end(self, event: ToolEnded) -> list[str]:
        """A call has ended: its lines. A refusal is told by a line of its own."""
        running = self.running.pop(event.call_id, None)
        words = running.words if running is not None else one_line(inert(event.name))
        self.deeds.add(event, words)
        self.results.append(event)
        if event.status is ToolStatus.REFUSED or self._look.display.tool_progress is ToolProgress.OFF:
            return []
        return self._report(event, words)

    def unfold(self) -> list[str]:
        """The calls of one kind that were held back: each, or all of them on a line."""
        folded, self._folded, name, self._folding = self._folded, [], self._folding, ""
        if len(folded) <= _FOLDED:
            return [self._look.tool(words, seconds) for words, seconds in folded]
        last = folded[-1][0]
        words = say("{name}, {n} times, the last: {last}", name=name, n=len(folded), last=last)
        return [self._look.tool(words, sum(seconds for _, seconds in folded))]

    def again(self) -> list[str]:
        """The results of the last calls, as far as they are kept; empty when there are none."""
        lines: list[str] = []
        for one in [*self.results][-UNFOLDED:]:
            lines.append(
                self._look.tool(inert(one.name), one.seconds, failed=one.failed or one.status is not ToolStatus.OK)
            )
            for raw in inert(one.preview).splitlines():
                lines += self._look.wrapped("result", f"  {raw}", indent=2)
        return lines

    def _report(self, event: ToolEnded, words: str) -> list[str]:
        look, progress = self._look, self._look.display.tool_progress
        lines = inert(event.preview).splitlines()
        if event.status is not ToolStatus.OK:
            said = one_line(" ".join(lines), look.width - 8)
            what = f"  {say(event.status.value)}{say(': ') if said else ''}{said}"
            return [*self.unfold(), look.tool(words, event.seconds, failed=True), look.paint("failed", what)]
        if event.name in CHANGING and any(line.startswith("@@") for line in lines):
            return [*self.unfold(), look.tool(words, event.seconds), *look.diff(lines, _DIFF_LINES)]
        most = _PREVIEW_LINES[progress]
        if progress is ToolProgress.SHORT and not event.failed:
            return self._fold(event.name, words, event.seconds)
        return self._beginning(event, words, lines, most)

    def _beginning(self, event: ToolEnded, words: str, lines: Sequence[str], most: int) -> list[str]:
        """A call with how it failed, if it did, and the first lines of its result."""
        look = self._look
        code = [look.paint("failed", f"  {_code(event.code)}")] if event.failed and event.code else []
        head = [*self.unfold(), look.tool(words, event.seconds, failed=event.failed), *code]
        more = any(line.strip() and not _NOTE.fullmatch(line) for line in lines[most:])
        tail = say("more: Ctrl-O") if more and most else ""
        return [*head, *(look.paint("result", f"  {line}") for line in self._cut(lines[:most], tail))]

    def _cut(self, lines: Sequence[str], tail: str) -> list[str]:
        """The lines in the screen's width; the last one says that there are more."""
        look = self._look
        cut = [look.cut(line, look.width - 2) for line in lines]
        if tail and cut:
            cut[-1] = look.cut(f"{look.cut(lines[-1], max(look.width - 24, 8))}  ({tail})", look.width - 2)
        return cut

    def _fold(self, name: str, words: str, seconds: float) -> list[str]:
        before = self.unfold() if name != self._folding else []
        self._folding = name
        self._folded.append((words, seconds))
        return before


def _code(code: int) -> str:
    return say("exit code {code}", code=code) if code > 0 else say("ended by signal {number}", number=-code)
