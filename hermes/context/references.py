"""References in a person's message: what they name is brought along, frozen into the message.

    @file:PATH  @file:PATH:10-20  @file:"a path with spaces"  @folder:PATH  @diff  @staged  @git:REV  @url:ADDRESS

Each is a tool call made in the person's name, so it goes through the gate like every other one. What stands in code (a
fence, backticks) is no reference.
"""

import re
import shlex

import msgspec
from msgspec import Struct

from hermes.core.parts import ToolCallPart

MOST = 10
"""References in one message."""
ONE_LIMIT = 20_000
"""Characters of one of them."""
ALL_LIMIT = 60_000
"""Characters of all of them."""
WINDOW_SHARE = 0.25
"""Part of the model's window that all of them may fill; of a small window that is less than `ALL_LIMIT`."""
_ENDS = "\u3001\u3002\uff0c\uff01\uff1f\uff1b\uff1a\uff09\u3011\u300b\u201d"
"""Marks that end a name in Chinese, where no blank stands behind it."""
_WORD = re.compile(
    rf"""(?<![A-Za-z0-9_@/.])@(?:(file|folder|url|git):("[^"\n]+"|'[^'\n]+'|[^\s"'`{_ENDS}]+)"""
    r"""|(diff|staged)(?![A-Za-z0-9_:/-]|\.\w))"""
)
_CODE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1|\Z)|`[^`\n]+`")
_LINES = re.compile(r"(.+?):(\d{1,7})(?:-(\d{1,7}))?")
_REVISION = re.compile(r"[A-Za-z0-9_][\w./~^@{}-]{0,199}", re.ASCII)
_GIT = "git --no-pager -c core.fsmonitor=false -c log.showSignature=false"
_PLAIN = "--no-color --no-ext-diff --no-textconv"
_TRAILING = ".,;:!?)]}>。，；：！？）】》"


class Reference(Struct, frozen=True):
    """A reference as it was written, and the tool call that brings what it names; or what is `wrong` with it."""

    written: str
    name: str = ""
    arguments: str = ""
    wrong: str = ""

    def call(self, number: int) -> ToolCallPart:
        """The call, with an id of its own."""
        return ToolCallPart(call_id=f"reference_{number}", name=self.name, arguments=self.arguments)


def references(text: str) -> list[Reference]:
    """The references in a message, in order, each once; one more than `MOST` when there are more than that."""
    if "@" not in text:
        return []
    # Code becomes blanks of the same length: no reference stands in it, and none begins with what stands before it.
    if "`" in text or "~~~" in text:
        text = _CODE.sub(lambda match: " " * len(match[0]), text)
    found: dict[str, Reference] = {}
    for match in _WORD.finditer(text):
        one = _reference(match[1] or match[3], match[2] or "")
        found.setdefault(one.written, one)
        if len(found) > MOST:
            break
    return list(found.values())


def _reference(kind: str, value: str) -> Reference:
    value = value[1:-1] if value[:1] in "\"'" and value else value.rstrip(_TRAILING)
    written = f"@{kind}:{value}" if value else f"@{kind}"
    match kind:
        case "file":
            return _file(written, value)
        case "folder":
            arguments: dict[str, object] = {"pattern": "*", "target": "files", "path": value or "."}
            return Reference(written, "search_files", _json(arguments))
        case "url":
            address = value if "://" in value else f"https://{value}"
            return Reference(written, "web_extract", _json({"urls": [address], "char_limit": ONE_LIMIT}))
        case "git":
            return _commit(written, value)
        case _:
            staged = " --cached" if kind == "staged" else ""
            return _command(written, f"{_GIT} diff{staged} {_PLAIN}")


def _file(written: str, value: str) -> Reference:
    lines = _LINES.fullmatch(value)
    if lines is None:
        return Reference(written, "read_file", _json({"path": value, "limit": 2_000}))
    first = max(1, int(lines[2]))
    last = int(lines[3]) if lines[3] else first
    if last < first:
        return Reference(written, wrong="its last line comes before its first.")
    return Reference(written, "read_file", _json({"path": lines[1], "offset": first, "limit": last - first + 1}))


def _commit(written: str, name: str) -> Reference:
    if not _REVISION.fullmatch(name):
        return Reference(written, wrong="this is no name of a commit.")
    return _command(written, f"{_GIT} show {_PLAIN} --stat --patch {shlex.quote(name)} --")


def _command(written: str, command: str) -> Reference:
    return Reference(written, "terminal", _json({"command": command, "timeout": 30}))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
