"""Checks messages by the protocol's public schema, where that is on this machine: ACP_SCHEMA names the file, which the
official npm package brings (`schema/v1/schema.json`); `make acp` installs it.
"""

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

SCHEMA_FILE = os.environ.get("ACP_SCHEMA", "")


@functools.cache
def _load_schema() -> dict[str, Any]:
    """Return the schema, and beside its definitions those that only the draft has."""
    file = Path(SCHEMA_FILE)
    found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
    draft = file.with_name("schema.unstable.json")
    if draft.exists():
        found["$defs"] = msgspec.json.decode(draft.read_bytes())["$defs"] | found["$defs"]
    return found


@functools.cache
def _find_forms() -> dict[tuple[str, str], str]:
    """Return the names of the definitions by method and kind (`request`, `result`, `notification`)."""
    forms: dict[tuple[str, str], str] = {}
    for name, one in _load_schema()["$defs"].items():
        if method := one.get("x-method"):
            kind = "result" if name.endswith("Response") else "request"
            forms[method, "notification" if name.endswith("Notification") else kind] = name
    return forms


@functools.cache
def _make_validator(name: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _load_schema()["$defs"]})


def check_message(message: Mapping[str, Any], *, method: str) -> None:
    """Raise AssertionError for a message of Hermes that the schema does not allow; without one, of the envelope."""
    assert message["jsonrpc"] == "2.0"
    if not SCHEMA_FILE:
        return
    if "error" in message:
        name, body = "Error", message["error"]
    elif "method" in message:
        kind = "request" if "id" in message else "notification"
        name, body = _find_forms().get((method, kind), ""), message["params"]
    else:
        name, body = _find_forms().get((method, "result"), ""), message["result"]
    assert name, f"the schema knows no {method}"
    problems = [
        f"{'/'.join(map(str, one.absolute_path))}: {one.message[:300]}"
        for one in _make_validator(name).iter_errors(body)
    ]
    assert not problems, f"{method} ({name}): {problems} in {str(body)[:500]}"
