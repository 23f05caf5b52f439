"""What a tool may touch: the session's state, the folders, the terminal, the person."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from hermes.core.errors import ToolError
from hermes.core.frame import ToolSchema
from hermes.core.parts import Provenance
from hermes.execution.base import Door, TerminalBackend
from hermes.safety.places import Places
from hermes.safety.secrets.redactor import Redactor
from hermes.tools.processes import ProcessTable
from hermes.tools.taint import Taint, Trust
from hermes.tools.taint_marks import Marked
from hermes.util.clock import Clock
from hermes.web.access import WebAccess


class Asker(Protocol):
    """Puts a question of the model's to the person."""

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """The person's answer, one of `choices` or free text; None when nobody is there to answer."""
        ...


class Safeguard(Protocol):
    """Keeps what is about to be changed, so that it can be undone. Never raises for what it cannot keep."""

    async def before(self, paths: Sequence[str], *, anything: bool) -> None:
        """Keep what stands at the paths (absolute); with `anything` the whole workspace, since a command runs."""
        ...

    async def after(self, paths: Sequence[str]) -> None:
        """Note what was left at these paths."""
        ...


class Found(Struct, frozen=True):
    """A tool of the catalogue. `origin` says whose words its description and schema are; None: Hermes' own."""

    schema: ToolSchema
    origin: Provenance | None = None


class Catalogue(Protocol):
    """Tools that exist for this session but are not in its fixed array."""

    async def settled(self) -> str:
        """Wait, not long, for tools that are still to come; what is not there in the end, in words."""
        ...

    def search(self, query: str, limit: int) -> Sequence[Found]:
        """The tools that match `query` best, best first."""
        ...

    def deferred_names(self) -> Sequence[str]:
        """The names of all of them."""
        ...


class FileStamp(Struct, frozen=True):
    """What tells one state of a file from another without reading it."""

    inode: int
    size: int
    modified_ns: int


class Todo(Struct, frozen=True):
    """One step of the plan that the model keeps for itself."""

    id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class Opening(Struct, frozen=True):
    """Paths that a command may write when it is run once more, as it was, in the folder in which it was refused."""

    cwd: str
    paths: tuple[str, ...]


class Limits(Struct, frozen=True, kw_only=True):
    """What the person has set for all tools of a session."""

    command_seconds: float = 180.0
    """How long a command in the foreground may take when the model names no time."""
    result_characters: int = 50_000
    """How much of a result the model is shown; a tool with a cap of its own goes by that."""


DEFAULT_LIMITS = Limits()
NOTHING_TRUSTED = Trust()
NOTHING_MARKED = Marked()


class ToolState(Struct):
    """What changes from call to call in one session. Owned by whoever owns the session; `close` ends its processes."""

    cwd: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that commands exported, on top of the backend's own."""
    unset: frozenset[str] = frozenset()
    """Variables of the backend's own that commands removed."""
    seen: dict[str, FileStamp] = field(default_factory=dict)
    """Files by real path as this session last read or wrote them."""
    wrote: dict[str, str] = field(default_factory=dict)
    """Files that this session wrote or had written, by real path, with the untrusted sources that stood in the
    conversation then, one a line."""
    moved: set[str] = field(default_factory=set)
    """Where its commands would move or link things: what lies there is the person's, whatever it is called."""
    began: float = field(default_factory=time.time)
    """When the session began, by the clock that files are stamped with."""
    taint: Taint = field(default_factory=Taint)
    todos: list[Todo] = field(default_factory=list)
    processes: ProcessTable = field(default_factory=ProcessTable)
    openings: dict[str, Opening] = field(default_factory=dict)
    """What a person has opened for one more run of a command, by its text."""

    async def close(self) -> None:
        """End every background process of the session."""
        await self.processes.close()


class ToolContext(Struct, frozen=True, kw_only=True):
    """Everything a tool gets besides its arguments. One for a session, of which each call gets its own version.

    `trust` says whose files the person vouches for; `web` is None where there is no way to the web. `asker` is None
    where nobody can be asked. `redactor` takes secrets out of what a tool brings. `catalogue` is None when there are no
    deferred tools. `search_path` is the PATH on which programs such as ripgrep are looked for.
    """

    session_id: str
    state: ToolState
    places: Places
    spill: Path
    backend: TerminalBackend
    clock: Clock
    limits: Limits = DEFAULT_LIMITS
    trust: Trust = NOTHING_TRUSTED
    redactor: Redactor | None = None
    asker: Asker | None = None
    catalogue: Catalogue | None = None
    search_path: str = ""
    web: WebAccess | None = None
    marked: Marked = NOTHING_MARKED
    """Files that hold strangers' words since they were written."""
    search_seconds: float = 30.0
    call_id: str = ""
    """The call that it is for; this and what follows is what the gate let that call do."""
    offline: bool = False
    """Whether its commands get no network."""
    door: Door | None = None
    """Who is asked when they want more than they have."""
    cleared: tuple[str, ...] = ()
    """Files that it may write, with every link followed."""
    settings: tuple[str, ...] = ()
    """Files of git's settings that its command may change: the person said so."""
    safeguard: Safeguard | None = None
    """Who keeps what calls are about to change; None: nobody does."""

    def redact(self, text: str) -> str:
        """The text without the secrets that this process holds, and without what has a secret's shape."""
        return text if self.redactor is None else self.redactor.redact(text)

    def restored(self, text: str, original: str) -> str:
        """The text with placeholders of secrets put back as they stand in `original`, in whose place it is written.

        Raises `ToolError` for a placeholder of something that did not stand there.
        """
        found = text if self.redactor is None else self.redactor.resolve(text, original)
        if not isinstance(found, str):
            raise ToolError(found.reason)
        return found

    def resolve(self, path: str) -> Path:
        """`path` as the person means it: `~` is their home, relative means from the current folder. Not normalised."""
        return Path(self.backend.outside(self.places.expand(path, str(self.state.cwd))))

    def real(self, path: str) -> str | None:
        """The same with every symlink followed, as it is now; None when that cannot be told."""
        try:
            return os.path.realpath(self.resolve(path))
        except (OSError, ValueError):
            return None
