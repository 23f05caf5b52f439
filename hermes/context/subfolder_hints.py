"""Shows the model a subfolder's project file when the work first gets there."""

import os
from collections.abc import Callable, Iterable

from hermes.context.project_files import IsTrustedPath, find_project_file, find_repository_root
from hermes.context.text_files import NotTextError, read_text
from hermes.core.messages import Message
from hermes.core.parts import Provenance, Source, TextPart

LIMIT = 4_000
"""Characters of one file; its middle is left out beyond that."""
_MAX_FILES = 8
"""Files shown in one session; a tree with more of them says nothing new with each."""
_DEPTH = 16
_OPENING = "[What {path} says about working in that folder:]\n"


class SubfolderHints:
    """Watches the files that a session reads and writes, and shows each folder's project file once."""

    def __init__(self, cwd: str, is_trusted: IsTrustedPath, files: Callable[[], Iterable[str]]) -> None:
        self._cwd = os.path.realpath(cwd)
        self._is_trusted = is_trusted
        self._files = files
        self._looked = 0
        self._known: set[str] = {self._cwd}
        self._left = _MAX_FILES

    def mark_known(self, messages: Iterable[Message]) -> None:
        """Note the folders whose files these messages already hold."""
        for message in messages:
            for part in message.parts:
                origin = part.provenance if isinstance(part, TextPart) else None
                if origin is not None and origin.source is Source.FILE and origin.vouched:
                    self._known.add(os.path.dirname(origin.label))

    def collect_hints(self) -> list[TextPart]:
        """Return the project files to be shown now; most of the time none."""
        files = list(self._files())
        fresh, self._looked = files[self._looked :], len(files)
        folders = [folder for path in fresh for folder in self._unseen_folders(os.path.dirname(path))]
        return [part for folder in folders if (part := self._read_hint(folder)) is not None]

    def _unseen_folders(self, folder: str) -> list[str]:
        """Return the folders from below the working folder down to this one that have not been looked at."""
        if not folder.startswith(self._cwd.rstrip("/") + "/"):
            return []
        fresh: list[str] = []
        at = folder
        while at != self._cwd and at not in self._known and len(fresh) < _DEPTH:
            fresh.append(at)
            at = os.path.dirname(at)
        self._known.update(fresh)
        return fresh[::-1]

    def _read_hint(self, folder: str) -> TextPart | None:
        path = find_project_file(folder)
        real = os.path.realpath(path) if path else ""
        foreign = find_repository_root(folder) != find_repository_root(self._cwd)
        if not path or foreign or self._left <= 0 or not self._is_trusted(real):
            return None
        try:
            text = read_text(real, LIMIT)
        except (FileNotFoundError, NotTextError):  # the model may read it and see for itself
            return None
        self._left -= 1
        return TextPart(_OPENING.format(path=path) + text, Provenance(Source.FILE, path, vouched=True))
