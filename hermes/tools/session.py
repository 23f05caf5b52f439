"""The context of tools: the session's state, the folders, the terminal, the web, the person."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from msgspec import Struct, field

from hermes.core.checkpoints import FileLoss, WorkspaceChanges
from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.frame import ToolSchema
from hermes.core.messages import ImagePart, Provenance, ToolCallPart, ToolResultPart
from hermes.core.secret import KeyHolder
from hermes.core.work_mode import WorkMode
from hermes.execution.base import (
    BackendHandle,
    CallPermissions,
    DeniedPath,
    Permit,
    SitePermissions,
    TerminalBackend,
)
from hermes.safety.paths import Places
from hermes.safety.secrets.redactor import Redactor
from hermes.tools.taint import Taint, TrustedFolders
from hermes.tools.taint_marks import TaintMarks
from hermes.util.clock import Clock
from hermes.util.file_handles import find_real_path
from hermes.util.renamed import renamed_names

if TYPE_CHECKING:
    from hermes.browser.page_report import PageReporter
    from hermes.core.code_runs import CodeRunState, StoredCodeRun
    from hermes.safety.urls import Resolver
    from hermes.speech.service import SpeechService
    from hermes.tools.output import ForegroundCommand
    from hermes.tools.processes import BackgroundProcess, ProcessTable
    from hermes.web.fetch import FetchLimits, WebFetcher


NO_WEB = "There is no way to the web here."
DOWNLOADS_FOLDER = "downloads"
"""The folder of the browser's downloads, in the session's own: what lies there is from the web, whatever came since."""


class WebAccess(KeyHolder, frozen=True, kw_only=True):
    """The settings of web access.

    `environ` is read for proxies, certificates and the keys of search engines; the rest are settings.
    `private` are the hosts of the person's own network that are open (`security.allow_private_urls`).
    `resolver` is the system's unless another is given.
    """

    environ: Mapping[str, str] = {}
    private: tuple[str, ...] = ()
    search_backend: str = ""
    search_url: str = ""
    extract_backend: str = ""
    extract_url: str = ""
    ca_file: str = ""
    resolver: "Resolver | None" = None

    def make_fetcher(self, *also: str, limits: "FetchLimits | None" = None) -> "WebFetcher":
        """Return a fetcher for one call; hosts named in `also` are open as well."""
        from hermes.safety.urls import UrlPolicy
        from hermes.web.fetch import WebFetcher

        policy = UrlPolicy(private=(*self.private, *also))
        return WebFetcher(self.environ, policy=policy, resolver=self.resolver, limits=limits, ca_file=self.ca_file)


class ImageGeneration(Struct, frozen=True, kw_only=True):
    """What the person has set for pictures that are made (`image_gen:`), and the folder in which they are kept."""

    provider: str = ""
    model: str = ""
    base_url: str = ""
    seconds: float = 180.0
    """The seconds that one picture may take."""
    folder: Path


class KnownPictures(Protocol):
    """The pictures of a conversation."""

    @property
    def can_be_shown(self) -> bool:
        """Whether the conversation's model is sent pictures, as far as that is known."""
        ...

    def find(self, reference: str) -> ImagePart | None:
        """Return the picture of that name (`ImagePart.reference`), or None."""
        ...


class SideAnswer(Struct, frozen=True):
    """What a side model wrote. `is_whole` is false where it reached the most that it may write."""

    text: str
    model: str
    is_whole: bool = True


class SideModels(Protocol):
    """The models of side tasks, each with its own fallback models; what they cost counts for the session."""

    def is_enabled(self, purpose: str) -> bool:
        """Return whether the settings leave this side task to a model."""
        ...

    def is_named(self, purpose: str) -> bool:
        """Return whether the settings name a model for this side task."""
        ...

    async def ask(
        self, purpose: str, system: str, text: str, *, images: Sequence[ImagePart] = (), max_tokens: int
    ) -> SideAnswer:
        """Return the answer of the first model that gives one. Raises ToolError when none does, and says why."""
        ...


class BrowserAccess(Protocol):
    """The way of a session to its browser."""

    @property
    def allowed_methods(self) -> tuple[str, ...]:
        """The methods of the browser's protocol that the person lets the agent call."""
        ...

    def use_pages(
        self, permissions: SitePermissions | None, opens: str = ""
    ) -> "AbstractAsyncContextManager[PageReporter]":
        """Lend the tabs of the session's browser for one call, which `permissions` are asked for; it is started if need
        be, and one browser after another has tabs and refs of its own. `opens` is the address that the call opens.

        Raises BrowserError with what to do when none can be started.
        """
        ...

    async def close(self) -> None:
        """End the browser."""
        ...


