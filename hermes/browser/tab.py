"""A tab: the session with its page, those with frames that have a process of their own, and what happens in them."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from hermes.browser.console_log import ConsoleLog
from hermes.browser.page_activity import PageActivity
from hermes.browser.protocol import (
    DialogOpening,
    DragIntercepted,
    FileChooserOpened,
    FrameEvent,
    FrameNavigated,
    FrameTreeResult,
)
from hermes.browser.refs import RefTable, RefTarget
from hermes.browser.target_session import TargetSession
from hermes.core.errors import BrowserError
from hermes.util.cancellation import cancel_tasks

T = TypeVar("T")
VIEWPORT = (1280, 800)
_MAX_ADDRESSES = 20
MAX_NOTES = 50
MAX_FRAMES = 30
"""The frames with a process of their own that are looked into."""
INPUT_SECONDS = 5.0
"""How long a page may take to take a key or a click; one whose script takes longer is stopped."""
START_SECONDS = 20.0
"""How long a page, frame or worker may take to start."""
_DOMAINS = ("Page", "Runtime", "Log", "Inspector", "DOM")
_SMALL_BUFFERS = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
AUTO_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


class PageCrashedError(BrowserError):
    """The process of a page has crashed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The page has crashed: {reason}.", "Open it again, or another page.")


class DialogOpenError(BrowserError):
    """A dialog is open, and its page does nothing until it is answered."""

    def __init__(self, dialog: "Dialog") -> None:
        super().__init__(f"The page waits for an answer to its {dialog.describe()}", "Use browser_dialog first.")


class Dialog(Struct, frozen=True):
    """A dialog of a page's script. `kind` is alert, confirm, prompt or beforeunload."""

    id: str
    session_id: str
    kind: str
    message: str
    default: str = ""

    def describe(self) -> str:
        """Return it on one line."""
        default = f" with the text {self.default[:100]!r}" if self.default else ""
        return f'{self.kind} dialog "{" ".join(self.message.split())[:500]}"{default} (id {self.id}).'


TargetEventTaker = Callable[[str, Raw, "Tab"], None]
"""Takes an event about the frames and workers of a tab."""


