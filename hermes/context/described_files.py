"""Markdown files by which people describe prompts and agents: `NAME.md`, with a head between two lines of `---`."""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.context.prompt import NotTextError, read_text

MAX_FILES = 200
"""Files that are looked at in one folder."""
MAX_CHARACTERS = 20_000
"""Characters of one file."""
_MAX_FOLDERS = 200
_MAX_DEPTH = 3
"""Folders that may stand above a file where those below count, too."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HEAD = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_BLOCK = re.compile(r"[|>][+-]?\d?")
"""The value of a key whose text stands below it."""
_PARTS = ":"
"""What stands between a folder and a file in the name of a file that lies below."""


class DescribedFile(Struct, frozen=True):
    """A file that was read: its name without `.md`, the keys of its head, and what stands below that. A key below
    another one is `key.inner`.
    """

    name: str
    fields: Mapping[str, str]
    body: str


def is_usable_name(name: str) -> bool:
    """Return whether a file of this name counts."""
    return bool(_NAME.fullmatch(name))


def read_described_files(
    folder: Path, is_marked: Callable[[str], bool] = lambda _path: False, *, nested: bool = False
) -> Iterator[DescribedFile]:
    """Yield the files of a folder that hold something, without links, files that cannot be read, and those that are
    marked, since they were written beside untrusted content. With `nested` those of folders below count as
    `folder:name`.
    """
    for name, file in list_described_paths(folder, nested=nested):
        if not all(map(is_usable_name, name.split(_PARTS))) or file.is_symlink() or is_marked(str(file)):
            continue
        try:
            text = read_text(file, MAX_CHARACTERS)
        except (FileNotFoundError, NotTextError):
            continue
        fields, body = _parse_file(text)
        if body:
            yield DescribedFile(name, fields, body)


def list_described_paths(folder: Path, *, nested: bool = False) -> list[tuple[str, Path]]:
    """Return the names and paths of the Markdown files of a folder, sorted, usable or not. Links to folders are not
    followed.
    """
    found: list[tuple[str, Path]] = []
    for place, folders, files in itertools.islice(os.walk(folder), _MAX_FOLDERS):
        above = Path(place).relative_to(folder).parts
        folders[:] = sorted(folders) if nested and len(above) < _MAX_DEPTH else []
        names = (name for name in sorted(files) if name.endswith(".md"))
        found += [(_PARTS.join((*above, name[:-3])), Path(place, name)) for name in names]
        if len(found) >= MAX_FILES:
            break
    return found[:MAX_FILES]


def read_agent_tables(folder: Path, is_marked: Callable[[str], bool] = lambda _path: False) -> Iterator[DescribedFile]:
    """Yield the agents that codex describes in TOML files of a folder, as if they were Markdown."""
    try:
        files = sorted(folder.glob("*.toml"))[:MAX_FILES]
    except OSError:
        return
    for file in files:
        if not is_usable_name(file.stem) or file.is_symlink() or is_marked(str(file)):
            continue
        import tomllib

        try:
            found = tomllib.loads(read_text(file, MAX_CHARACTERS))
        except (FileNotFoundError, NotTextError, tomllib.TOMLDecodeError, RecursionError):
            continue
        fields = {key: value for key, value in found.items() if isinstance(value, str)}
        body = fields.pop("developer_instructions", "").strip()
        if body:
            yield DescribedFile(file.stem, fields, body)


def _parse_file(text: str) -> tuple[dict[str, str], str]:
    """Return the fields of a file's head, and its body."""
    head = _HEAD.match(text)
    if head is None:
        return {}, text.strip()
    return _parse_head(head[1]), text[head.end() :].strip()


def _parse_head(head: str) -> dict[str, str]:
    """Return the fields; a list below a key becomes words between commas, a text that stands below it one line."""
    reader = _HeadReader()
    for line in head.splitlines():
        reader.read_line(line.strip(), len(line) - len(line.lstrip()))
    return reader.fields


class _HeadReader:
    """Reads a head line by line."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self._above: list[tuple[int, str]] = []
        """The keys above a line, with their indents."""
        self._block = -1
        """The indent of the key whose text stands below it, or -1."""

    def read_line(self, text: str, indent: int) -> None:
        """Read a line without its indent."""
        key = self._above[-1][1] if self._above else ""
        if self._block >= 0 and (not text or indent > self._block):
            self.fields[key] = f"{self.fields[key]} {text}".strip()
            return
        self._block = -1
        if key and text.startswith("- "):
            item = text[2:].strip().strip("'\"")
            self.fields[key] = f"{self.fields[key]}, {item}" if self.fields[key] else item
        elif text and not text.startswith("#"):
            self._read_key(text, indent)

    def _read_key(self, text: str, indent: int) -> None:
        while self._above and self._above[-1][0] >= indent:
            self._above.pop()
        name, _, value = (part.strip() for part in text.partition(":"))
        key = ".".join((*(one for _, one in self._above[-1:]), name.strip("'\"")))
        self._above.append((indent, key))
        if _BLOCK.fullmatch(value):
            self._block, value = indent, ""
        self.fields[key] = value.strip("'\"")
