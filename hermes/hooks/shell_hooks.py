"""Programs as hooks: each definition of an enabled set is a source of its own."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field, structs

from hermes.execution.supervisor import Supervisors
from hermes.hooks.definitions import HookDefinition
from hermes.hooks.events import EVENT_TRAITS, HookEvent, HookRole
from hermes.hooks.foreign_tools import (
    ForeignCall,
    list_call_names,
    list_foreign_calls,
    list_tool_names,
    to_own_arguments,
)
from hermes.hooks.hook import NO_OUTCOME, HookCall, HookDecision, HookError, HookOutcome
from hermes.hooks.hook_files import HookFilesError
from hermes.hooks.hook_sets import HookSet, HookSetState
from hermes.hooks.matchers import ToolMatcher
from hermes.hooks.programs import HookProgram, run_program
from hermes.hooks.shell_answers import build_input, read_end
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)
_ANY_CALL = HookDefinition(
    event=HookEvent.PRE_TOOL_CALL, name=HookEvent.PRE_TOOL_CALL.value, command="settings", matcher=ToolMatcher("")
)
_MAX_BACKGROUND = 16
_MAX_NAME = 40
_STRICTNESS = (HookDecision.NONE, HookDecision.ASK, HookDecision.DENY)
_ENABLE_AGAIN = "it or a file that it names has changed since it was enabled: `hermes plugins enable {name}` shows it"


class ShellHookDeps(Struct, frozen=True, kw_only=True):
    """What programs of hooks need of the session that they run for."""

    folder: str
    """The session's folder, absolute."""
    environ: Mapping[str, str]
    """The variables of the person, which programs get."""
    find_supervisors: Callable[[], Supervisors]
    resolve_path: Callable[[str], str]
    """Returns the absolute path that a path in a call means."""
    write_transcript: Callable[[], str]
    """Brings the transcript on disk up to date, and returns the path of its file."""
    background: set[asyncio.Task[None]] = field(default_factory=set)
    """The programs that nobody waits for."""


class ShellHookSource:
    """A program that runs as a hook of a session."""

    def __init__(self, hook: HookDefinition, hook_set: HookSet, deps: ShellHookDeps) -> None:
        self._hook = hook
        self._set = hook_set
        self._deps = deps
        self._is_changed = hook_set.state is HookSetState.CHANGED
        self._program = _name_program(hook.command)

    @property
    def name(self) -> str:
        """The place that it stands in, and the file or the program that it runs first."""
        return f"{self._set.place.name}:{self._program}"

    def handles(self, call: HookCall) -> bool:
        """Return whether its event and its matcher fit. Of a set that was changed only guards answer, with no."""
        hook = self._hook
        if hook.event is not call.event or not _fits_kind(hook, call):
            return False
        if self._is_changed and EVENT_TRAITS[hook.event].role is HookRole.OBSERVER:
            return False
        names = list_tool_names(call.tool) if EVENT_TRAITS[hook.event].has_tool else (call.source,)
        return hook.matcher.matches(names)

    async def run_hook(self, call: HookCall) -> HookOutcome:
        """Run the program, once for each call of the other agent that the call stands for. Raises HookError."""
        self._check_files()
        hook = self._hook
        if not call.tool or not hook.is_foreign:
            return await self._run(call, None)
        told = list(list_foreign_calls(call.tool, call.arguments, self._deps.resolve_path))
        meant = [one for one in told if self._is_meant(call.tool, one)]
        outcomes = [await self._run(call, one) for one in meant]
        return _join_outcomes(call, meant, outcomes)

    async def close(self) -> None:
        """End what runs in the background."""
        await cancel_tasks(tuple(self._deps.background))

    def _is_meant(self, tool: str, call: ForeignCall) -> bool:
        names = list_call_names(tool, call)
        rule = self._hook.rule
        told = {} if call.is_opaque else call.arguments
        return self._hook.matcher.matches(names) and (rule is None or rule.matches(names, told))

    def _check_files(self) -> None:
        """Raise HookError unless all files are those that the person has enabled."""
        files = self._set.files
        if not self._is_changed and not files.is_unchanged():
            try:
                self._is_changed = files.compute_digest() != self._set.digest
            except HookFilesError as error:
                raise HookError(str(error)) from None
        if self._is_changed:
            raise HookError(_ENABLE_AGAIN.format(name=self._set.place.name))

    async def _run(self, call: HookCall, foreign: ForeignCall | None) -> HookOutcome:
        hook, deps = self._hook, self._deps
        transcript = deps.write_transcript() if hook.is_foreign else ""
        program = HookProgram(
            command=hook.command,
            shell=hook.shell,
            given=build_input(hook, call, foreign, transcript),
            folder=deps.folder,
            environment={**deps.environ, "CLAUDE_PROJECT_DIR": deps.folder, "HERMES_SESSION_ID": call.session_id},
            seconds=hook.seconds,
        )
        if not hook.in_background:
            return read_end(hook, await run_program(program, deps.find_supervisors))
        if len(deps.background) >= _MAX_BACKGROUND:
            raise HookError(f"{_MAX_BACKGROUND} programs run in the background already")
        task = asyncio.create_task(_run_in_background(self.name, program, deps.find_supervisors), name=self.name)
        deps.background.add(task)
        task.add_done_callback(deps.background.discard)
        return NO_OUTCOME


