"""The shapes of vendors' errors, and a case: what a vendor really answers when a call fails.

`seen` says where: a repository's issue that quotes the body, `docs: ...` for codes that were read in the vendor's
documentation, `SDK types` for names in its SDK (the message is ours). `unchecked: ...` is from memory of the source it
names and wants a look; `made` is ours. What was seen is the HTTP body: inside a stream, as a whole answer
with status 200, and on each wire of the vendor, the same object is put there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.core.outcomes import FailureKind as Kind
from hermes.core.outcomes import Scope

CHAT, RESPONSES, MESSAGES = "chat_completions", "responses", "anthropic_messages"
ALL = (CHAT, RESPONSES, MESSAGES)
OPENAI = (CHAT, RESPONSES)
BOTH = (CHAT, MESSAGES)


@dataclass(frozen=True)
class Case:
    kind: Kind
    vendor: str
    status: int
    body: object
    seen: str
    wires: tuple[str, ...] = ALL
    scope: Scope | None = None
    """Where it differs from the kind's own."""
    wait: float | None = None
    retryable: bool | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    ways: tuple[str, ...] = ("http", "stream", "whole")


def openai(message: str, kind: str = "invalid_request_error", code: object = None, **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def anthropic(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011"}


def router(message: str, code: int, **metadata: object) -> dict[str, object]:
    return {"error": {"message": message, "code": code, "metadata": metadata}, "user_id": "user_2"}


def google(code: int, message: str, status: str, *details: Mapping[str, object]) -> list[object]:
    return [{"error": {"code": code, "message": message, "status": status, "details": list(details)}}]


def minimax(code: int, message: str) -> dict[str, object]:
    return {"id": "05", "choices": None, "created": 1, "base_resp": {"status_code": code, "status_msg": message}}


def page(title: str, server: str = "nginx") -> str:
    return f"<html>\r\n<head><title>{title}</title></head>\r\n<body><h1>{title}</h1><hr>{server}</body>\r\n</html>"


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "21s"}


def quota(name: str) -> dict[str, object]:
    violation = {"quotaMetric": "generativelanguage.googleapis.com/generate_content", "quotaId": name}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
