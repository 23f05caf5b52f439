"""Whose words stand in what is sent to the model, and so what may need a person's yes.

Taint is of spans: it counts while text from a source that nobody vouches for stands in the conversation. What is made
from it (a summary, a file, a memory) inherits it. A source is lifted by the person, by a new session, or by a
compression that leaves its spans out.
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
_URL = r"https?://(\[[0-9a-f:.]{2,45}\]|[^\s/:@?#\[\]<>\"'`)]{1,253})(?=[/:?#\s]|$)"
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
    """The host names that a text of the person's mentions."""
    text = text[:_AT_MOST]
    found = {match[1].lower() for match in re.finditer(_HOST, text, re.IGNORECASE)} if "." in text else set()
    return found | {match[1].lower() for match in re.finditer(_URL, text, re.IGNORECASE)} if "://" in text else found


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
        """Whether the person has named this host in their own words in this conversation."""
        return host.lower() in self._hosts


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
