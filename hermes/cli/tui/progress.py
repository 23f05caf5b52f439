"""What one turn has done so far, in few words."""

from collections import Counter

from msgspec import Struct, field

from hermes.core.events import ToolEnded
from hermes.core.parts import ToolStatus
from hermes.i18n.messages import say, say_many
from hermes.util.text import one_line

CHANGING = ("patch", "write_file")
_RUNNING = ("terminal", "process", "execute_code")
_READING = ("read_file", "search_files", "web_search", "web_extract", "session_search", "skill_view")


class Running(Struct):
    """A call under way; `since` is on the loop's clock."""

    name: str
    words: str
    since: float


class Deeds(Struct):
    """What the calls of a turn came to."""

    kinds: Counter[str] = field(default_factory=Counter)
    changed: list[str] = field(default_factory=list)
    failed: int = 0

    def add(self, ended: ToolEnded, words: str) -> None:
        """Count a call that has ended."""
        if ended.status is ToolStatus.REFUSED:
            return
        if ended.status is not ToolStatus.OK or ended.failed:
            self.failed += 1
        if ended.name in CHANGING:
            self.changed.append(words.partition(" ")[2] or words)
        self.kinds[ended.name] += 1

    def summary(self) -> str:
        """A line on what was done; empty when nothing was."""
        runs = sum(self.kinds[one] for one in _RUNNING)
        reads = sum(self.kinds[one] for one in _READING)
        files = list(dict.fromkeys(self.changed))
        others = sum(self.kinds.values()) - runs - reads - sum(self.kinds[one] for one in CHANGING)
        parts = []
        if files:
            names = ", ".join(one_line(one, 40) for one in files[:3]) + (", …" if len(files) > 3 else "")
            parts.append(say_many("{n} file changed ({names})", "{n} files changed ({names})", len(files), names=names))
        if runs:
            parts.append(say_many("{n} command run", "{n} commands run", runs))
        if reads:
            parts.append(say_many("{n} look at things", "{n} looks at things", reads))
        if others:
            parts.append(say_many("{n} other call", "{n} other calls", others))
        if self.failed:
            parts.append(say_many("{n} of them did not succeed", "{n} of them did not succeed", self.failed))
        return say(", ").join(parts)
