"""Resolve references in a user's message by tool calls that pass the gate without prompts.

References in a user's message: what they name is attached, frozen into the message.

    @PATH  @PATH:10-20  @FOLDER/  @file:PATH  @file:PATH:10-20  @file:"a path with spaces"  @folder:PATH  @diff
@staged  @git:REV  @url:ADDRESS

A path without a kind is a reference where it exists below the working folder; so addresses of mail, decorators and
names of packages stay words. One that does not exist is told where it can only be meant as a path.

Each is a tool call made in the user's name, so it goes through the gate like every other one. Text in
code (a fence, backticks) is no reference.
"""

import asyncio
import os
import re
import shlex
import stat
from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.events import Level
from hermes.core.messages import PROGRAM, ImagePart, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.protocols import Intent
from hermes.execution.git_programs import list_repository_programs
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.gate import PermissionGate
from hermes.tools.registry import Toolbox, ToolRegistry
from hermes.tools.session import ToolContext
from hermes.util.text import escape_unseen_characters, to_one_line, truncate_middle

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
    r"""|(diff|staged)(?![A-Za-z0-9_:/-]|\.\w)"""
    rf"""|("[^"\n@]+"|'[^'\n@]+'|(?!(?:file|folder|url|git):)[^\s"'`@{_CHINESE_ENDS}]+))"""
)


_PATH_CHARACTERS = re.compile(r"[A-Za-z0-9_.+/~-]+(?::\d{1,7}(?:-\d{1,7})?)?", re.ASCII)
_FILE_SUFFIXES = re.compile(
    r"\.(avif|c|cc|cfg|conf|cpp|cs|css|csv|docx|eml|epub|go|h|heic|hpp|html?|ini|ipynb|java|jpe?g|jsx?|json|kt|log|lua|md|mjs"
    r"|od[pst]|pdf|php|pl|png|pptx|ps1|py|rb|rs|rst|scala|sh|sql|svg|swift|toml|tsx?|txt|vue|webp|xlsx?|xml|ya?ml)",
    re.IGNORECASE,
)
"""Endings by which a name without a folder is meant as a file, and not as the attribute of a decorator."""
MAX_LOOKUPS = 100
"""How many words behind an `@` are looked for as paths in one message."""


class PathKind(StrEnum):
    """What is at a path."""

    FILE = "file"
    FOLDER = "folder"
    NOTHING = ""


FindPath = Callable[[str], PathKind]
"""Returns what is at a path below the working folder."""


_CODE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1|\Z)|`[^`\n]+`")


_LINE_RANGE = re.compile(r"(.+?):(\d{1,7})(?:-(\d{1,7}))?")


_REVISION = re.compile(r"[A-Za-z0-9_][\w./~^@{}-]{0,199}", re.ASCII)


GIT = "git --no-pager -c core.fsmonitor=false -c log.showSignature=false"


PLAIN_DIFF = "--no-color --no-ext-diff --no-textconv"


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


def parse_references(text: str, find_path: FindPath = lambda _: PathKind.NOTHING) -> list[MessageReference]:
    """Return the references in a message, in order, each once; one more than `MAX_REFERENCES` when there are more than
    that. `find_path` looks for those that are named by a path alone.
    """
    if "@" not in text:
        return []
    # Code becomes blanks of the same length: no reference stands in it, and none begins with what stands before it.
    if "`" in text or "~~~" in text:
        text = _CODE.sub(lambda match: " " * len(match[0]), text)
    found: dict[str, MessageReference] = {}
    lookups = 0
    for match in _REFERENCE.finditer(text):
        one: MessageReference | None
        if match[4] is None:
            one = _parse_reference(match[1] or match[3], match[2] or "")
        else:
            lookups += 1
            one = _parse_path(match[4], find_path) if lookups <= MAX_LOOKUPS else None
        if one is not None:
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
            return _command_reference(written, f"{GIT} diff{staged} {PLAIN_DIFF}")


