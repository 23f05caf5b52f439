"""Hooks as settings describe them: by Hermes' names for events, or in the form of Claude Code's settings.

Both forms may stand in `hooks` of `config.yaml`; files of other agents hold the second one. What cannot be run here is
named with the reason, and nothing of it runs.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from hermes.hooks.events import EVENT_TRAITS, HookEvent
from hermes.hooks.matchers import CallRule, MatcherError, ToolMatcher

DEFAULT_SECONDS = 60.0
MAX_SECONDS = 600.0
_MAX_HOOKS = 200
_MAX_COMMAND = 8_000
FOREIGN_EVENTS = {
    "PreToolUse": HookEvent.PRE_TOOL_CALL,
    "PostToolUse": HookEvent.POST_TOOL_CALL,
    "PostToolUseFailure": HookEvent.POST_TOOL_CALL,
    "PermissionRequest": HookEvent.PRE_APPROVAL_REQUEST,
    "PermissionDenied": HookEvent.POST_APPROVAL_RESPONSE,
    "UserPromptSubmit": HookEvent.PRE_LLM_CALL,
    "Stop": HookEvent.PRE_VERIFY,
    "SubagentStop": HookEvent.PRE_VERIFY,
    "StopFailure": HookEvent.POST_LLM_CALL,
    "SessionStart": HookEvent.ON_SESSION_START,
    "SessionEnd": HookEvent.ON_SESSION_FINALIZE,
    "SubagentStart": HookEvent.SUBAGENT_START,
    "PreCompact": HookEvent.PRE_COMPRESS,
    "PostCompact": HookEvent.POST_COMPRESS,
    "Notification": HookEvent.NOTIFICATION,
}
"""The events of Claude Code that there are here, by its names."""
_KNOWN_FIELDS = frozenset({"type", "command", "timeout", "statusMessage", "matcher", "if", "async", "shell"})
_SHELLS = ("", "bash", "sh")


class HookDefinition(Struct, frozen=True, kw_only=True):
    """A program that runs as a hook."""

    event: HookEvent
    name: str
    """The event's name as it stands in the settings; that of another agent decides in whose terms the hook is told."""
    command: str
    matcher: ToolMatcher
    rule: CallRule | None = None
    seconds: float = DEFAULT_SECONDS
    in_background: bool = False
    """Whether nobody waits for it."""
    shell: str = "sh"
    """The shell that reads the command, where it is there."""

    @property
    def is_foreign(self) -> bool:
        """Whether it is told in the terms of another agent."""
        return self.name in FOREIGN_EVENTS


class RefusedHook(Struct, frozen=True):
    """A hook that is not run, and why."""

    name: str
    reason: str


class HookDefinitions(Struct, frozen=True):
    """The hooks of one place, and what of it is not run."""

    hooks: tuple[HookDefinition, ...] = ()
    refused: tuple[RefusedHook, ...] = ()


def read_definitions(section: object) -> HookDefinitions:
    """Read the value of `hooks`. It never raises: what cannot be used is refused by name."""
    if section is None or section == {}:
        return HookDefinitions()
    if not isinstance(section, Mapping):
        return HookDefinitions(refused=(RefusedHook("hooks", "it is no mapping of events to hooks"),))
    hooks: list[HookDefinition] = []
    refused: list[RefusedHook] = []
    for name, groups in section.items():
        for found in _read_event(str(name), groups):
            if isinstance(found, RefusedHook):
                refused.append(found)
            elif len(hooks) < _MAX_HOOKS:
                hooks.append(found)
            else:
                refused.append(RefusedHook(found.name, f"there are more than {_MAX_HOOKS} hooks"))
    return HookDefinitions(tuple(hooks), tuple(refused))


def _read_event(name: str, groups: object) -> Iterator[HookDefinition | RefusedHook]:
    event = FOREIGN_EVENTS.get(name)
    if event is None:
        if name not in EVENT_TRAITS:
            yield RefusedHook(name, "there is no such event here")
            return
        event = HookEvent(name)
    if not isinstance(groups, Sequence) or isinstance(groups, str):
        yield RefusedHook(name, "it is no list")
        return
    for group in groups:
        if not isinstance(group, Mapping):
            yield RefusedHook(name, "an entry is no mapping")
            continue
        handlers = group.get("hooks", (group,))
        if not isinstance(handlers, Sequence) or isinstance(handlers, str):
            yield RefusedHook(name, "`hooks` of an entry is no list")
            continue
        for handler in handlers:
            yield _read_handler(name, event, group.get("matcher"), handler)


def _read_handler(name: str, event: HookEvent, matcher: object, handler: object) -> HookDefinition | RefusedHook:
    if not isinstance(handler, Mapping):
        return RefusedHook(name, "a hook is no mapping")
    if problem := _find_problem(handler):
        return RefusedHook(name, problem)
    rule = handler.get("if")
    try:
        return HookDefinition(
            event=event,
            name=name,
            command=str(handler["command"]).strip(),
            matcher=ToolMatcher(str(matcher or "")),
            rule=CallRule(str(rule)) if rule else None,
            seconds=min(float(handler.get("timeout", DEFAULT_SECONDS)), MAX_SECONDS),
            in_background=handler.get("async") is True,
            shell=str(handler.get("shell") or ("bash" if name in FOREIGN_EVENTS else "sh")),
        )
    except MatcherError as error:
        return RefusedHook(name, str(error))


def _find_problem(handler: Mapping[str, object]) -> str:
    """Return why a hook cannot be run here; empty where it can."""
    kind, command, seconds = handler.get("type", "command"), handler.get("command"), handler.get("timeout", 1)
    if kind != "command":
        return f"hooks of the type {str(kind)[:40]!r} are not run, commands only"
    if not isinstance(command, str) or not command.strip() or len(command) > _MAX_COMMAND or "\0" in command:
        return "it has no command that can be run"
    if unknown := sorted(str(key) for key in handler if key not in _KNOWN_FIELDS):
        return f"{unknown[0][:40]!r} is not known of a hook here"
    if handler.get("shell", "") not in _SHELLS:
        return "its shell is not there"
    return "" if type(seconds) in (int, float) and float(str(seconds)) > 0 else "`timeout` is no number of seconds"
