"""Requests in canonical form, for comparing what was sent."""

import json

import msgspec


def prefix_elements(body: bytes) -> list[bytes]:
    """A request in canonical form: first its tools and system prompt, then each message element.

    Keys are sorted, cache marks removed, and a text given as one plain string stands as one text block. The elements
    of a request are a prefix of those of the next one of its lineage, whatever wire it is.
    """
    request: dict[str, object] = msgspec.json.decode(body, type=dict[str, object])
    fixed = {key: request[key] for key in ("tools", "system", "instructions") if key in request}
    listed = request.get("messages", request.get("input"))
    messages = listed if isinstance(listed, list) else []
    return [_canonical(fixed), *(_canonical(message) for message in messages)]


def _canonical(value: object) -> bytes:

    return json.dumps(_without_marks(value), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _without_marks(value: object) -> object:
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_marks(item) for key, item in value.items() if key != "cache_control"}
    for key in ("content", "system"):
        if isinstance(plain.get(key), str) and ("role" in plain or key == "system"):
            plain[key] = [{"type": "text", "text": plain[key]}]
    return plain