def _parse_path(value: str, find_path: FindPath) -> MessageReference | None:
    """Return the reference of a path that stands behind an `@` without a kind; None for a word that is none."""
    quoted = value[:1] in "\"'"
    value = value[1:-1] if quoted else value.rstrip(_TRAILING)
    ascii_part = None if quoted else _PATH_CHARACTERS.match(value)
    # In Chinese no blank need stand behind a name.
    for path in dict.fromkeys((value, ascii_part[0].rstrip(_TRAILING) if ascii_part is not None else "")):
        if (found := _look_up_path(path, find_path, quoted=quoted)) is not None:
            return found
    return None


def _look_up_path(path: str, find_path: FindPath, *, quoted: bool) -> MessageReference | None:
    lines = _LINE_RANGE.fullmatch(path)
    name = lines[1] if lines is not None else path
    if name[:1] in ("", "/") or name.strip("./") == "":  # `@/` is how packages name their own root
        return None
    is_outside = _leaves_folder(name)
    kind = PathKind.NOTHING if is_outside else find_path(name)
    written = f"@{path}"
    if kind is PathKind.FOLDER:
        return structs.replace(_parse_reference("folder", name), written=written)
    if kind is PathKind.FILE or (is_outside and not quoted):
        return _file_reference(written, path)
    if _is_surely_path(name, has_lines=lines is not None):
        return MessageReference(written, wrong="there is no such file.")
    return None


def _leaves_folder(name: str) -> bool:
    """Return whether a path leads out of the working folder by its form: whoever may read there is the gate's to say,
    so nobody learns here whether it exists.
    """
    return name.startswith("~/") or ".." in name.split("/")


def _is_surely_path(name: str, *, has_lines: bool) -> bool:
    """Return whether a name that does not exist can only be meant as a path."""
    is_plain = _PATH_CHARACTERS.fullmatch(name) is not None
    suffix = os.path.splitext(name)[1]
    return is_plain and (has_lines or name.startswith("./") or _FILE_SUFFIXES.fullmatch(suffix) is not None)


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
    return _command_reference(written, f"{GIT} show {PLAIN_DIFF} --stat --patch {shlex.quote(name)} --")


def _command_reference(written: str, command: str) -> MessageReference:
    return MessageReference(written, "terminal", _to_json({"command": command, "timeout": 30}))


def _to_json(value: object) -> str:
    return to_json(value).decode()


_CHARACTERS_PER_TOKEN = 4
_TOOLSETS = ("file", "terminal", "web")


class _NullJournal:
    """A journal that records nothing: a lookup has no effect that a crash could repeat."""

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        """Record nothing."""

    async def record_result(self, result: ToolResultPart) -> None:
        """Record nothing."""

    async def flush(self) -> None:
        """Wait for nothing."""


