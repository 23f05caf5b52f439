"""Reads the arguments of `AIAgent` about models and requests: how it thinks, what is added, who answers instead."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Protocol, get_args

import msgspec

from hermes.config.settings import ModelReference
from hermes.config.trusted_folders import check_trust_scope
from hermes.core.encoding import to_json
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
_DECIDED = N_("Hermes decides about it.")
_OWN_ARGUMENTS = {
    "model": "model",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "reasoning": "reasoning_config",
    "reasoning_effort": "reasoning_config",
    "thinking": "reasoning_config",
    "output_config": "reasoning_config",
    "tools": "tools",
    "system": "system_message",
    "instructions": "system_message",
}
"""Members of a request that have an argument of their own."""
_OURS = frozenset(
    {
        *("messages", "input", "prompt", "previous_response_id", "conversation", "context_management"),
        *("stream", "stream_options", "store", "background", "include", "n", "extra_headers", "extra_body"),
        *("tool_choice", "functions", "function_call", "mcp_servers"),
    }
)
"""Members of a request that Hermes itself decides about: what is said, how it is answered, and what can be called.
Permissions, caps and the record of the conversation rely on them.
"""


class RequestArguments(Protocol):
    """The arguments that add something to every request; see `AIAgent`."""

    request_overrides: Mapping[str, object] | None
    service_tier: str | None
    providers_allowed: Sequence[str] | None
    providers_ignored: Sequence[str] | None
    providers_order: Sequence[str] | None
    provider_sort: str | None
    provider_require_parameters: bool
    provider_data_collection: str | None


class _ReasoningConfig(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool | None = None
    effort: Effort | None = None
    max_tokens: Annotated[int, msgspec.Meta(gt=0, lt=10_000_000)] | None = None


def parse_reasoning(given: Mapping[str, object] | None) -> tuple[str, int | None]:
    """Return the reasoning effort (empty: as configured) and the tokens it may take. Raises UsageError."""
    if given is None:
        return "", None
    try:
        wanted = msgspec.convert(given, _ReasoningConfig)
    except msgspec.ValidationError as error:
        raise UsageError(
            N_("reasoning_config cannot be used: {error}.", error=error),
            N_("It takes enabled, max_tokens, and effort ({names}).", names=", ".join(get_args(Effort))),
        ) from None
    if wanted.enabled is False or wanted.effort == "none":
        return "none", None
    return wanted.effort or ("medium" if wanted.enabled and wanted.max_tokens is None else ""), wanted.max_tokens


def parse_request_members(given: RequestArguments) -> bytes:
    """Return what is added to every request, as the inside of a JSON object. Raises UsageError."""
    members = _parse_overrides(given.request_overrides)
    routing = {
        "only": given.providers_allowed,
        "ignore": given.providers_ignored,
        "order": given.providers_order,
        "sort": given.provider_sort,
        "require_parameters": given.provider_require_parameters,
        "data_collection": given.provider_data_collection,
    }
    if wanted := {name: value for name, value in routing.items() if value}:
        members["provider"] = wanted
    if given.service_tier:
        members["service_tier"] = given.service_tier
    try:
        return to_json(members)[1:-1]
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(N_("request_overrides holds what JSON cannot: {error}.", error=error)) from None


def _parse_overrides(given: object) -> dict[str, object]:
    """Return the members of `request_overrides`; those of its `extra_body` count as its own."""
    overrides = given or {}
    if not isinstance(overrides, Mapping):
        raise UsageError("request_overrides must be a dict.")
    body = overrides.get("extra_body")
    members = {name: value for name, value in overrides.items() if name != "extra_body"}
    if not isinstance(body or {}, Mapping):
        raise UsageError("request_overrides must be a dict.")
    members |= body or {}
    for name in members:
        _require_free_member(name)
    return members


def _require_free_member(name: object) -> None:
    """Raise UsageError for a member that has an argument of its own, or that Hermes decides about."""
    plain = name.strip().lower() if isinstance(name, str) else ""  # servers written in Go ignore the case of names
    if plain in _OWN_ARGUMENTS or plain in _OURS or not plain:
        instead = N_("Use {name}.", name=_OWN_ARGUMENTS[plain]) if plain in _OWN_ARGUMENTS else _DECIDED
        raise UsageError(N_("request_overrides takes no {name}.", name=name), instead)


def resolve_trust(given: bool | str | Sequence[str], cwd: str) -> tuple[str, ...]:
    """Return the folders that a program trusts, absolute and resolved. Raises UsageError for what nobody should."""
    if given is True or not given:
        named: Sequence[str] = [cwd] if given else []
    else:
        named = [given] if isinstance(given, str) else list(given)
    found = []
    for folder in named:
        real = os.path.realpath(os.path.expanduser(os.path.join(cwd, folder)))
        why, _ = check_trust_scope(real, os.path.expanduser("~"))
        if why or not os.path.isdir(real):
            raise UsageError(
                N_("{folder} cannot be trusted: {why}.", folder=folder, why=why or N_("it is not a folder")),
                "Name the project's folder.",
            )
        found.append(real)
    return tuple(found)


def parse_fallback_models(
    given: Mapping[str, object] | str | Sequence[Mapping[str, object] | str] | None,
) -> tuple[ModelReference, ...]:
    """Parse the fallback models that a program names. Raises UsageError for what names none."""
    if not given:
        return ()
    named: list[object] = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    named = [{"model": one} if isinstance(one, str) else one for one in named]
    try:
        return msgspec.convert(named, tuple[ModelReference, ...])
    except msgspec.ValidationError as error:
        raise UsageError(
            N_("fallback_model cannot be used: {error}.", error=error), "Give provider, model, base_url, api_key."
        ) from None