class Asker(Protocol):
    """Puts a question of the model's to the person."""

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Return the person's answer, one of `choices` or free text; an empty one where the person closed the
        question, None when nobody is there to answer.
        """
        ...


class Safeguard(Protocol):
    """Saves what is about to be changed, so that it can be undone. Never raises for what it cannot save."""

    async def save_before(self, paths: Sequence[str], *, anything: bool, folders: Sequence[str] = ()) -> None:
        """Save what is at the paths (absolute); with `anything`, since a command runs, the whole workspace and
        `folders`, those outside of it that it may write.
        """
        ...

    @property
    def keeps_copies(self) -> bool:
        """Whether copies of files are kept at all."""
        ...

    def can_copy(self, path: str) -> bool:
        """Return whether what is at a path is not too large for a copy."""
        ...

    async def find_uncovered(self, losses: Sequence[FileLoss], folders: Sequence[str] = ()) -> Mapping[FileLoss, str]:
        """Save as before a command, and return for each loss the first path without a copy; empty for none."""
        ...

    async def record_after(self, paths: Sequence[str], *, ran: bool = False) -> None:
        """Record the state of these paths after the change, and with `ran` that a command has ended."""
        ...

    async def list_changes(self, others: Sequence[str], *, running: bool) -> WorkspaceChanges:
        """Return what has changed since the last time, in the workspace and in `others`, since a command ran.

        `running`: processes go on and may change more, also in later turns.
        """
        ...


class OpenBuffers(Protocol):
    """The files of a session as they stand in a person's editor."""

    async def find_unsaved(self, path: str, context: "ToolContext") -> str | None:
        """Return the text of a file (its absolute path) where it stands in the editor other than on disk; else None."""
        ...

    async def save_unsaved(self, path: str, context: "ToolContext") -> None:
        """Have the editor save a file that a call is about to change."""
        ...


class FoundTool(Struct, frozen=True):
    """A deferred tool that was found. `origin` says who wrote its description and schema; None: Hermes itself.

    `note` is what its owner says of all its tools; of the same origin.
    """

    schema: ToolSchema
    origin: Provenance | None = None
    note: str = ""


class DeferredTools(Protocol):
    """Tools that exist for this session but are not in its fixed array."""

    async def wait_for_tools(self) -> str:
        """Wait, not long, for tools that are still to come; return in words what is missing in the end."""
        ...

    def search(self, query: str, limit: int) -> Sequence[FoundTool]:
        """Return the tools that match `query` best, best first."""
        ...

    def list_deferred_names(self) -> Sequence[str]:
        """Return the names of all deferred tools."""
        ...


class CodeAccess(Struct, frozen=True, kw_only=True):
    """What the person has set for code that calls tools (`code_execution:`), and what its engines need."""

    engine: str = "auto"
    timeout: float = 300.0
    """Seconds that the code itself may run, without the time in which its calls do."""
    max_calls: int = 50
    max_output: int = 50_000
    """The bytes that it may print."""
    key_file: Path | None = None
    """The file that holds the key by which stored runs are proved; None: none is stored."""
    environ: Mapping[str, str] = {}
    """The environment in which programs are looked for."""


class OwnTool(Protocol):
    """A tool of no session, which another tool has for itself: a `Tool`, whose module imports this one."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


class NestedCalls(Protocol):
    """Makes calls for the code of a call: each goes through all that a model's own call goes through."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the tools that code may call."""
        ...

    @property
    def can_run_commands(self) -> bool:
        """Whether the session may run commands at all."""
        ...

    async def run(self, calls: Sequence[ToolCallPart], own: OwnTool | None = None) -> Sequence[ToolResultPart]:
        """Run calls as one batch and return their results, with texts as they are and not as the model is shown them.

        `own` is the tool of the one call, where it is no tool of the session's but the calling tool's own. Untrusted
        sources of the results count for what the session does from then on.
        """
        ...

    def count_sources(self, sources: Sequence[str]) -> None:
        """Let untrusted sources count from now on."""
        ...

    async def record_state(self, state: "CodeRunState", *, durable: bool = False) -> None:
        """Record the state of the code, with the intents of the calls that follow."""
        ...

    async def read_run(self) -> "StoredCodeRun | None":
        """Return what another process has left of this call's run, or None."""
        ...


class FileStamp(Struct, frozen=True):
    """The inode, size and time that tell one state of a file from another without reading it."""

    inode: int
    size: int
    modified_ns: int


class Todo(Struct, frozen=True):
    """One step of the plan that the model keeps for itself."""

    id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


