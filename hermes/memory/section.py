"""The prompt's part about what is remembered: read when an epoch begins, the same to its end."""

from collections.abc import Callable, Sequence

from hermes.context.prompt import Tier
from hermes.core.errors import HermesError
from hermes.memory.files import DELIMITER, Notebook, size
from hermes.safety.fencing import inert, visible

GUIDANCE = (
    "Save with the memory tool what later sessions need, a line each: who the person is and what they want, their"
    " corrections, hard-won facts of their machine and projects. Not task progress, guesses, or what is easily found."
)


class GuidanceSection:
    """When to save something, and when not."""

    name = "memory guidance"
    tier = Tier.STABLE

    def text(self) -> str:
        """The guidance."""
        return GUIDANCE

    def remarks(self) -> Sequence[str]:
        """None."""
        return ()


class MemorySection:
    """One of the files as it stands when an epoch begins."""

    tier = Tier.VOLATILE

    def __init__(self, book: Notebook) -> None:
        self.name = book.target.file
        self._book = book
        self._remarks: tuple[str, ...] = ()

    def text(self) -> str:
        """Its header and its entries; empty when there are none, or the file cannot be a memory, which is remarked."""
        self._remarks = ()
        try:
            entries = self._book.read()
        except HermesError as error:
            self._remarks = (f"{error} Nothing of it is in the prompt.",)
            return ""
        if not entries:
            return ""
        shown = DELIMITER.join(visible(inert(entry)).text for entry in entries)
        limit = self._book.limit
        if size(entries) > limit:
            shown = f"{shown[:limit]}\n[... the rest is over the limit]"
            held = f"{self._book.path} holds {self._book.usage(entries)} characters"
            self._remarks = (f"{held}: the model sees the first {limit:,}. Shorten it.",)
        return f"{self._book.target.header} [{self._book.usage(entries)} characters]\n{shown}"

    def remarks(self) -> Sequence[str]:
        """What is wrong with the file."""
        return self._remarks


class ProviderSection:
    """What the session's memory provider adds to the prompt, as it was when the session was opened."""

    name = "memory provider"
    tier = Tier.VOLATILE

    def __init__(self, block: Callable[[], str], lines: Callable[[], Sequence[str]]) -> None:
        self._block = block
        self._lines = lines

    def text(self) -> str:
        """Its text."""
        return self._block()

    def remarks(self) -> Sequence[str]:
        """What went wrong while it was got ready."""
        return self._lines()
