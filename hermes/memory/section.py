"""The prompt sections about memory: read when an epoch begins, the same to its end."""

from collections.abc import Callable, Sequence

from hermes.context.prompt import PromptTier
from hermes.core.errors import HermesError
from hermes.memory.files import DELIMITER, MemoryNotebook, count_characters
from hermes.safety.fencing import reveal_hidden_text, show_control_characters

GUIDANCE = (
    "Save with the memory tool what later sessions need, a line each: who the person is and what they want, their"
    " corrections, hard-won facts of their machine and projects. Not task progress, guesses, or what is easily found."
)


class MemoryGuidanceSection:
    """The prompt section that says when to save something, and when not."""

    name = "memory guidance"
    tier = PromptTier.STABLE

    def render_text(self) -> str:
        """Return the guidance."""
        return GUIDANCE

    def list_remarks(self) -> Sequence[str]:
        """Return nothing: there is never a remark."""
        return ()


class MemoryFileSection:
    """The prompt section with one of the memory files as it is when an epoch begins."""

    tier = PromptTier.VOLATILE

    def __init__(self, book: MemoryNotebook) -> None:
        self.name = book.target.file
        self._book = book
        self._remarks: tuple[str, ...] = ()

    def render_text(self) -> str:
        """Return the file's header and entries; empty when there are none, or with a remark when it cannot
        be a memory.
        """
        self._remarks = ()
        try:
            entries = self._book.read_entries()
        except HermesError as error:
            self._remarks = (f"{error} Nothing of it is in the prompt.",)
            return ""
        if not entries:
            return ""
        shown = DELIMITER.join(reveal_hidden_text(show_control_characters(entry)).text for entry in entries)
        limit = self._book.limit
        if count_characters(entries) > limit:
            shown = f"{shown[:limit]}\n[... the rest is over the limit]"
            held = f"{self._book.path} holds {self._book.format_usage(entries)} characters"
            self._remarks = (f"{held}: the model sees the first {limit:,}. Shorten it.",)
        return f"{self._book.target.header} [{self._book.format_usage(entries)} characters]\n{shown}"

    def list_remarks(self) -> Sequence[str]:
        """Return what is wrong with the file."""
        return self._remarks


class MemoryProviderSection:
    """The prompt section of the session's memory provider, as it was when the session was opened."""

    name = "memory provider"
    tier = PromptTier.VOLATILE

    def __init__(self, block: Callable[[], str], lines: Callable[[], Sequence[str]]) -> None:
        self._block = block
        self._lines = lines

    def render_text(self) -> str:
        """Return the provider's block."""
        return self._block()

    def list_remarks(self) -> Sequence[str]:
        """Return what went wrong while the provider was initialized."""
        return self._lines()