class TodoList(Protocol):
    """The steps that the model keeps for one session."""

    async def read_items(self) -> list[Todo]:
        """Return the steps, in order."""
        ...

    async def replace_items(self, items: Sequence[Todo]) -> None:
        """Keep these steps in the place of all others."""
        ...


class TemporaryTodoList:
    """Steps that are kept in memory, for a session that is not stored."""

    def __init__(self) -> None:
        self._items: list[Todo] = []

    async def read_items(self) -> list[Todo]:
        """Return the steps, in order."""
        return list(self._items)

    async def replace_items(self, items: Sequence[Todo]) -> None:
        """Keep these steps in the place of all others."""
        self._items = list(items)


class TodoStore(Protocol):
    """Keeps the lists of sessions, each as JSON."""

    async def get(self, session_id: str) -> bytes | None:
        """Return a session's list, or None."""
        ...

    async def replace(self, session_id: str, items: bytes) -> None:
        """Store a session's list in the place of an earlier one."""
        ...


class StoredTodoList:
    """Steps that are stored with their session: restarts, kills and compressions leave them, and a branch begins with
    them. The store is opened when a model uses them first.
    """

    def __init__(self, open_store: Callable[[], TodoStore], session_id: str) -> None:
        self._open_store = open_store
        self._session_id = session_id

    async def read_items(self) -> list[Todo]:
        """Return the steps, in order."""
        stored = await self._open_store().get(self._session_id)
        return msgspec.json.decode(stored, type=list[Todo]) if stored is not None else []

    async def replace_items(self, items: Sequence[Todo]) -> None:
        """Store these steps in the place of all others."""
        await self._open_store().replace(self._session_id, to_json(list(items)))


class OneTimePaths(Struct, frozen=True):
    """Paths that are open to a command when it is run once more, as it was, in the folder in which it was refused.

    `code` is a hash of the files that it runs: another content of theirs would be another command.
    """

    cwd: str
    paths: tuple[DeniedPath, ...]
    code: str = ""


class ToolLimits(Struct, frozen=True, kw_only=True):
    """The limits that the person has set for all tools of a session."""

    command_seconds: float = 180.0
    """The seconds that a command in the foreground may take when the model names no time."""
    result_characters: int = 50_000
    """The characters of a result that the model is shown; a tool's own cap takes precedence."""


DEFAULT_LIMITS = ToolLimits()
DEFAULT_CODE_ACCESS = CodeAccess()
NOTHING_TRUSTED = TrustedFolders()
NOTHING_MARKED = TaintMarks()


class ToolState(Struct):
    """The state of one session that changes from call to call. Owned by whoever owns the session; `close` ends its
    processes.
    """

    cwd: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that commands exported, on top of the backend's own."""
    unset: frozenset[str] = frozenset()
    """Variables of the backend's own that commands removed."""
    seen_files: dict[str, FileStamp] = field(default_factory=dict)
    """Files by real path as this session last read or wrote them."""
    written_files: dict[str, str] = field(default_factory=dict)
    """Files that this session wrote or had written, by real path, with the untrusted sources that were in the
    conversation then, one a line.
    """
    moved_paths: set[str] = field(default_factory=set)
    """The places to which its commands would move or link things: what lies there is the person's, whatever its name.
    """
    started_at: float = field(default_factory=time.time)
    """The time when the session began, by the clock that files are stamped with."""
    taint: Taint = field(default_factory=Taint)
    mode: WorkMode = WorkMode.ASK
    """How freely the session works, as a person has chosen."""
    uncovered: dict[FileLoss, str] = field(default_factory=dict)
    """For each loss of files by the calls of this batch what no checkpoint can bring back; empty where it can."""
    has_told_of_undo: bool = False
    """Whether the person was told that files are deleted without a question, since copies are kept."""
    has_told_of_no_copy: bool = False
    """Whether the person was told that what is deleted can only be made again, since no copy is kept."""
    one_time_paths: dict[str, OneTimePaths] = field(default_factory=dict)
    """The paths that a person has allowed for one more run of a command, by its text."""
    foreground: "ForegroundCommand | None" = None
    """The command that a call waits for now."""
    tell_process_end: "Callable[[BackgroundProcess], None] | None" = None
    """Tells the person of the end of a background process."""
    pictures: KnownPictures | None = None
    """The pictures of the conversation, since its first turn in this process."""
    started_processes: "ProcessTable | None" = None
    """The background processes; None before anything has asked for them."""

    @property
    def processes(self) -> "ProcessTable":
        """The background processes of the session."""
        if self.started_processes is None:
            from hermes.tools.processes import ProcessTable

            self.started_processes = ProcessTable(self.tell_process_end)
        return self.started_processes

    async def close(self) -> None:
        """End every background process of the session."""
        if self.started_processes is not None:
            await self.started_processes.close()


