"""Checks the plain arguments of `AIAgent` before anything is opened, so that no turn fails over one."""

import inspect
import os
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_

_Positive = Annotated[int, msgspec.Meta(gt=0, lt=1_000_000_000)]


class _PlainArguments(msgspec.Struct, kw_only=True):
    """The types of those arguments that nothing else checks. A text is no list: `allow="ls *"` would mean `*`, too."""

    model: str
    provider: str
    base_url: str
    api_key: str
    api_mode: str
    session_id: str
    platform: str
    ephemeral_system_prompt: str
    context_length: _Positive | None
    max_tokens: _Positive | None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=10)] | None
    enabled_toolsets: list[str] | None
    disabled_toolsets: list[str] | None
    allow: list[str]
    service_tier: str | None
    providers_allowed: list[str] | None
    providers_ignored: list[str] | None
    providers_order: list[str] | None
    provider_sort: Literal["price", "throughput", "latency"] | None
    provider_data_collection: Literal["allow", "deny"] | None
    provider_require_parameters: bool
    skip_context_files: bool
    load_soul_identity: bool
    skip_memory: bool
    save_trajectories: bool


_TYPES = {spec.name: spec.type for spec in msgspec.structs.fields(_PlainArguments)}
EMPTY_WHEN_NONE = ("model", "provider", "base_url", "api_key", "api_mode", "session_id", "ephemeral_system_prompt")
"""Texts for which programs also write None. It is taken for an empty one."""


def check_argument_types(given: Mapping[str, object]) -> None:
    """Check the arguments, by their names. Raises UsageError for the first that cannot be used, never with a key."""
    for name, kind in _TYPES.items():
        value = given[name]
        if value is None and name in EMPTY_WHEN_NONE:
            continue
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise UsageError(N_("{name} cannot be used: {error}.", name=name, error=error)) from None


def find_working_folder(given: str | os.PathLike[str] | None) -> str:
    """Return the working folder; that of the process for an empty one. Raises UsageError where it is no folder."""
    folder = os.fspath(given) if given else os.getcwd()
    if not os.path.isdir(folder):
        raise UsageError(N_("cwd cannot be used: {folder} is not a folder.", folder=folder))
    return folder


def check_callbacks(given: Mapping[str, object]) -> None:
    """Check that callbacks are plain functions: nobody would wait for an async one. Raises UsageError."""
    for name, value in given.items():
        if value is None:
            continue
        if not callable(value):
            raise UsageError(N_("{name} must be a function.", name=name))
        if inspect.iscoroutinefunction(value):
            raise UsageError(
                N_("{name} is async, and nobody would wait for it.", name=name),
                N_("Give a plain function; it is called in the agent's own thread."),
            )
