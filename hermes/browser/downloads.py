"""Files that pages download: into one folder, under names that are made safe, never larger than a limit."""

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from hermes.browser.cdp import CdpConnection
from hermes.browser.protocol import DownloadProgress, DownloadWillBegin

MAX_BYTES = 500 << 20
MAX_DOWNLOADS = 100
"""How many a browser takes in all."""
_MAX_NAME = 100
_UNSAFE = re.compile(r"[^\w.() -]+")


class Download(Struct):
    """A download. `state` is running, done, refused or stopped; `path` is where the file is in the end."""

    name: str
    url: str
    state: str = "running"
    path: str = ""
    size: int = 0

    def describe(self) -> str:
        """Return it on one line."""
        match self.state:
            case "done":
                return f"downloaded {self.name} ({self.size} bytes): {self.path}"
            case "refused":
                return f"the download of {self.name} was refused: there is no folder for it, or there are too many"
            case "stopped":
                return f"the download of {self.name} was stopped"
        return f"{self.name} is being downloaded"


class Downloads:
    """The downloads of a browser. `folder` is where they go; None: they are refused.

    The browser writes them there under names of its own, so the folder must be there for it, too.
    """

    def __init__(self, connection: CdpConnection, folder: Path | None) -> None:
        self._connection = connection
        self._folder = folder
        self._by_id: dict[str, Download] = {}
        self._news: dict[int, Download] = {}
        self.version = 0
        """Grows with every change."""

    @property
    def settings(self) -> Mapping[str, object]:
        """The parameters of `Browser.setDownloadBehavior`."""
        if self._folder is None:
            return {"behavior": "deny", "eventsEnabled": True}
        return {"behavior": "allowAndName", "downloadPath": str(self._folder), "eventsEnabled": True}

    def take_news(self) -> list[Download]:
        """Return the downloads that have begun or ended since this was asked last."""
        news, self._news = [*self._news.values()], {}
        return news

    def _tell(self, download: Download) -> None:
        self._news[id(download)] = download
        self.version += 1

    @property
    def is_running(self) -> bool:
        """Whether one goes on."""
        return any(one.state == "running" for one in self._by_id.values())

    def take_event(self, method: str, params: Raw) -> None:
        """Take an event of the browser's."""
        if method == "Browser.downloadWillBegin":
            self._begin(msgspec.json.decode(params, type=DownloadWillBegin))
        elif method == "Browser.downloadProgress":
            self._go_on(msgspec.json.decode(params, type=DownloadProgress))

    def _begin(self, began: DownloadWillBegin) -> None:
        refused = self._folder is None or len(self._by_id) >= MAX_DOWNLOADS
        if len(self._by_id) >= 2 * MAX_DOWNLOADS:
            self._stop(began.guid)
            return
        name = make_safe_name(began.suggested_filename)
        download = Download(name, began.url[:500], "refused" if refused else "running")
        self._by_id[began.guid] = download
        self._tell(download)
        if refused:
            self._stop(began.guid)

    def _go_on(self, progress: DownloadProgress) -> None:
        download = self._by_id.get(progress.guid)
        if download is None or download.state != "running":
            return
        download.size = int(progress.received_bytes)
        if progress.state == "canceled":
            download.state = "stopped"
            self._tell(download)
        elif progress.state == "completed" and self._folder is not None:
            self._keep(download, self._folder / progress.guid, self._folder)
            self._tell(download)
        elif max(progress.received_bytes, progress.total_bytes) > MAX_BYTES:
            self._stop(progress.guid)

    def _stop(self, guid: str) -> None:
        self._connection.post("Browser.cancelDownload", {"guid": guid})

    def _keep(self, download: Download, stored: Path, folder: Path) -> None:
        """Give a file that is whole its name, never that of another one, and no right to be run."""
        stem, dot, suffix = download.name.rpartition(".")
        names = (
            download.name,
            *(f"{stem or suffix} ({number}){dot if stem else ''}{suffix if stem else ''}" for number in range(1, 1000)),
        )
        try:
            _protect_file(stored)
            target = next(path for name in names if not (path := folder / name).exists())
            stored.rename(target)
        except (OSError, StopIteration):
            download.state = "refused"
            return
        download.path, download.state = str(target), "done"


def _protect_file(path: Path) -> None:
    """Take the right to be run from a file. Raises OSError for what is no plain file: the browser made it."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def make_safe_name(suggested: str) -> str:
    """Return a file name without folders, control characters or a dot at its start."""
    name = _UNSAFE.sub("_", suggested.replace("\\", "/").rpartition("/")[2]).lstrip("._ ").strip()
    stem, dot, suffix = name.rpartition(".")
    if len(name) > _MAX_NAME:
        name = stem[: _MAX_NAME - len(suffix) - 1] + dot + suffix if 0 < len(suffix) < 20 else name[:_MAX_NAME]
    return name or "download"
