"""Reads a provider's error from any vendor's body: its names, its words, and its waiting times.

Vendors agree on nothing but JSON: the error may be the body, stand in it, in a list, in `metadata`, in
`base_resp`, or as JSON text inside another error's message when a gateway passes it on. All of it is
read, outermost first.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Struct

from hermes.util.text import to_one_line

Table = Mapping[str, object]
Mask = Callable[[str], str]
"""Takes keys out of a text."""

_WORDS_LIMIT = 2_000
"""Characters of what was said that are looked at; a vendor says what is wrong in its first sentence."""
_PAGE_LIMIT = 20_000
_MESSAGE_LIMIT = 400
_MAX_OBJECTS = 24
_DEPTH = 8
_NAME_KEYS = (
    "code",
    "type",
    "status",
    "reason",
    "error_type",
    "error_code",
    "status_code",
    "http_code",
    "limit_source",
    "quotaId",
)
_TEXT_KEYS = ("message", "detail", "msg", "status_msg", "error_message", "error", "raw")
_NESTED_KEYS = (
    "error",
    "message",
    "detail",
    "details",
    "metadata",
    "raw",
    "upstream_error",
    "innererror",
    "base_resp",
    "violations",
    "response",
)
_WAIT_KEYS = ("retryDelay", "retry_after", "retry_after_seconds", "retry_after_ms", "resets_in_seconds", "resets_at")
_REQUEST_OVER_LIMIT = re.compile(r"limit:? (\d{1,12}),.{0,40}?requested:? ~?(\d{1,12})")
_TAG = re.compile(r"<[^<>]*>")

UPSTREAM = "@upstream"
"""The mark of an error that a router passes on from its supplier."""
OVER_LIMIT = "@over_limit"
"""The mark of a request that is larger than the limit itself: no waiting makes it fit."""


class ErrorReport(Struct, frozen=True, kw_only=True):
    """A failure as the provider reported it.

    `codes` are its own names for it and `words` its words, both in lower case; `message` is for people. `named_status`
    is the HTTP status that the body names (0: none). `headers` and `waits` say how long to wait, as they came.
    """

    status: int = 0
    named_status: int = 0
    codes: str = ""
    words: str = ""
    message: str = ""
    headers: Mapping[str, str] = {}
    waits: Table = {}


def _no_mask(text: str) -> str:
    return text


def read_error_body(status: int, body: bytes, mask: Mask = _no_mask) -> ErrorReport:
    """Read the report in a body: JSON of any vendor, a gateway's page, or plain text. For `mask` see
    `read_error_value`.
    """
    try:
        return read_error_value(status, msgspec.json.decode(body), mask=mask)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = mask(extract_page_text(body))
        return ErrorReport(status=status, words=text[:_WORDS_LIMIT].lower(), message=to_one_line(text, _MESSAGE_LIMIT))


def read_error_value(
    status: int, value: object, *, codes: str = "", message: str = "", mask: Mask = _no_mask
) -> ErrorReport:
    """Read the report in a decoded body or error object; `codes` and `message` are known of it already.

    `mask` takes keys out of texts: after they were decoded, or an escape would hide one, and before they
    are cut, or half of one would stay.
    """
    names = [codes] if codes else []
    texts = [message] if message else []
    headers: dict[str, str] = {}
    wishes: dict[str, object] = {}
    named = 0
    for table in _iter_error_objects(value):
        named = named or _find_status(table)
        names += _error_names(table)
        _add_texts(texts, table)
        found = table.get("headers")
        for name, text in found.items() if isinstance(found, dict) else ():
            headers.setdefault(str(name).lower(), str(text))
        for name in _WAIT_KEYS:
            if table.get(name) is not None:
                wishes.setdefault(name, table[name])
    said = mask((": ".join(texts) or _format_value(value))[:_PAGE_LIMIT])
    says = said[:_WORDS_LIMIT].lower()
    if any(int(limit) < int(asked) for limit, asked in _REQUEST_OVER_LIMIT.findall(says)):
        names.append(OVER_LIMIT)
    return ErrorReport(
        status=status,
        named_status=named,
        codes=" ".join(names).lower()[:_WORDS_LIMIT],
        words=says,
        message=to_one_line(said[:_WORDS_LIMIT], _MESSAGE_LIMIT),
        headers=headers,
        waits=wishes,
    )


def extract_page_text(body: bytes) -> str:
    """Return the words of a page without its tags, scripts and styles."""
    page = body[:_PAGE_LIMIT].decode("utf-8", "replace")
    for tag in ("script", "style"):
        page = _drop_elements(tag, page)
    return " ".join(_TAG.sub(" ", page).split())


def _drop_elements(tag: str, page: str) -> str:
    """Return the page without one kind of element; one that is not closed goes to the end. Looks at each character
    once.
    """
    lower = page.lower()
    kept = []
    at = 0
    while (start := lower.find(f"<{tag}", at)) >= 0:
        kept.append(page[at:start])
        end = lower.find(f"</{tag}", start)
        if end < 0:
            return "".join(kept)
        at = end
    return "".join(kept) + page[at:]


def _iter_error_objects(value: object) -> Iterator[Table]:
    """Yield the objects that an error may stand in, outermost first."""
    waiting: list[tuple[object, int]] = [(value, 0)]
    seen = 0
    while waiting and seen < _MAX_OBJECTS:
        found, depth = waiting.pop(0)
        if isinstance(found, str):
            found = _parse_embedded_json(found)
        if isinstance(found, list) and depth < _DEPTH:
            waiting[:0] = [(item, depth + 1) for item in found[:8]]
        elif isinstance(found, dict):
            seen += 1
            yield found
            if depth < _DEPTH:
                waiting += [(found[name], depth + 1) for name in _NESTED_KEYS if name in found]


def _parse_embedded_json(text: str) -> object:
    """Return the JSON that a text is or ends in, as gateways pass on what their upstream said; None when
    there is none.
    """
    start = text.find('{"')
    if start < 0:
        return None
    try:
        return msgspec.json.decode(text[start:].rstrip())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _find_status(table: Table) -> int:
    """Return the HTTP status that an object names, as a number or as text."""
    for name in ("code", "status_code", "http_code", "status"):
        value = table.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
    return 0


def _error_names(table: Table) -> list[str]:
    """Return the names that an object gives its error, and the marks that follow from its members."""
    found = (table.get(name) for name in _NAME_KEYS)
    names = [str(name) for name in found if isinstance(name, str | int) and name not in ("", "error")]
    if "status_msg" in table:
        names = [f"base_resp:{name}" for name in names]
    source = table.get("limit_source")
    if table.get("provider_name") or (isinstance(source, str) and source.startswith("upstream")):
        names.append(UPSTREAM)
    return names


def _add_texts(texts: list[str], table: Table) -> None:
    """Add what an object says, except JSON (its parts follow) and what was said already."""
    where = table.get("loc")
    place = ".".join(str(step) for step in where) + ": " if isinstance(where, list) else ""
    for name in _TEXT_KEYS:
        text = table.get(name)
        if not isinstance(text, str) or not text or isinstance(_parse_embedded_json(text), dict):
            continue
        if not any(text in said for said in texts):
            texts.append(place + text)


def _format_value(value: object) -> str:
    """Return what there is to show of a value without words."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else ""
