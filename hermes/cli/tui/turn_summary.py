"""Summarize what one turn has done so far."""

from collections import Counter

from msgspec import Struct, field

from hermes.core.events import ToolEnded
from hermes.core.parts import ToolStatus
from hermes.i18n.messages import tr, tr_plural
from hermes.util.text import to_one_line

EDIT_TOOLS = ("patch", "write_file")
_COMMAND_TOOLS = ("terminal", "process", "execute_code")
_READ_TOOLS = ("read_file", "search_files", "web_search", "web_extract", "session_search", "skill_view")


class RunningCall(Struct):
    """A running call; `since` is on the loop's clock."""

    name: str
    words: str
    since: float


class TurnSummary(Struct):
    """Counts what the calls of a turn did."""

    kinds: Counter[str] = field(default_factory=Counter)
    changed: list[str] = field(default_factory=list)
    failed: int = 0

    def add_call(self, ended: ToolEnded, words: str) -> None:
        """Count a call that has ended."""
        if ended.status is ToolStatus.REFUSED:
            return
        if ended.status is not ToolStatus.OK or ended.failed:
            self.failed += 1
        if ended.name in EDIT_TOOLS:
            self.changed.append(words.partition(" ")[2] or words)
        self.kinds[ended.name] += 1

    def format_summary(self) -> str:
        """Return a line on what was done; empty when nothing was."""
        runs = sum(self.kinds[one] for one in _COMMAND_TOOLS)
        reads = sum(self.kinds[one] for one in _READ_TOOLS)
        files = list(dict.fromkeys(self.changed))
        others = sum(self.kinds.values()) - runs - reads - sum(self.kinds[one] for one in EDIT_TOOLS)
        parts = []
        if files:
            names = ", ".join(to_one_line(one, 40) for one in files[:3]) + (", …" if len(files) > 3 else "")
            parts.append(
                tr_plural("{n} file changed ({names})", "{n} files changed ({names})", len(files), names=names)
            )
        if runs:
            parts.append(tr_plural("{n} command run", "{n} commands run", runs))
        if reads:
            parts.append(tr_plural("{n} look at things", "{n} looks at things", reads))
        if others:
            parts.append(tr_plural("{n} other call", "{n} other calls", others))
        if self.failed:
            parts.append(tr_plural("{n} of them did not succeed", "{n} of them did not succeed", self.failed))
        return tr(", ").join(parts)
