"""Prompts filled with what was reported.

What came from outside is a stranger's: the prompt names it, and it stands in a fence of its own; only numbers, and yes
or no, are put into the prompt itself.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.admin.webhooks import WebhookRoute
from hermes.util.text import clean_surrogates

_FIELD = re.compile(r"\{([A-Za-z_][\w.-]{0,200})\}", re.ASCII)
_ALL = "payload"
MOST_TEXT = 50_000
"""Characters of what was reported that the agent is told."""
_ABSENT = "(not there)"


class Filled(Struct, frozen=True):
    """A prompt, and what it speaks of; `plain` is both in one, for where no model reads it."""

    prompt: str
    reported: str
    plain: str


def filled(template: str, payload: object) -> Filled:
    """The template with its fields."""
    fields: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        value = payload if match[1] == _ALL else field(payload, match[1])
        if isinstance(value, bool | int | float):
            return _shown(value)
        fields[match[1]] = _shown(value)
        return f"[{match[1]}]"

    def put(match: re.Match[str]) -> str:
        return _shown(payload if match[1] == _ALL else field(payload, match[1]))

    prompt = _FIELD.sub(named, template)
    reported = "\n".join(f"[{name}]: {text}" for name, text in fields.items())
    return Filled(prompt, _cut(reported), _cut(_FIELD.sub(put, template)))


def field(payload: object, path: str) -> object:
    """What stands at a path; None where nothing does."""
    for name in path.split("."):
        if isinstance(payload, Mapping):
            payload = payload.get(name)
        elif isinstance(payload, list) and name.isdigit() and int(name) < len(payload):
            payload = payload[int(name)]
        else:
            return None
    return payload


def wanted(route: WebhookRoute, event: str, payload: object) -> str:
    """Why a report is not looked at; empty when it is."""
    if route.events and event not in route.events:
        return "event"
    for path, accepted in route.filters.items():
        values = accepted if isinstance(accepted, tuple) else (accepted,)
        if _shown(field(payload, path)) not in map(_shown, values):
            return f"filter {path}"
    return ""


def event_of(headers: Mapping[str, str], payload: object) -> str:
    """What kind of event it is, as far as anything says so."""
    for name in ("X-GitHub-Event", "X-Gitlab-Event", "X-Event-Key", "X-Event-Type"):
        if name in headers:
            return headers[name]
    found = field(payload, "type") or field(payload, "event")
    return found if isinstance(found, str) else ""


def _shown(value: object) -> str:
    if isinstance(value, str):
        return clean_surrogates(value)
    return _ABSENT if value is None else msgspec.json.encode(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n[{len(text) - MOST_TEXT:,} more characters]"
