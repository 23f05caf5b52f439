"""Tracks untrusted content in what is sent to the model and in files, and so what may need a person's approval.

Taint is of spans: it counts while text from an untrusted source is in the conversation. What is made
from it (a summary, a file, a memory) inherits it, and so does what stands for a cleared result: what
was said of it is still there. A source is lifted by the person or by a new session. For files see `taint_marks`.
"""

import os
import os.path
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct, field

from hermes.core.messages import ImagePart, Message, Provenance, Role, Source, TextPart, ToolResultPart
from hermes.i18n.messages import N_
from hermes.util.text import escape_surrogates

# Texts, which are compiled when there is a text to look through.
_HOST = r"(?<![\w.@-])((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24})(?![\w-])"
_URL = r"(https?)://(\[[0-9a-f:.]{2,45}\]|[^\s/:@?#\[\]<>\"'`)]{1,253})(?::(\d{1,5}))?(?=[/:?#\s]|$)"
_LOCAL_PORT = r"(?<![\w.@-])(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}):(\d{1,5})(?!\d)"
_LOCAL_HOST = r"localhost|.*\.localhost|\[?[0-9a-f]*:[0-9a-f:.]*\]?|[\d.]+"
"""This machine, and addresses as such: only a port says which of its programs is meant."""
_FILE_SUFFIXES = "md rs sh py pl pm ps zip mov so cc ml mk la ms tf vi ac am sc st cl do id as in br cr is at pub"
"""Suffixes of files' names that are also top-level domains: their hosts are named by an address with `://`."""
_SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/opt/homebrew")
_SINGLE_KINDS = frozenset(Source)
_ESCAPE, _LINE_BREAK = "\\", "\n"
PLUGIN_LABEL = "plugin:"
"""What the label of a plug-in's text begins with."""
_MAX_CHARACTERS = 200_000
"""The most characters of a person's message in which hosts are looked for."""


def name_source(kind: Source, label: str) -> str:
    """Return the name of a source, which is one line: a folder's name may have line breaks."""
    label = escape_surrogates(label)
    return f"{kind}:{label.replace(_ESCAPE, 2 * _ESCAPE).replace(_LINE_BREAK, f'{_ESCAPE}n')}"


def split_source(source: str) -> tuple[str, str]:
    """Return the kind and the label of a source by its name."""
    kind, _, label = source.partition(":")
    return kind, re.sub(r"\\(.)", lambda found: _LINE_BREAK if found[1] == "n" else found[1], label)


def describe_source(source: str, *, has_kind: bool = False) -> str:
    """Return a source as people read it: its label, with its kind before it where that is asked for; a plug-in is named
    in words.
    """
    kind, _, label = source.partition(":")
    if kind == Source.OTHER and label.startswith(PLUGIN_LABEL):
        return N_("the plug-in {name}", name=label.removeprefix(PLUGIN_LABEL))
    return source if has_kind else label


def sources_from_provenance(provenance: Provenance) -> list[str]:
    """Return the sources by which a span's taint is counted and lifted: a host, a server, a project's folder.

    Text that was made from other text names all its sources, a line each.
    """
    if provenance.source is Source.OTHER and ":" in provenance.label:
        return provenance.label.split("\n")
    if provenance.source is not Source.WEB:
        return [name_source(provenance.source, provenance.label)]
    hosts = (_find_host(one) if "//" in one else one for one in provenance.label.split())
    return [f"{Source.WEB}:{host}" for host in dict.fromkeys(hosts)]


def _find_host(address: str) -> str:
    """Return the host of an address; one that cannot be read stands for itself."""
    try:
        return urlsplit(address).hostname or address
    except ValueError:
        return address


def join_provenances(one: Provenance | None, other: Provenance | None) -> Provenance | None:
    """Return where a text comes from that may be made of both: all untrusted sources count."""
    untrusted = [each for each in (one, other) if each is not None and each.is_untrusted]
    if len(untrusted) < 2 or one == other:
        return untrusted[0] if untrusted else one or other
    sources = dict.fromkeys(source for each in untrusted for source in sources_from_provenance(each))
    return Provenance(Source.OTHER, "\n".join(sources))


def provenance_from_sources(sources: Iterable[str]) -> Provenance | None:
    """Return the provenance of something that was made from text of these sources, or None when there are none.

    `sources_from_provenance` names the same sources again, so that a source which a person trusts stays one.
    """
    listed = list(sources)
    if len(listed) == 1:
        kind, label = split_source(listed[0])
        if kind in _SINGLE_KINDS and not (kind == Source.OTHER and ":" in label):
            return Provenance(Source(kind), label)
    return Provenance(Source.OTHER, "\n".join(listed)) if listed else None


def find_hosts(text: str) -> set[str]:
    """Return the hosts that a text of the person's mentions: names, and this machine's own with its port."""
    text = text[:_MAX_CHARACTERS]
    found: set[str] = set()
    if "." in text:
        names = (match[1].lower() for match in re.finditer(_HOST, text, re.IGNORECASE))
        found |= {name for name in names if name.rpartition(".")[2] not in _FILE_SUFFIXES.split()}
    if "://" in text:
        for match in re.finditer(_URL, text, re.IGNORECASE):
            port = match[3] or ("443" if match[1].lower() == "https" else "80")
            found.add(format_host(match[2], int(port)))
    if ":" in text:
        found |= {format_host(match[1], int(match[2])) for match in re.finditer(_LOCAL_PORT, text, re.IGNORECASE)}
    return found


