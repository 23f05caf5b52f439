"""What a server says of its tools, checked and bounded; and the names that the tools get here."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.errors import ToolError
from hermes.safety.fencing import inert, visible

PREFIX = "mcp__"
MAX_TOOLS = 1_000
MAX_DESCRIPTION = 2_000
MAX_SCHEMA = 16_000
"""Characters of a description and of a schema that a model is shown."""
_LARGEST = 64 * 1024
"""Bytes of a whole definition."""
_NAME, _SERVER = 64, 24
_HASH = 24
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_EMPTY = Raw(b'{"type":"object"}')


class Definition(Struct, frozen=True, kw_only=True):
    """A server's tool. `sent_name` is what the server calls it, `digest` stands for all that it says of it."""

    sent_name: str
    name: str
    description: str
    schema: bytes
    required: tuple[str, ...]
    reads_only: bool
    digest: str


class Page(Struct, frozen=True):
    """One page of a listing."""

    tools: list[Raw] = []
    cursor: str | None = field(default=None, name="nextCursor")


class _Hints(Struct):
    reads_only: bool | None = field(default=None, name="readOnlyHint")


class _Sent(Struct):
    name: str
    description: str | None = None
    schema: Raw = field(default=_EMPTY, name="inputSchema")
    annotations: _Hints | None = None


class _Schema(Struct):
    type: str = "object"
    required: list[str] = []


def server_name(name: str) -> str:
    """A server's name as it stands in tool names: no `__` in it, so that no two servers' tools can be taken for each
    other. Empty when nothing is left of it."""
    return re.sub("__+", "_", _OTHER.sub("_", name)).strip("_-")[:_SERVER].strip("_-")


def definitions(server: str, sent: Iterable[Raw], include: Sequence[str], exclude: Sequence[str]) -> list[Definition]:
    """The usable tools of a server, sorted by name; those that the settings leave out are left out."""
    found: dict[str, Definition] = {}
    for one in sent:
        made = _definition(server, bytes(one))
        if made is None or made.name in found or len(found) >= MAX_TOOLS:
            continue
        if include and not any(fnmatchcase(made.sent_name, pattern) for pattern in include):
            continue
        if not any(fnmatchcase(made.sent_name, pattern) for pattern in exclude):
            found[made.name] = made
    return sorted(found.values(), key=lambda one: one.name)


def read_page(result: Raw) -> Page:
    """A page of a listing. Raises `ToolError` for something else."""
    try:
        return msgspec.json.decode(result, type=Page)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ToolError("its list of tools cannot be read") from None


def _definition(server: str, sent: bytes) -> Definition | None:
    """A tool from its JSON text; None when it is none, or too large to be one."""
    if len(sent) > _LARGEST:
        return None
    try:
        given = msgspec.json.decode(sent, type=_Sent)
        schema = msgspec.json.decode(given.schema, type=_Schema)
        # In a fixed order, so that the same words have the same digest; everything counts, known to us or not.
        whole = msgspec.json.encode(msgspec.json.decode(sent), order="sorted")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if schema.type != "object" or not given.name:
        return None
    return Definition(
        sent_name=given.name,
        name=_name(server, given.name),
        description=_bounded(given.description or "", MAX_DESCRIPTION),
        schema=_plain(bytes(given.schema)),
        required=tuple(schema.required),
        reads_only=bool(given.annotations and given.annotations.reads_only),
        digest=hashlib.sha256(whole).hexdigest()[:_HASH],
    )


def _plain(schema: bytes) -> bytes:
    """A schema as a model may see it: on one line, everything in it visible. One that is too long is left out."""
    text = msgspec.json.format(schema, indent=-1).decode("utf-8", "replace")
    if len(text) > MAX_SCHEMA:
        text = '{"type":"object","description":"The schema is too long to be shown."}'
    return visible(inert(text)).text.encode()


def _name(server: str, sent: str) -> str:
    """The tool's name here. One that had to be changed ends in a mark of its own, whatever else the server has."""
    plain = _OTHER.sub("_", sent)
    name = f"{PREFIX}{server}__{plain}"
    if plain == sent and len(name) <= _NAME:
        return name
    mark = hashlib.sha256(sent.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{name[: _NAME - 7]}_{mark}"


def _bounded(text: str, limit: int) -> str:
    text = visible(inert(text)).text.strip()
    return text if len(text) <= limit else f"{text[:limit]} [... {len(text) - limit} characters left out]"
