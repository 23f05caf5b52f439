"""Fill prompt templates with the values of a report.

Values from outside are untrusted content: the prompt only names them, and they stand in a fenced block of their own.
Only numbers, and true or false, are put into the prompt itself.
"""

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.admin.webhooks import WebhookRoute
from hermes.util.text import clean_surrogates

_FIELD = re.compile(r"\{([A-Za-z_][\w.-]{0,200})\}", re.ASCII)
_WHOLE_PAYLOAD = "payload"
MAX_REPORT_TEXT = 50_000
"""Characters of a report that the agent gets at most."""
_ABSENT = "(not there)"


class FilledPrompt(Struct, frozen=True):
    """A prompt and the reported values; `plain` is both in one text, for recipients that are no model."""

    prompt: str
    reported: str
    plain: str


def fill_prompt(template: str, payload: object) -> FilledPrompt:
    """Fill a template with the fields of a payload."""
    fields: dict[str, str] = {}

    def name_field(match: re.Match[str]) -> str:
        value = payload if match[1] == _WHOLE_PAYLOAD else value_at_path(payload, match[1])
        if isinstance(value, bool | int | float):
            return _format_value(value)
        fields[match[1]] = _format_value(value)
        return f"[{match[1]}]"

    def insert_value(match: re.Match[str]) -> str:
        return _format_value(payload if match[1] == _WHOLE_PAYLOAD else value_at_path(payload, match[1]))

    prompt = _FIELD.sub(name_field, template)
    reported = "\n".join(f"[{name}]: {text}" for name, text in fields.items())
    return FilledPrompt(prompt, _truncate_text(reported), _truncate_text(_FIELD.sub(insert_value, template)))


def value_at_path(payload: object, path: str) -> object:
    """Return the value at a dotted path; None if there is none."""
    for name in path.split("."):
        if isinstance(payload, Mapping):
            payload = payload.get(name)
        elif isinstance(payload, list) and name.isdigit() and int(name) < len(payload):
            payload = payload[int(name)]
        else:
            return None
    return payload


def ignore_reason(route: WebhookRoute, event: str, payload: object) -> str:
    """Return why a report is ignored; empty if it is accepted."""
    if route.events and event not in route.events:
        return "event"
    for path, accepted in route.filters.items():
        values = accepted if isinstance(accepted, tuple) else (accepted,)
        if _format_value(value_at_path(payload, path)) not in map(_format_value, values):
            return f"filter {path}"
    return ""


def event_type(headers: Mapping[str, str], payload: object) -> str:
    """Return the event type that the headers or the payload name; empty if none does."""
    for name in ("X-GitHub-Event", "X-Gitlab-Event", "X-Event-Key", "X-Event-Type"):
        if name in headers:
            return headers[name]
    found = value_at_path(payload, "type") or value_at_path(payload, "event")
    return found if isinstance(found, str) else ""


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return clean_surrogates(value)
    return _ABSENT if value is None else msgspec.json.encode(value).decode()


def _truncate_text(text: str) -> str:
    return (
        text
        if len(text) <= MAX_REPORT_TEXT
        else f"{text[:MAX_REPORT_TEXT]}\n[{len(text) - MAX_REPORT_TEXT:,} more characters]"
    )
