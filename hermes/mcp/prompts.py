"""Prompts of servers: what a person can call by a name, and what a server makes of that. Its words are untrusted."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.errors import ToolError
from hermes.core.messages import ImagePart, Provenance, Source, TextPart
from hermes.mcp.definitions import clean_text
from hermes.mcp.results import read_content
from hermes.safety.fencing import fence_untrusted_text

PROMPT_PREFIX = "mcp-"
_MAX_ABOUT, _MAX_ARGUMENTS, _MAX_TEXT, _MAX_MESSAGES = 200, 20, 50_000, 100
MAX_PROMPTS = 200
"""The most prompts of a server."""
_ARGUMENT = re.compile(r"[\w.-]{1,60}")
_UNUSABLE = re.compile(r"[^a-z0-9_-]+")


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    is_required: bool


class McpPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of a server. `sent_name` is the server's name for it, `name` what a person types behind `/`."""

    sent_name: str
    name: str
    about: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """What may be typed behind the name."""
        return " ".join(one.name if one.is_required else f"[{one.name}]" for one in self.arguments)

    def parse_arguments(self, text: str) -> dict[str, str]:
        """Return the arguments that a person has typed: `NAME=VALUE`, or values in their order; the last one takes what
        is left.

        Raises `ToolError` when one is missing.
        """
        names = [one.name for one in self.arguments]
        words = _split_words(text)
        found = dict(word.split("=", 1) for word in words if _is_assignment(word, names))
        plain = [word for word in words if not _is_assignment(word, names)]
        left = [name for name in names if name not in found]
        rest = len(left) - 1
        values = [*plain[:rest], " ".join(plain[rest:])] if 0 <= rest < len(plain) else plain
        found |= dict(zip(left, values, strict=False))
        self._require_arguments(found)
        return found

    def _require_arguments(self, found: Mapping[str, str]) -> None:
        missing = [one.name for one in self.arguments if one.is_required and one.name not in found]
        if missing:
            raise ToolError(f"/{self.name} needs: {', '.join(missing)}.")


class _SentArgument(Struct):
    name: str
    required: bool = False


class _SentPrompt(Struct):
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[_SentArgument] | None = None


class _PromptPage(Struct):
    prompts: list[Raw] = []
    cursor: str | None = field(default=None, name="nextCursor")


class _PromptMessage(Struct):
    role: str = "user"
    content: Raw = Raw(b"null")


class _PromptResult(Struct):
    messages: list[_PromptMessage] = []


def parse_prompt_page(server: str, result: Raw) -> tuple[list[McpPrompt], str]:
    """Return the usable prompts of a page, and where the next one begins. Raises `ToolError` for something else."""
    try:
        page = msgspec.json.decode(result, type=_PromptPage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ToolError("its list of prompts cannot be read") from None
    return list(_parse_prompts(server, page.prompts[:MAX_PROMPTS])), page.cursor or ""


def format_prompt_messages(result: Raw, server: str, name: str) -> Sequence[ImagePart | TextPart]:
    """Return what a server has made of a prompt, as parts of a message: fenced, as its words. Raises `ToolError`."""
    provenance = Provenance(Source.MCP, server)
    try:
        messages = msgspec.json.decode(result, type=_PromptResult).messages[:_MAX_MESSAGES]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise ToolError("its prompt cannot be read") from None
    lines: list[str] = []
    images: list[ImagePart] = []
    for one in messages:
        texts, found = read_content([one.content], provenance)
        role = "assistant: " if one.role == "assistant" else ""
        lines += [f"{role}{text}" for text in texts]
        images += found
    text = "\n\n".join(lines)[:_MAX_TEXT] or "(nothing)"
    fenced = fence_untrusted_text(text, provenance)
    return [TextPart(f"[The prompt /{name} of the MCP server {server}]\n{fenced}", provenance), *images]


def _parse_prompts(server: str, sent: Sequence[Raw]) -> Iterator[McpPrompt]:
    for one in sent:
        try:
            prompt = msgspec.json.decode(one, type=_SentPrompt)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        plain = _UNUSABLE.sub("-", prompt.name.lower()).strip("-_")[:48]
        arguments = prompt.arguments or []
        if not plain or len(arguments) > _MAX_ARGUMENTS:
            continue
        if not all(_ARGUMENT.fullmatch(argument.name) for argument in arguments):
            continue
        yield McpPrompt(
            sent_name=prompt.name,
            name=f"{PROMPT_PREFIX}{server}-{plain}".lower().replace("_", "-"),
            about=clean_text(" ".join((prompt.description or prompt.title or "").split()), _MAX_ABOUT),
            arguments=tuple(PromptArgument(one.name, one.required) for one in arguments),
        )


def _is_assignment(word: str, names: Sequence[str]) -> bool:
    return "=" in word and word.partition("=")[0] in names


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
