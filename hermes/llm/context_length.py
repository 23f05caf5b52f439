"""Finds a model's context length: from the config or the record, else from the provider
where it tells. Never guessed.
"""

from urllib.parse import quote

import msgspec

from hermes.core.encoding import to_json
from hermes.core.errors import TransportError
from hermes.core.protocols import HttpTimeouts, HttpTransport
from hermes.providers.wire import Endpoint, build_request_headers

_TIMEOUTS = HttpTimeouts(connect=3.0, read=5.0)
_MAX_BODY = 16 * 1024 * 1024


async def find_context_length(endpoint: Endpoint, transport: HttpTransport) -> int | None:
    """Return the window of the endpoint's model in tokens; None when it is unknown.

    Asks the provider at most three small questions, only when config and record are silent. A provider that
    does not answer counts as one that does not know.
    """
    if endpoint.context_length is not None:
        return endpoint.context_length
    if not endpoint.base_url:
        return None
    base = endpoint.base_url.rstrip("/")
    root = base.removesuffix("/v1")
    probe = endpoint.record.quirks.probe
    if probe == "show":
        body = to_json({"model": endpoint.model})
        return _length_from_show(await _fetch_json(endpoint, transport, "POST", f"{root}/api/show", body))
    if probe == "props":
        length = _length_from_props(await _fetch_json(endpoint, transport, "GET", f"{root}/props"))
        return length or _length_from_list(
            await _fetch_json(endpoint, transport, "GET", f"{base}/models"), endpoint.model
        )
    if not probe:
        return None
    length = _length_from_list(await _fetch_json(endpoint, transport, "GET", f"{base}/models"), endpoint.model)
    if length is None and probe == "any":
        length = _length_from_props(await _fetch_json(endpoint, transport, "GET", f"{root}/props"))
        model = quote(endpoint.model, safe="/")
        length = length or _find_length(await _fetch_json(endpoint, transport, "GET", f"{root}/api/v0/models/{model}"))
    return length


async def _fetch_json(endpoint: Endpoint, transport: HttpTransport, method: str, url: str, body: bytes = b"") -> object:
    """Return the JSON that the address answers, or None."""
    answer = bytearray()
    try:
        headers = await build_request_headers(endpoint, transport, method, url, body)
        headers |= {"accept": "application/json"}
        async with transport.open(method, url, headers=headers, body=body, timeouts=_TIMEOUTS) as stream:
            if stream.status != 200:
                return None
            async for chunk in stream.chunks():
                answer += chunk
                if len(answer) > _MAX_BODY:
                    return None
        value: object = msgspec.json.decode(answer)
    except (TransportError, msgspec.DecodeError, RecursionError):
        return None
    return value


def _find_length(value: object) -> int | None:
    """Return the first window that an object names."""
    from hermes.providers.model_facts import read_window

    return read_window(value)


def _length_from_list(value: object, model: str) -> int | None:
    """Return the window in the model's own entry of a list of models; llama.cpp puts its numbers into `meta`."""
    rows = value.get("data") if isinstance(value, dict) else value
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and model in (row.get("id"), row.get("canonical_slug"), row.get("root")):
            return _find_length(row) or _find_length(row.get("meta"))
    return None


def _length_from_props(value: object) -> int | None:
    """Return the window of one slot, from llama.cpp's `/props`."""
    settings = value.get("default_generation_settings") if isinstance(value, dict) else None
    return _find_length(settings)


def _length_from_show(value: object) -> int | None:
    """Return the window from Ollama's `/api/show`: what the model is run with, else what it was trained for."""
    if not isinstance(value, dict):
        return None
    for line in str(value.get("parameters") or "").splitlines():
        name, _, number = line.strip().partition(" ")
        if name == "num_ctx" and number.strip().isdecimal() and len(number) < 20:
            return int(number)
    info = value.get("model_info")
    for key, found in info.items() if isinstance(info, dict) else ():
        if key.endswith(".context_length") and isinstance(found, int):
            return found
    return None