class ReferenceResolver:
    """Resolves the references of one session's messages.

    What the gate would ask about is not attached, and the user is told so.
    """

    def __init__(
        self,
        gate: PermissionGate,
        context: ToolContext,
        notify: Callable[[Level, str], None],
        *,
        window: int | None,
        tools: Toolbox | None = None,
    ) -> None:
        """`tools` limits the resolver to the tools of the session, where it may use no others."""
        self._context = context
        self._notify = notify
        fits = ALL_REFERENCES_LIMIT if window is None else int(window * WINDOW_SHARE * _CHARACTERS_PER_TOKEN)
        self._room = min(ALL_REFERENCES_LIMIT, fits)
        found = ToolRegistry().select_tools(_TOOLSETS)
        if tools is not None:
            found.replace_tools([one for one in found if tools.find_own(one.name) is not None])
        self._tools = found
        self._executor = Executor(found, gate)

    async def resolve_references(self, inbound: InboundMessage) -> list[ImagePart | TextPart]:
        """Return a part for each thing that the message refers to, in order; none for most messages."""
        found = await self._find_references(inbound.text)
        if not found:
            return []
        if len(found) > MAX_REFERENCES:
            self._notify(
                Level.WARNING,
                N_("Only the first {MAX_REFERENCES} references were included.", MAX_REFERENCES=MAX_REFERENCES),
            )
        found = [self._check_git_safety(one) for one in found[:MAX_REFERENCES]]
        self._context.state.taint.note_person_text(inbound.text)  # it is not in the conversation yet
        calls = {number: one.to_tool_call(number) for number, one in enumerate(found) if not one.wrong}
        batch = CallBatch(tuple(calls.values()))
        await self._executor.run(batch, self._context, _NullJournal(), lambda event: None)
        by_id = {result.call_id: result for result in batch.collect_results()}
        results = [by_id[calls[number].call_id] if number in calls else None for number in range(len(found))]
        return self._build_parts(found, results, batch)

    async def _find_references(self, text: str) -> list[MessageReference]:
        """Return the references of a message for which this session has the tools, and those that are wrong."""
        if "@" not in text:
            return []
        parsed = await asyncio.to_thread(parse_references, text, self._find_path)
        return [one for one in parsed if one.wrong or self._tools.find(one.name) is not None]

    def _find_path(self, name: str) -> PathKind:
        """Return what is at a path below the working folder."""
        try:
            mode = os.stat(self._context.resolve_path(name)).st_mode
        except (OSError, ValueError):
            return PathKind.NOTHING
        return PathKind.FOLDER if stat.S_ISDIR(mode) else PathKind.FILE

    def _build_parts(
        self, found: Sequence[MessageReference], results: Sequence[ToolResultPart | None], batch: CallBatch
    ) -> list[ImagePart | TextPart]:
        """Build what the model is shown of each reference, as far as there is room."""
        parts: list[ImagePart | TextPart] = []
        room = self._room
        for one, result in zip(found, results, strict=True):
            if result is None or _has_failed(result, batch):
                parts.append(self._failure_part(one, result))
                continue
            text = truncate_middle(
                result.text, min(REFERENCE_LIMIT, max(room, 200))
            )  # a fence keeps its first and last line
            room -= len(text)
            parts += [TextPart(f"[{one.written}]\n{text}", result.provenance or PROGRAM), *result.images]
        return parts

    def _check_git_safety(self, one: MessageReference) -> MessageReference:
        """Return the reference, marked as wrong when git could run programs of the repository for it."""
        if one.name != "terminal" or self._context.backend.contained:
            return one
        folder = os.path.realpath(self._context.state.cwd)
        trusted = not self._context.trust.find_untrusted_folder(folder, self._context.places.workspace)
        if trusted or list_repository_programs(folder) == []:
            return one
        said = "this repository could run programs of its own; `hermes trust` trusts it."
        return structs.replace(one, wrong=said)

    def _failure_part(self, reference: MessageReference, result: ToolResultPart | None) -> TextPart:
        """Tell the user why a reference failed, and return what the model is told."""
        why = reference.wrong if result is None else _failure_reason(result.text)
        self._notify(Level.WARNING, N_("{written} was not included: {why}", written=reference.written, why=why))
        if result is None:
            return TextPart(f"[{reference.written} could not be included: {why}]", PROGRAM)
        text = truncate_middle(result.text, 2_000)
        return TextPart(f"[{reference.written} could not be included]\n{text}", result.provenance or PROGRAM)


def _has_failed(result: ToolResultPart, batch: CallBatch) -> bool:
    """Return whether a call has failed, by its own status or by that of the program that it ran."""
    return result.status is not ToolStatus.OK or result.call_id in batch.failed_ids


def _failure_reason(text: str) -> str:
    """Describe a failure for the user, without the fence and the text that is meant for the model."""
    lines = [line for line in text.splitlines() if not line.startswith(("<untrusted", "</untrusted"))]
    told = " ".join(lines).partition("Nothing was done.")[0]
    return to_one_line(escape_unseen_characters(told), 200) or "it failed."