def format_host(host: str, port: int) -> str:
    """Return the name of a connection's host in a question or an answer; of this machine's own with the port."""
    host = host.lower().strip("[]").rstrip(".")
    return f"{host}:{port}" if port and re.fullmatch(_LOCAL_HOST, host) else host


def find_untrusted_provenances(message: Message) -> Iterable[Provenance]:
    """Yield the provenance of each untrusted span of a message."""
    for part in message.parts:
        if isinstance(part, TextPart | ImagePart | ToolResultPart):
            origin = part.provenance
            if origin is not None and origin.is_untrusted:
                yield origin


class PersonWords(Struct, frozen=True):
    """The sources that a person trusts, and the hosts and paths that they have named."""

    trusted: frozenset[str]
    hosts: frozenset[str]
    paths: tuple[str, ...]


class Taint(Struct):
    """The sources whose text is in a session's conversation now, and what the person has said about them."""

    _sources: dict[str, None] = field(default_factory=dict)
    _trusted: set[str] = field(default_factory=set)
    _hosts: set[str] = field(default_factory=set)
    _paths: dict[str, None] = field(default_factory=dict)

    def add_message(self, message: Message) -> None:
        """Note that the conversation has grown by this message."""
        for origin in find_untrusted_provenances(message):
            self._sources |= dict.fromkeys(sources_from_provenance(origin))
        if message.role is Role.USER and not message.synthetic:
            for part in message.parts:
                if isinstance(part, TextPart) and (part.provenance is None or part.provenance.source is Source.PERSON):
                    self.note_person_text(part.text)

    def add_sources(self, sources: Iterable[str]) -> None:
        """Note that text of these sources is at work, though not in the conversation yet."""
        self._sources |= dict.fromkeys(sources)

    def note_person_text(self, text: str) -> None:
        """Note the hosts and paths that the person has named in their own words."""
        self._hosts |= find_hosts(text)
        if "/" in text:
            from hermes.tools.named_paths import find_named_paths  # few messages name a path

            self._paths |= dict.fromkeys(find_named_paths(text))

    def list_named_paths(self) -> tuple[str, ...]:
        """Return the paths that the person has written in this conversation, as they were written."""
        return tuple(self._paths)

    def restart_from(self, messages: Iterable[Message]) -> None:
        """Start over with these messages as the conversation. Hosts that the person named before stay named."""
        self._sources.clear()
        for message in messages:
            self.add_message(message)

    def describe_words(self) -> "PersonWords":
        """Return what the person has said about sources, hosts and paths."""
        return PersonWords(frozenset(self._trusted), frozenset(self._hosts), tuple(self._paths))

    def add_words(self, words: "PersonWords") -> None:
        """Take over what the person has said elsewhere: in the conversation of a sub-agent's parent."""
        self._trusted |= words.trusted
        self._hosts |= words.hosts
        self._paths |= dict.fromkeys(words.paths)

    def list_sources(self) -> tuple[str, ...]:
        """Return the sources that count, the oldest first."""
        return tuple(source for source in self._sources if source not in self._trusted)

    def list_all_sources(self) -> tuple[str, ...]:
        """Return the sources in the conversation, also those that the person trusts here."""
        return tuple(self._sources)

    def trust_source(self, source: str) -> None:
        """Stop counting a source, because the person trusts it."""
        self._trusted.add(source)

    def is_host_named(self, host: str) -> bool:
        """Return whether the person has named this host in their own words in this conversation.

        The host is written as `format_host` writes it, or is this machine's own without the port that is not known.
        """
        host = host.lower()
        return host in self._hosts or (
            re.fullmatch(_LOCAL_HOST, host) is not None and any(one.startswith(f"{host}:") for one in self._hosts)
        )


def inherit_provenance(messages: Iterable[Message]) -> Provenance | None:
    """Return the provenance of something that is made from these messages, or None when all of it can be trusted."""
    return provenance_from_sources(
        dict.fromkeys(
            source
            for message in messages
            for one in find_untrusted_provenances(message)
            for source in sources_from_provenance(one)
        )
    )


class TrustedFolders(Struct, frozen=True):
    """The folders whose files the person trusts; everything else that is not the system's is untrusted."""

    folders: tuple[str, ...] = ()
    system: tuple[str, ...] = _SYSTEM_FOLDERS

    def find_untrusted_folder(self, path: str, workspace: str) -> str:
        """Return the folder that stands for an untrusted path, absolute and resolved;
        empty when the path is trusted.
        """
        if any(path == one or path.startswith(one.rstrip("/") + "/") for one in (*self.folders, *self.system)):
            return ""
        if path == workspace or path.startswith(workspace + "/"):
            return workspace
        return find_project_root(path)


def find_project_root(path: str) -> str:
    """Return the project that a path is in: the nearest folder above with a `.git`, else the folder itself."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    at = folder
    while at not in ("/", ""):
        if os.path.exists(os.path.join(at, ".git")):
            return at
        at = os.path.dirname(at)
    return folder
