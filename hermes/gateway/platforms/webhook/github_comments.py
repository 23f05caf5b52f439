"""Answers to reports of GitHub as comments on the issue or pull request that was reported."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.core.chats import Outgoing
from hermes.core.encoding import to_json
from hermes.gateway.http.client import PlatformRequest, PlatformResponse, decode_json, send_request
from hermes.gateway.platform import PlatformContext, SendError, SendFault
from hermes.i18n.messages import N_

TOKEN_VARIABLE = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable
_PREFIX = "github:"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}", re.ASCII)
_CHAT = re.compile(rf"{_PREFIX}({_REPOSITORY.pattern})#([1-9][0-9]{{0,9}})", re.ASCII)
_MARK = "<!-- hermes -->"
_VERSION = "2022-11-28"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _CreatedComment(Struct, frozen=True):
    id: int


def find_comment_chat(payload: object) -> str:
    """Return the chat of the issue or pull request that a signed report names; empty where it names none."""
    if not isinstance(payload, Mapping):
        return ""
    repository = payload.get("repository")
    name = repository.get("full_name") if isinstance(repository, Mapping) else None
    if not isinstance(name, str) or not _REPOSITORY.fullmatch(name) or name.endswith(("/.", "/..")):
        return ""
    for field in ("issue", "pull_request"):
        inner = payload.get(field)
        number = inner.get("number") if isinstance(inner, Mapping) else None
        if type(number) is int and 0 < number < 10_000_000_000:
            return f"{_PREFIX}{name}#{number}"
    return ""


def is_own_comment(payload: object) -> bool:
    """Return whether a report is about a comment of ours, which must not be answered by another one."""
    comment = payload.get("comment") if isinstance(payload, Mapping) else None
    body = comment.get("body") if isinstance(comment, Mapping) else None
    return isinstance(body, str) and _MARK in body


def is_safe_address(address: str) -> bool:
    """Return whether the token may be sent to this API: over https, or to this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


async def post_comment(context: PlatformContext, api: str, token: str, message: Outgoing) -> str:
    """Post a message as a comment and return its id. Raises SendError."""
    match = _CHAT.fullmatch(message.place.chat)
    if match is None:
        raise SendError(SendFault.FORBIDDEN, N_("Webhooks report; nothing is sent to them."))
    if not token:
        raise SendError(
            SendFault.FORBIDDEN, N_("GitHub takes comments with a token only: set {name}.", name=TOKEN_VARIABLE)
        )
    call = PlatformRequest(
        method="POST",
        url=f"{api.rstrip('/')}/repos/{match[1]}/issues/{match[2]}/comments",
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": _VERSION,
            "User-Agent": "hermes",
            "Content-Type": "application/json",
        },
        body=to_json({"body": f"{message.text}\n\n{_MARK}"}),
        creates=True,
    )
    answer = await send_request(context.http, call, "GitHub")
    if answer.status != 201:
        raise _make_send_error(answer)
    return str(decode_json(answer.body, _CreatedComment).id)


def _make_send_error(answer: PlatformResponse) -> SendError:
    said = N_("GitHub answered with HTTP {status}.", status=answer.status)
    wait = answer.headers.get("Retry-After", "")
    if answer.status == 429 or (answer.status == 403 and (wait or answer.headers.get("X-RateLimit-Remaining") == "0")):
        return SendError(SendFault.RATE_LIMITED, said, retry_after=float(wait) if wait.isdigit() else 60.0)
    if answer.status in (404, 410):
        return SendError(SendFault.NOT_FOUND, said)
    if answer.status in (301, 302, 307, 308, 400, 401, 403, 422):
        return SendError(SendFault.FORBIDDEN, said)
    return SendError(SendFault.TRANSIENT, said)
