"""Markdown files by which people describe prompts and agents: `NAME.md`, with a head between two lines of `---`."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.context.prompt import NotTextError, read_text

MAX_FILES = 200
"""Files that are looked at in one folder."""
MAX_CHARACTERS = 20_000
"""Characters of one file."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HEAD = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)


class DescribedFile(Struct, frozen=True):
    """A file that was read: its name without `.md`, the keys of its head, and what stands below that."""

    name: str
    fields: Mapping[str, str]
    body: str


def is_usable_name(name: str) -> bool:
    """Return whether a file of this name counts."""
    return bool(_NAME.fullmatch(name))


def read_described_files(
    folder: Path, is_marked: Callable[[str], bool] = lambda _path: False
) -> Iterator[DescribedFile]:
    """Yield the files of a folder that hold something, without links, files that cannot be read, and those that are
    marked, since they were written beside untrusted content.
    """
    try:
        files = sorted(folder.glob("*.md"))[:MAX_FILES]
    except OSError:
        return
    for file in files:
        if not is_usable_name(file.stem) or file.is_symlink() or is_marked(str(file)):
            continue
        try:
            text = read_text(file, MAX_CHARACTERS)
        except (FileNotFoundError, NotTextError):
            continue
        fields, body = _parse_file(text)
        if body:
            yield DescribedFile(file.stem, fields, body)


def _parse_file(text: str) -> tuple[dict[str, str], str]:
    """Return the fields of a file's head, and its body."""
    head = _HEAD.match(text)
    if head is None:
        return {}, text.strip()
    return _parse_head(head[1]), text[head.end() :].strip()


def _parse_head(head: str) -> dict[str, str]:
    """Return the fields; a list below a key becomes words between commas."""
    fields: dict[str, str] = {}
    key = ""
    for line in head.splitlines():
        if key and line.strip().startswith("- "):
            item = line.strip()[2:].strip().strip("'\"")
            fields[key] = f"{fields[key]}, {item}" if fields[key] else item
            continue
        key, _, value = (part.strip() for part in line.partition(":"))
        fields[key] = value.strip("'\"")
    return fields
