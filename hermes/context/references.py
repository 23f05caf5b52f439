"""References in a user's message: what they name is attached, frozen into the message.

    @file:PATH  @file:PATH:10-20  @file:"a path with spaces"  @folder:PATH  @diff  @staged  @git:REV
@url:ADDRESS

Each is a tool call made in the user's name, so it goes through the gate like every other one. Text in
code (a fence, backticks) is no reference.
"""

import re
import shlex

import msgspec
from msgspec import Struct

from hermes.core.parts import ToolCallPart

MAX_REFERENCES = 10
"""The most references in one message."""
REFERENCE_LIMIT = 20_000
"""Characters of one of them."""
ALL_REFERENCES_LIMIT = 60_000
"""Characters of all of them."""
WINDOW_SHARE = 0.25
"""Part of the model's window that all of them may fill; of a small window that is less than `ALL_LIMIT`."""
_CHINESE_ENDS = "\u3001\u3002\uff0c\uff01\uff1f\uff1b\uff1a\uff09\u3011\u300b\u201d"
"""Marks that end a name in Chinese, where no blank stands behind it."""
_REFERENCE = re.compile(
    rf"""(?<![A-Za-z0-9_@/.])@(?:(file|folder|url|git):("[^"\n]+"|'[^'\n]+'|[^\s"'`{_CHINESE_ENDS}]+)"""
    r"""|(diff|staged)(?![A-Za-z0-9_:/-]|\.\w))"""
)
_CODE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1|\Z)|`[^`\n]+`")
_LINE_RANGE = re.compile(r"(.+?):(\d{1,7})(?:-(\d{1,7}))?")
_REVISION = re.compile(r"[A-Za-z0-9_][\w./~^@{}-]{0,199}", re.ASCII)
_GIT = "git --no-pager -c core.fsmonitor=false -c log.showSignature=false"
_PLAIN_DIFF = "--no-color --no-ext-diff --no-textconv"
_TRAILING = ".,;:!?)]}>。，；：！？）】》"


class MessageReference(Struct, frozen=True):
    """A reference as it was written, with the tool call that reads what it names; or what is `wrong` with it."""

    written: str
    name: str = ""
    arguments: str = ""
    wrong: str = ""

    def to_tool_call(self, number: int) -> ToolCallPart:
        """Return the call, with an id of its own."""
        return ToolCallPart(call_id=f"reference_{number}", name=self.name, arguments=self.arguments)


def parse_references(text: str) -> list[MessageReference]:
    """Return the references in a message, in order, each once; one more than `MAX_REFERENCES` when there are more than
    that.
    """
    if "@" not in text:
        return []
    # Code becomes blanks of the same length: no reference stands in it, and none begins with what stands before it.
    if "`" in text or "~~~" in text:
        text = _CODE.sub(lambda match: " " * len(match[0]), text)
    found: dict[str, MessageReference] = {}
    for match in _REFERENCE.finditer(text):
        one = _parse_reference(match[1] or match[3], match[2] or "")
        found.setdefault(one.written, one)
        if len(found) > MAX_REFERENCES:
            break
    return list(found.values())


def _parse_reference(kind: str, value: str) -> MessageReference:
    value = value[1:-1] if value[:1] in "\"'" and value else value.rstrip(_TRAILING)
    written = f"@{kind}:{value}" if value else f"@{kind}"
    match kind:
        case "file":
            return _file_reference(written, value)
        case "folder":
            arguments: dict[str, object] = {"pattern": "*", "target": "files", "path": value or "."}
            return MessageReference(written, "search_files", _to_json(arguments))
        case "url":
            address = value if "://" in value else f"https://{value}"
            return MessageReference(
                written, "web_extract", _to_json({"urls": [address], "char_limit": REFERENCE_LIMIT})
            )
        case "git":
            return _commit_reference(written, value)
        case _:
            staged = " --cached" if kind == "staged" else ""
            return _command_reference(written, f"{_GIT} diff{staged} {_PLAIN_DIFF}")


def _file_reference(written: str, value: str) -> MessageReference:
    lines = _LINE_RANGE.fullmatch(value)
    if lines is None:
        return MessageReference(written, "read_file", _to_json({"path": value, "limit": 2_000}))
    first = max(1, int(lines[2]))
    last = int(lines[3]) if lines[3] else first
    if last < first:
        return MessageReference(written, wrong="its last line comes before its first.")
    return MessageReference(
        written, "read_file", _to_json({"path": lines[1], "offset": first, "limit": last - first + 1})
    )


def _commit_reference(written: str, name: str) -> MessageReference:
    if not _REVISION.fullmatch(name):
        return MessageReference(written, wrong="this is no name of a commit.")
    return _command_reference(written, f"{_GIT} show {_PLAIN_DIFF} --stat --patch {shlex.quote(name)} --")


def _command_reference(written: str, command: str) -> MessageReference:
    return MessageReference(written, "terminal", _to_json({"command": command, "timeout": 30}))


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
