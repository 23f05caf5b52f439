"""What a server asks the person while it carries out a call: answers to a form, or a visit to an address.

The server is not trusted: its words are shown as its words, nothing is opened or sent that the person has not seen and
agreed to, and where nobody is there to ask, the answer is no.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.encoding import to_json
from hermes.i18n.messages import tr
from hermes.tools.session import Asker
from hermes.util.text import escape_confusable_characters, find_choice, to_one_line

_MAX_MESSAGE, _MAX_LABEL, _MAX_VALUE, _MAX_URL = 1_000, 200, 2_000, 2_000
_MAX_FIELDS, _MAX_CHOICES, _MAX_TRIES = 20, 50, 3
_REFUSED: Mapping[str, object] = {"action": "decline"}
_CANCELLED: Mapping[str, object] = {"action": "cancel"}
_WEB_SCHEMES = frozenset({"https", "http"})
_UNCLEAR = frozenset("\\ ")
"""Characters that browsers read in an address in another way than it is written."""
Value = str | int | float | bool | list[str]


class _Choice(Struct):
    const: str = ""
    title: str = ""


class _Items(Struct):
    enum: list[str] = []
    any_of: list[_Choice] = field(default_factory=list, name="anyOf")


class _Property(Struct, kw_only=True):
    type: str = "string"
    title: str = ""
    description: str = ""
    enum: list[str] = []
    enum_names: list[str] = field(default_factory=list, name="enumNames")
    one_of: list[_Choice] = field(default_factory=list, name="oneOf")
    items: _Items | None = None
    default: Value | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_length: int = field(default=0, name="minLength")
    max_length: int = field(default=_MAX_VALUE, name="maxLength")
    min_items: int = field(default=0, name="minItems")
    max_items: int = field(default=_MAX_CHOICES, name="maxItems")


class _FormSchema(Struct):
    properties: dict[str, _Property] = {}
    required: list[str] = []


class _Params(Struct, kw_only=True):
    mode: str = "form"
    message: str = ""
    url: str = ""
    schema: _FormSchema = field(default_factory=_FormSchema, name="requestedSchema")


class _ClosedError(Exception):
    """The person has ended the questions; `answer` is what the server is told."""

    def __init__(self, answer: Mapping[str, object]) -> None:
        super().__init__()
        self.answer = answer


async def answer_elicitation(asker: Asker | None, server: str, params: Raw | bytes) -> Mapping[str, object]:
    """Ask the person what the server wants to know and return the result for it. Cancelling withdraws the question."""
    try:
        asked = msgspec.json.decode(params, type=_Params)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _REFUSED
    if asker is None or len(asked.schema.properties) > _MAX_FIELDS:
        return _REFUSED
    try:
        if asked.mode == "url":
            return await _ask_visit(asker, server, asked)
        return await _ask_form(asker, server, asked) if asked.mode == "form" else _REFUSED
    except _ClosedError as closed:
        return closed.answer


async def _ask_visit(asker: Asker, server: str, asked: _Params) -> Mapping[str, object]:
    """Ask the person to open an address. Hermes opens it not by itself: it is untrusted."""
    host = _find_host(asked.url)
    if not host:
        return _REFUSED
    lines = [
        _introduce(server, asked.message),
        tr("It wants you to open an address of {host} in your browser:", host=host),
        asked.url,
        tr("What you enter there does not pass through Hermes."),
    ]
    done, refuse = tr("I have opened it"), tr("Decline")
    if await _ask(asker, lines, [done, refuse]) != done:
        return _REFUSED
    return {"action": "accept"}


def _find_host(url: str) -> str:
    """Return the host of an address that a person may be shown; empty for any other.

    Where a user stands before the host, or a backslash, a browser may go to another host than the one that is named.
    """
    if not url.isascii() or not url.isprintable() or len(url) > _MAX_URL or not _UNCLEAR.isdisjoint(url):
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    return host if parts.scheme in _WEB_SCHEMES and "@" not in parts.netloc else ""


async def _ask_form(asker: Asker, server: str, asked: _Params) -> Mapping[str, object]:
    """Ask for each field, then show what would be sent."""
    introduction = [_introduce(server, asked.message)]
    content: dict[str, Value] = {}
    for name, wanted in asked.schema.properties.items():
        value = await _ask_field(asker, introduction, name, wanted, is_required=name in asked.schema.required)
        introduction = [tr("The MCP server {name} also asks:", name=server)]
        if value is not None:
            content[name] = value
    send, refuse = tr("Send"), tr("Decline")
    shown = escape_confusable_characters(to_json(content).decode())
    lines = [tr("Send this to the MCP server {name}?", name=server), shown]
    if not asked.schema.properties:
        lines = [*introduction, tr("It asks for your agreement.")]
    if await _ask(asker, lines, [send, refuse]) != send:
        return _REFUSED
    return {"action": "accept", "content": content}


async def _ask_field(
    asker: Asker, introduction: Sequence[str], name: str, wanted: _Property, *, is_required: bool
) -> Value | None:
    """Ask for one field until the answer fits, a few times; None when it is left out."""
    labels, refuse, skip = _list_labels(wanted), tr("Decline"), _describe_skip(wanted, is_required=is_required)
    described = _describe_field(name, wanted, labels)
    if labels and wanted.type != "array":
        options = [*labels.values(), *([skip] if skip else []), refuse]
    else:
        # What is typed is the answer, so nothing is offered that a number could choose.
        options = []
        described += [f"- : {skip}" if skip else tr("It has to be answered."), f"! : {refuse}"]
    lines = [*introduction, *described]
    for _ in range(_MAX_TRIES):
        answer = (await _ask(asker, lines, options)).strip()
        if answer in (refuse, "!"):
            raise _ClosedError(_REFUSED)
        if skip and answer in (skip, "-"):
            return wanted.default
        value = _parse_value(wanted, labels, answer)
        if value is not None:
            return value
        lines = [tr("That does not fit."), *described]
    raise _ClosedError(_CANCELLED)


async def _ask(asker: Asker, lines: Sequence[str], options: Sequence[str]) -> str:
    answer = await asker.ask("\n".join(lines), options)
    if answer is None:
        raise _ClosedError(_REFUSED)
    if not answer:
        raise _ClosedError(_CANCELLED)
    return answer


def _introduce(server: str, message: str) -> str:
    said = to_one_line(escape_confusable_characters(message), _MAX_MESSAGE)
    return tr('The MCP server {name} asks (what you answer is sent to it): "{message}"', name=server, message=said)


def _describe_skip(wanted: _Property, *, is_required: bool) -> str:
    """Return what it means not to answer: the default counts, or the field is left out; empty where that cannot be."""
    if wanted.default is not None:
        return tr("Leave it as it is: {value}", value=_format_value(wanted))
    return "" if is_required else tr("Leave it out")


def _describe_field(name: str, wanted: _Property, labels: Mapping[str, str]) -> list[str]:
    title = _clean(wanted.title or name)
    lines = [f"{title}: {_clean(wanted.description)}" if wanted.description else title]
    if wanted.type == "array":
        lines.append(tr("Several, separated by commas, of: {choices}", choices=", ".join(labels.values())))
    elif wanted.type in ("number", "integer"):
        lines.append(tr("A number."))
    return lines


def _list_labels(wanted: _Property) -> dict[str, str]:
    """Return what can be chosen: the value for the server, and how the person is shown it."""
    if wanted.type == "boolean":
        return {"true": tr("Yes"), "false": tr("No")}
    holder = wanted.items if wanted.type == "array" and wanted.items is not None else wanted
    titled = holder.any_of if isinstance(holder, _Items) else holder.one_of
    found = {one.const: _clean(one.title or one.const) for one in titled}
    if not found:
        names = [] if isinstance(holder, _Items) else holder.enum_names
        found = {value: _clean(names[at] if at < len(names) else value) for at, value in enumerate(holder.enum)}
    return dict(list(found.items())[:_MAX_CHOICES])


def _parse_value(wanted: _Property, labels: Mapping[str, str], answer: str) -> Value | None:
    """Return the value that an answer stands for; None when it does not fit."""
    match wanted.type:
        case "array":
            return _parse_list(wanted, labels, answer)
        case "boolean":
            found = _find_value(labels, answer)
            return None if found is None else found == "true"
        case "number" | "integer":
            return _parse_number(wanted, answer)
        case "string" if labels:
            return _find_value(labels, answer)
        case "string":
            return answer if wanted.min_length <= len(answer) <= min(wanted.max_length, _MAX_VALUE) else None
    return None


def _parse_list(wanted: _Property, labels: Mapping[str, str], answer: str) -> list[str] | None:
    values = [_find_value(labels, part.strip()) for part in answer.split(",") if part.strip()]
    chosen = [value for value in values if value is not None]
    return chosen if len(chosen) == len(values) and wanted.min_items <= len(chosen) <= wanted.max_items else None


def _parse_number(wanted: _Property, answer: str) -> int | float | None:
    text = answer.strip()
    try:
        value: int | float = int(text[:40]) if wanted.type == "integer" else float(text[:40])
    except ValueError:
        return None
    low = wanted.minimum if wanted.minimum is not None else float("-inf")
    high = wanted.maximum if wanted.maximum is not None else float("inf")
    return value if low <= value <= high and abs(value) != float("inf") else None


def _find_value(labels: Mapping[str, str], answer: str) -> str | None:
    at = find_choice(answer, list(labels.values()))
    if at is not None:
        return list(labels)[at]
    return answer if answer in labels else None


def _format_value(wanted: _Property) -> str:
    return _clean(to_json(wanted.default).decode()) if wanted.default is not None else ""


def _clean(text: str) -> str:
    return to_one_line(escape_confusable_characters(text), _MAX_LABEL)
