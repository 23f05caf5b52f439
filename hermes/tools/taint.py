"""Whose words stand in what is sent to the model, and so what may need a person's yes.

Taint is of spans: it counts while text from a source that nobody vouches for stands in the conversation. What is made
from it (a summary, a file, a memory) inherits it, and so does what stands for a cleared result: what was said of it
still stands there. A source is lifted by the person or by a new session.
"""

import os.path
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct, field

from hermes.core.messages import Message, Role
from hermes.core.parts import ImagePart, Provenance, Source, TextPart, ToolResultPart

# Texts, which are compiled when there is a text to look through.
_HOST = r"(?<![\w.@-])((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24})(?![\w-])"
_URL = r"(https?)://(\[[0-9a-f:.]{2,45}\]|[^\s/:@?#\[\]<>\"'`)]{1,253})(?::(\d{1,5}))?(?=[/:?#\s]|$)"
_OWN_PORT = r"(?<![\w.@-])(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}):(\d{1,5})(?!\d)"
_OWN = r"localhost|.*\.localhost|\[?[0-9a-f]*:[0-9a-f:.]*\]?|[\d.]+"
"""This machine, and addresses as such: which of its programs is meant only a port says."""
_FILES = "md rs sh py pl pm ps zip mov so cc ml mk la ms tf vi ac am sc st cl do id as in br cr is at pub"
"""Ends of files' names that are countries', or others', too: their hosts are named by an address with `://`."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/opt/homebrew")
_AT_MOST = 200_000
"""Characters of a person's message in which hosts are looked for."""


def sources_of(provenance: Provenance) -> list[str]:
    """The sources by which a span's taint is counted and lifted: a host, a server, a project's folder.

    Text that was made from others' text names them all, a line each.
    """
    if provenance.source is Source.OTHER and ":" in provenance.label:
        return provenance.label.split("\n")
    if provenance.source is not Source.WEB:
        return [f"{provenance.source}:{provenance.label}"]
    hosts = (urlsplit(one).hostname or one if "//" in one else one for one in provenance.label.split())
    return [f"{Source.WEB}:{host}" for host in dict.fromkeys(hosts)]


def derived(sources: Iterable[str]) -> Provenance | None:
    """The provenance of something that was made from text of these sources; None when there are none."""
    listed = list(sources)
    if len(listed) == 1:
        kind, _, label = listed[0].partition(":")
        return Provenance(Source(kind), label)
    return Provenance(Source.OTHER, "\n".join(listed)) if listed else None


def hosts_in(text: str) -> set[str]:
    """The hosts that a text of the person's mentions: names, and what is of this machine with its port."""
    text = text[:_AT_MOST]
    found: set[str] = set()
    if "." in text:
        names = (match[1].lower() for match in re.finditer(_HOST, text, re.IGNORECASE))
        found |= {name for name in names if name.rpartition(".")[2] not in _FILES.split()}
    if "://" in text:
        for match in re.finditer(_URL, text, re.IGNORECASE):
            port = match[3] or ("443" if match[1].lower() == "https" else "80")
            found.add(placed(match[2], int(port)))
    if ":" in text:
        found |= {placed(match[1], int(match[2])) for match in re.finditer(_OWN_PORT, text, re.IGNORECASE)}
    return found


def placed(host: str, port: int) -> str:
    """What a question or an answer about a connection names: a host, and of this machine's own the port too."""
    host = host.lower().strip("[]").rstrip(".")
    return f"{host}:{port}" if port and re.fullmatch(_OWN, host) else host


def provenances(message: Message) -> Iterable[Provenance]:
    """Where the untrusted spans of a message come from."""
    for part in message.parts:
        if isinstance(part, TextPart | ImagePart | ToolResultPart):
            origin = part.provenance
            if origin is not None and origin.untrusted:
                yield origin


class Taint(Struct):
    """The sources whose text stands in a session's conversation now, and what the person has said about them."""

    _spans: dict[str, None] = field(default_factory=dict)
    _lifted: set[str] = field(default_factory=set)
    _hosts: set[str] = field(default_factory=set)

    def note(self, message: Message) -> None:
        """The conversation has grown by this message."""
        for origin in provenances(message):
            self._spans |= dict.fromkeys(sources_of(origin))
        if message.role is Role.USER and not message.synthetic:
            for part in message.parts:
                if isinstance(part, TextPart) and (part.provenance is None or part.provenance.source is Source.PERSON):
                    self._hosts |= hosts_in(part.text)

    def restart(self, messages: Iterable[Message]) -> None:
        """The conversation is these messages now. Hosts that the person named before stay named."""
        self._spans.clear()
        for message in messages:
            self.note(message)

    def sources(self) -> tuple[str, ...]:
        """The sources that count, the oldest first."""
        return tuple(source for source in self._spans if source not in self._lifted)

    def lift(self, source: str) -> None:
        """The person vouches for a source."""
        self._lifted.add(source)

    def named(self, host: str) -> bool:
        """Whether the person has named this host in their own words in this conversation: as `placed` says it, or one
        of this machine's own without the port that is not known."""
        host = host.lower()
        return host in self._hosts or (
            re.fullmatch(_OWN, host) is not None and any(one.startswith(f"{host}:") for one in self._hosts)
        )


def inherited(messages: Iterable[Message]) -> Provenance | None:
    """The provenance of something that is made from these messages; None when all of it can be trusted."""
    return derived(
        dict.fromkeys(source for message in messages for one in provenances(message) for source in sources_of(one))
    )


class Trust(Struct, frozen=True):
    """The folders whose files the person vouches for; everything else that is not the system's is a stranger's."""

    folders: tuple[str, ...] = ()
    system: tuple[str, ...] = _SYSTEM

    def source(self, path: str, workspace: str) -> str:
        """The folder that stands for an untrusted path, absolute and resolved; empty when the path is trusted."""
        if any(path == one or path.startswith(one.rstrip("/") + "/") for one in (*self.folders, *self.system)):
            return ""
        if path == workspace or path.startswith(workspace + "/"):
            return workspace
        return project_root(path)


def project_root(path: str) -> str:
    """The project that a path is in: the nearest folder above with a `.git`, else the folder itself."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    at = folder
    while at not in ("/", ""):
        if os.path.exists(os.path.join(at, ".git")):
            return at
        at = os.path.dirname(at)
    return folder