def _name_program(command: str) -> str:
    """Return a short name for a command: the base name of its script, or its first word."""
    words = to_one_line(command, 500).replace('"', " ").replace("'", " ").partition(">")[0].split()
    script = next((word for word in words if "/" in word and not word.startswith(("/bin/", "/usr/", "-"))), "")
    return (script.rpartition("/")[2] or words[0] if words else command)[:_MAX_NAME]


async def _run_in_background(name: str, program: HookProgram, find_supervisors: Callable[[], Supervisors]) -> None:
    try:
        end = await run_program(program, find_supervisors)
    except HookError as error:
        _LOG.warning("hook %s: %s", name, error)
        return
    if end.code:
        _LOG.warning("hook %s ended with %s: %s", name, end.code, to_one_line(end.errors, 300))


def _fits_kind(hook: HookDefinition, call: HookCall) -> bool:
    """Return whether the moment is of the kind that an event of the other agent stands for; several share one here."""
    is_sub_agent, failed = bool(call.details.get("is_sub_agent")), bool(call.details.get("failed"))
    kinds = {
        "Stop": not is_sub_agent,
        "SubagentStop": is_sub_agent,
        "PostToolUse": not failed,
        "PostToolUseFailure": failed,
        "StopFailure": failed,
        "PermissionDenied": failed,
    }
    return kinds.get(hook.name, True)


def _join_outcomes(told: HookCall, calls: Sequence[ForeignCall], outcomes: Sequence[HookOutcome]) -> HookOutcome:
    """Return the answers to the parts of one call as one: the strictest counts. Raises HookError."""
    if not outcomes:
        return NO_OUTCOME
    changed = [(call, one.arguments) for call, one in zip(calls, outcomes, strict=True) if one.arguments is not None]
    if changed and len(calls) > 1:
        raise HookError("it changes one part of a call that has several")
    arguments = to_own_arguments(told.tool, *changed[0], told.arguments) if changed else None
    strictest = max(outcomes, key=lambda one: _STRICTNESS.index(one.decision))
    return structs.replace(
        strictest,
        arguments=arguments,
        context="\n".join(filter(None, (one.context for one in outcomes))),
        text=next((one.text for one in outcomes if one.text is not None), None),
        notice="; ".join(filter(None, (one.notice for one in outcomes))),
        ends_turn=any(one.ends_turn for one in outcomes),
    )


def make_shell_sources(sets: Sequence[HookSet], deps: ShellHookDeps) -> list[ShellHookSource]:
    """Return the hooks of the sets that run, or that say no since they were changed."""
    chosen = (one for one in sets if one.state is not HookSetState.OFF)
    return [ShellHookSource(hook, one, deps) for one in chosen for hook in _list_hooks(one)]


def _list_hooks(one: HookSet) -> Sequence[HookDefinition]:
    """Return the hooks of a set. Of a project's that were changed nobody can tell what they guarded, since whoever has
    changed them may have taken it out: all calls are refused.
    """
    is_lost = one.state is HookSetState.CHANGED and one.place.is_project
    return (_ANY_CALL,) if is_lost else one.definitions.hooks
