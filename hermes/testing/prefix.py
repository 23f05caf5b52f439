"""Check on recorded requests that what was sent stays sent: the prompt cache's prefix never changes.

    check_prefixes(server.requests)                       # one lineage a wire and model
    check_prefixes(server.requests, key=by_opening)       # sub-agents and side tasks beside the main one
    check_prefixes(server.requests, new_epochs={7})       # request 7 begins a named epoch

Each request's elements are its tools, its system prompt and its messages. Cache marks may move and are
left out, and with them the difference between a text and a list with one text block, which a mark needs.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

import msgspec

from hermes.testing.recorded import JsonObject, RecordedRequest

Element = tuple[str, object]
"""The name of an element, and the element."""


class PrefixError(AssertionError):
    """A request that does not begin with everything that its predecessor sent."""


def by_model(request: RecordedRequest) -> Hashable:
    """Return the same lineage for each wire and model: strict, for servers that see one conversation."""
    return request.wire, request.model


def by_opening(request: RecordedRequest) -> Hashable:
    """Return the same lineage for each first message on a wire and model.

    Tells conversations apart by how they begin; a system prompt or tools array that changes is still found.
    """
    first = next((message for message in request.messages if message.get("role") not in {"system", "developer"}), None)
    return request.wire, request.model, msgspec.json.encode(_canonical_value(first))


def check_prefixes(
    requests: Iterable[RecordedRequest],
    *,
    key: Callable[[RecordedRequest], Hashable] = by_model,
    new_epochs: Collection[int] = (),
) -> int:
    """Check every lineage and return how many pairs of requests were compared.

    `new_epochs` are numbers of requests that may begin a new epoch.

    Raises `PrefixError`, which names the first element that changed, moved or is missing.
    """
    newest: dict[Hashable, RecordedRequest] = {}
    pairs = 0
    for request in requests:
        lineage = key(request)
        before = newest.get(lineage)
        if before is not None and request.number not in new_epochs:
            _compare_requests(before, request)
            pairs += 1
        newest[lineage] = request
    return pairs


def _compare_requests(before: RecordedRequest, after: RecordedRequest) -> None:
    names = f"request {after.number} after request {before.number} ({after.wire}, {after.model})"
    for (_, old), (_, new), what in zip(prompt_frame(before), prompt_frame(after), ("tools", "system"), strict=True):
        if found := first_difference(old, new, what):
            raise PrefixError(f"{names}: {found}")
    new_messages = after.messages
    for index, old in enumerate(before.messages):
        if index >= len(new_messages):
            raise PrefixError(f"{names}: messages[{index}] is missing, was {_shorten_value(_canonical_message(old))}")
        new = new_messages[index]
        if msgspec.json.encode(old) == msgspec.json.encode(new):
            continue  # most are the same byte by byte, and then their canonical forms are, too
        if found := first_difference(_canonical_message(old), _canonical_message(new), f"messages[{index}]"):
            raise PrefixError(f"{names}: {found}")


def prompt_frame(request: RecordedRequest) -> list[Element]:
    """Return tools and system prompt in canonical form (on the chat wire the system prompt is a message)."""
    body = request.json
    system = body.get("system", body.get("instructions"))
    return [("tools", _canonical_value(body.get("tools", []))), ("system", _canonical_content(system))]


def _canonical_message(message: JsonObject) -> object:
    plain = _canonical_value(message)
    if isinstance(plain, dict) and "content" in plain:
        return {**plain, "content": _canonical_content(plain["content"])}
    return plain


def _canonical_content(content: object) -> object:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _canonical_value(content)


def _canonical_value(value: object) -> object:
    if isinstance(value, dict):
        return {name: _canonical_value(inner) for name, inner in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_canonical_value(inner) for inner in value]
    return value


def first_difference(old: object, new: object, path: str) -> str:
    """Describe where two JSON values differ first; empty when they are equal. The order of object keys counts."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            return f"{path} has the keys {list(new)}, had {list(old)}"
        inner: Iterator[str] = (first_difference(old[name], new[name], f"{path}.{name}") for name in old)
        return next(filter(None, inner), "")
    if isinstance(old, list) and isinstance(new, list):
        inner = (first_difference(*pair, f"{path}[{index}]") for index, pair in enumerate(zip(old, new, strict=False)))
        if found := next(filter(None, inner), ""):
            return found
        return f"{path} has {len(new)} elements, had {len(old)}" if len(old) != len(new) else ""
    return (
        "" if old == new and type(old) is type(new) else f"{path} is {_shorten_value(new)}, was {_shorten_value(old)}"
    )


def _shorten_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:120]}...{text[-30:]}"
