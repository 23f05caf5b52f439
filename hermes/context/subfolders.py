"""What folders below the working folder say about working in them, told when the work gets there (row X-31)."""

import os
from collections.abc import Callable, Iterable

from hermes.context.project import Vouches, first_file, repository_root
from hermes.context.texts import NotTextError, read_text
from hermes.core.messages import Message
from hermes.core.parts import Provenance, Source, TextPart

LIMIT = 4_000
"""Characters of one file; its middle is left out beyond that."""
_MOST = 8
"""Files told in one session; a tree that has more of them says nothing new with each."""
_DEPTH = 16
_OPENING = "[What {path} says about working in that folder:]\n"


class SubfolderHints:
    """Looks at the files that a session reads and writes; tells each folder's file once."""

    def __init__(self, cwd: str, vouches: Vouches, files: Callable[[], Iterable[str]]) -> None:
        self._cwd = os.path.realpath(cwd)
        self._vouches = vouches
        self._files = files
        self._looked = 0
        self._known: set[str] = {self._cwd}
        self._left = _MOST

    def recall(self, messages: Iterable[Message]) -> None:
        """Take what these messages hold for told."""
        for message in messages:
            for part in message.parts:
                origin = part.provenance if isinstance(part, TextPart) else None
                if origin is not None and origin.source is Source.FILE and origin.vouched:
                    self._known.add(os.path.dirname(origin.label))

    def news(self) -> list[TextPart]:
        """What is to be told by now; nothing most of the time."""
        files = list(self._files())
        fresh, self._looked = files[self._looked :], len(files)
        folders = [folder for path in fresh for folder in self._between(os.path.dirname(path))]
        return [part for folder in folders if (part := self._told(folder)) is not None]

    def _between(self, folder: str) -> list[str]:
        """The folders from below the working folder down to this one that have not been looked at."""
        if not folder.startswith(self._cwd.rstrip("/") + "/"):
            return []
        fresh: list[str] = []
        at = folder
        while at != self._cwd and at not in self._known and len(fresh) < _DEPTH:
            fresh.append(at)
            at = os.path.dirname(at)
        self._known.update(fresh)
        return fresh[::-1]

    def _told(self, folder: str) -> TextPart | None:
        path = first_file(folder)
        real = os.path.realpath(path) if path else ""
        foreign = repository_root(folder) != repository_root(self._cwd)
        if not path or foreign or self._left <= 0 or not self._vouches(real):
            return None
        try:
            text = read_text(real, LIMIT)
        except (FileNotFoundError, NotTextError):  # the model may read it and see for itself
            return None
        self._left -= 1
        return TextPart(_OPENING.format(path=path) + text, Provenance(Source.FILE, path, vouched=True))