class Tab:
    """One tab of a browser. `number` is its name for the model."""

    def __init__(
        self, number: int, session: TargetSession, refs: RefTable, take_target_event: TargetEventTaker
    ) -> None:
        self.number = number
        self._take_target_event = take_target_event
        self.session = session
        self.refs = refs
        self.title = session.target.title
        self.activity = PageActivity(session.target.target_id)
        self.activity.url = session.target.url
        self.console = ConsoleLog()
        self.frames: dict[str, TargetSession] = {}
        """The sessions of frames that have a process of their own, by their ids."""
        self.addresses: dict[str, str] = {}
        """The address of each frame's document."""
        self.documents: dict[str, str] = {}
        """The loader of each frame's document."""
        self.dialog: Dialog | None = None
        self.chooser: FileChooserOpened | None = None
        self.chooser_session: TargetSession | None = None
        """The session of the frame that asks for files."""
        self.drag: DragIntercepted | None = None
        self.is_crashed = False
        self.crash_reason = "it may have used too much memory"
        self.refused_popups = 0
        self.is_closed = False
        self.upload_folder: Path | None = None
        """Where files for forms are copied to; None: the browser reads them where they are."""
        self.is_remote = False
        """Whether its browser is not of this machine, so that files of here are none there."""
        self.secret_nodes: set[tuple[str, int]] = set()
        """Fields that are, or once were, fields of passwords, by session and node."""
        self.is_ready = asyncio.Event()
        """Set once its events come, or when it has gone before."""
        self.notes: list[str] = []
        """What the person who looks at the page would have noticed; whoever tells of it takes it away."""
        self._dialogs = 0
        self._blocked = asyncio.Event()

    @property
    def main_frame(self) -> str:
        """The id of the main frame, which is that of the target."""
        return self.session.target.target_id

    @property
    def is_untouched(self) -> bool:
        """Whether it is as empty as it was opened, and by no page, which could write into it."""
        return not self.activity.navigations and not self.session.target.opener_id

    @property
    def sessions(self) -> Iterator[TargetSession]:
        """The page's session and those of its frames."""
        yield self.session
        yield from [*self.frames.values()][:MAX_FRAMES]

    def list_addresses(self) -> tuple[str, ...]:
        """Return the addresses of the page and of the documents in its frames."""
        frames = (*self.addresses.values(), *(one.target.url for one in self.frames.values()))
        return tuple(filter(None, dict.fromkeys((self.activity.url, *frames))))[:_MAX_ADDRESSES]

    def find_session(self, session_id: str) -> TargetSession | None:
        """Return the session of that id, or None."""
        return next((one for one in (self.session, *self.frames.values()) if one.session_id == session_id), None)

    def find_target(self, ref: str) -> tuple[RefTarget, TargetSession]:
        """Return the node of a ref, and its session. Raises BrowserError for one that is not of this tab's page."""
        target = self.refs.find_target(ref)
        if target.tab_id != self.number:
            raise BrowserError(f"{ref} is in tab {target.tab_id}: switch to it by browser_tabs first.")
        session = self.find_session(target.session_id)
        if session is None:
            raise BrowserError(f"{ref} is stale: its frame is gone. Take a new browser_snapshot.")
        return target, session

    def prepare_page(self) -> None:
        """Ask for what is needed of the page; it may wait for the debugger still."""
        self.prepare_frame(self.session)
        width, height = VIEWPORT
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.session.post("Emulation.setDeviceMetricsOverride", metrics)

    def add_note(self, note: str) -> None:
        """Note something that a person would have noticed; the same once, and no more than a few."""
        if note not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(note)

    def take_notes(self) -> list[str]:
        """Return the notes, and forget them."""
        notes, self.notes = self.notes, []
        return notes

    async def read_first_document(self) -> None:
        """Learn which document the page has; its events come from then on. Raises BrowserError."""
        found = await self.session.call_for(FrameTreeResult, "Page.getFrameTree", seconds=START_SECONDS)
        frame = found.frame_tree.frame
        self.documents.setdefault(frame.id, frame.loader_id)
        self.activity.take_first_document(frame)
        self.is_ready.set()

    def prepare_frame(self, session: TargetSession) -> None:
        """Ask for the events of a session."""
        session.connection.set_handler(session.session_id, partial(self._take, session))
        for domain in _DOMAINS:
            session.post(f"{domain}.enable")
        session.post("Network.enable", _SMALL_BUFFERS)
        session.post("Target.setAutoAttach", AUTO_ATTACH)
        session.post("Page.setInterceptFileChooserDialog", {"enabled": True})

    def find_obstacle(self) -> BrowserError | None:
        """Return why nothing can be done on the page; None where it can."""
        if self.is_closed:
            return BrowserError("The tab is closed.", "Use browser_tabs to see which are open.")
        if self.is_crashed:
            return PageCrashedError(self.crash_reason)
        return DialogOpenError(self.dialog) if self.dialog is not None else None

    def check_usable(self) -> None:
        """Raise BrowserError where nothing can be done on the page."""
        if (obstacle := self.find_obstacle()) is not None:
            raise obstacle

    async def run(self, work: Coroutine[object, object, T]) -> T | None:
        """Run work on the page and return its result; None where a dialog has opened meanwhile, since all that is
        asked of the page then waits for its answer.

        Raises as the work, and BrowserError when the page crashes or the tab is closed.
        """
        task = asyncio.ensure_future(work)
        blocked = asyncio.ensure_future(self._blocked.wait())
        try:
            await asyncio.wait({task, blocked}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            await cancel_tasks([one for one in (task, blocked) if not one.done()])
        if self.dialog is None:
            with contextlib.suppress(BrowserError, asyncio.CancelledError):
                task.result()
            self.check_usable()
        return None

    async def answer_dialog(self, *, accept: bool, text: str = "", seconds: float = 5.0) -> Dialog:
        """Answer the open dialog and return it. Raises BrowserError where none is open."""
        dialog = self.dialog
        if dialog is None:
            raise BrowserError("No dialog is open.")
        params: dict[str, object] = {"accept": accept}
        if dialog.kind == "prompt" and accept:
            params["promptText"] = text or dialog.default
        await self.session.connection.call("Page.handleJavaScriptDialog", params, dialog.session_id, seconds)
        await self.activity.wait_until(lambda: self.dialog is not dialog, seconds)
        return dialog

    def mark_closed(self) -> None:
        """Let all that waits for the tab end."""
        self.is_closed = True
        self.dialog = None
        self.refs.drop_tab(self.number)
        self._block()

    def mark_crashed(self) -> None:
        """Let all that waits for the page end: its process is gone."""
        self.is_crashed = True
        self.dialog = None
        self.refs.drop_tab(self.number)
        self._block()

    def _block(self) -> None:
        self._blocked.set()
        self.is_ready.set()
        self.activity.wake()

    def _take(self, session: TargetSession, method: str, params: Raw) -> None:
        if method.startswith("Target."):
            self._take_target_event(method, params, self)
            return
        self.activity.take_event(method, params)
        if session is self.session:
            self.activity.take_main_event(method)
        self.console.take_event(method, params)
        match method:
            case "Page.frameNavigated":
                self._take_document(session, params)
            case "Page.frameDetached":
                self._take_detached(params)
            case "Page.javascriptDialogOpening":
                self._take_dialog(session, msgspec.json.decode(params, type=DialogOpening))
            case "Page.javascriptDialogClosed":
                self.dialog = None
                self._blocked.clear()
                self.activity.wake()
            case "Page.fileChooserOpened":
                self.chooser = msgspec.json.decode(params, type=FileChooserOpened)
                self.chooser_session = session
                self.activity.wake()
            case "Input.dragIntercepted":
                self.drag = msgspec.json.decode(params, type=DragIntercepted)
                self.activity.wake()
            case "Inspector.targetCrashed":
                if session is self.session:
                    self.mark_crashed()

    def _take_document(self, session: TargetSession, params: Raw) -> None:
        frame = msgspec.json.decode(params, type=FrameNavigated).frame
        earlier = self.documents.get(frame.id)
        session.forget_worlds()
        if earlier is not None and earlier != frame.loader_id:
            self.refs.drop_document(self.number, earlier)
        self.documents[frame.id] = frame.loader_id
        self.addresses[frame.id] = frame.url
        if not frame.parent_id and frame.id == self.main_frame:
            kept = {frame.id, *self.frames}
            self.addresses = {one: url for one, url in self.addresses.items() if one in kept}
        if frame.id == self.main_frame:
            self.secret_nodes.clear()
            self.chooser = None

    def _take_detached(self, params: Raw) -> None:
        gone = msgspec.json.decode(params, type=FrameEvent)
        if gone.reason != "swap":
            self.addresses.pop(gone.frame_id, None)
        if gone.reason != "swap" and (document := self.documents.pop(gone.frame_id, None)) is not None:
            self.refs.drop_document(self.number, document)

    def _take_dialog(self, session: TargetSession, opening: DialogOpening) -> None:
        self._dialogs += 1
        name = f"d{self.number}.{self._dialogs}"
        self.dialog = Dialog(name, session.session_id, opening.type, opening.message, opening.default_prompt)
        self._block()