class ToolContext(Struct, frozen=True, kw_only=True):
    """Everything a tool gets besides its arguments. One for a session, of which each call gets its own version.

    `trust` says which folders the person trusts; `web` is None where there is no way to the web. `asker` is None where
    nobody can be asked. `redactor` takes secrets out of what a tool returns. `deferred_tools` is None when there are no
    deferred tools. `search_path` is the PATH on which programs such as ripgrep are looked for.
    """

    session_id: str
    state: ToolState
    places: Places
    spill_folder: Path
    backend_handle: BackendHandle
    clock: Clock
    limits: ToolLimits = DEFAULT_LIMITS
    trust: TrustedFolders = NOTHING_TRUSTED
    redactor: Redactor | None = None
    asker: Asker | None = None
    deferred_tools: DeferredTools | None = None
    search_path: str = ""
    web: WebAccess | None = None
    browser: BrowserAccess | None = None
    """The session's browser; None where there is none."""
    taint_marks: TaintMarks = NOTHING_MARKED
    """Files that hold untrusted content since they were written."""
    search_seconds: float = 30.0
    call_id: str = ""
    """The call that it is for; this and what follows is what the gate allowed that call."""
    offline: bool = False
    """Whether the call's commands get no network."""
    permissions: CallPermissions | None = None
    """The permissions that are asked when a command wants more than it has, or the browser opens a site."""
    confirm_call: "Callable[[], Awaitable[Permit]] | None" = None
    """Returns whether the call may go on with what is in the conversation by now, as if it began only then."""
    opened: tuple[DeniedPath, ...] = ()
    """The files and folders that the call may read, or write, though commands do not, with every link followed."""
    allowed_writes: tuple[str, ...] = ()
    """The files that the call may write, with every link followed."""
    run_files: tuple[str, ...] = ()
    """The files from which the call's command runs code, as far as its text shows."""
    git_settings: tuple[str, ...] = ()
    """Files of git's settings that the call's command may change, because the person allowed it."""
    todo_list: TodoList = field(default_factory=TemporaryTodoList)
    safeguard: Safeguard | None = None
    """Saves what calls are about to change; None: nothing does."""
    code: CodeAccess = DEFAULT_CODE_ACCESS
    get_speech: "Callable[[], SpeechService] | None" = None
    """Returns what speaks; None where nothing does."""
    buffers: OpenBuffers | None = None
    """What a person has open in an editor; None where there is none, or it does not say."""
    nested_calls: NestedCalls | None = None
    """Makes calls for the code of this call; None for tools that run no such code."""
    image_generation: ImageGeneration | None = None
    """How pictures are made; None where they are not."""
    open_side_models: "Callable[[], SideModels] | None" = None
    """Returns the models of side tasks; None where there are none."""

    @property
    def backend(self) -> TerminalBackend:
        """The place where commands of this session run."""
        return self.backend_handle.get()

    def redact(self, text: str) -> str:
        """Return the text without the secrets that this process holds, and without what has a secret's shape."""
        return text if self.redactor is None else self.redactor.redact(text)

    def restore_secrets(self, text: str, original: str) -> str:
        """Return the text with placeholders of secrets put back as they are in `original`, in whose place it is
        written.

        Raises `ToolError` for a placeholder of something that was not there.
        """
        found = text if self.redactor is None else self.redactor.restore_placeholders(text, original)
        if not isinstance(found, str):
            raise ToolError(found.reason)
        return found

    @property
    def keeps_copies(self) -> bool:
        """Whether copies are kept of what calls change."""
        return self.safeguard is not None and self.safeguard.keeps_copies

    def resolve_path(self, path: str) -> str:
        """Return `path` as the person means it: `~` is their home, relative means from the current folder. Links and
        `..` stay as they are.
        """
        found = self._find_local_path(path)
        is_plain = "//" not in found and "/." not in found and not found.endswith("/")
        return found if is_plain else str(Path(found))

    def resolve_real_path(self, path: str) -> str | None:
        """Return the resolved path with every symlink followed, as it is now, or None when that cannot be told."""
        try:
            return find_real_path(self._find_local_path(path))
        except (OSError, ValueError):
            return None

    def _find_local_path(self, path: str) -> str:
        return self.backend.to_local_path(self.places.expand_path(path, str(self.state.cwd)))


__getattr__ = renamed_names(__name__)
