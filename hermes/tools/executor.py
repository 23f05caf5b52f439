"""Runs the calls of one answer: check, gate, ask, record, run, record, in that order for all.

Plans which calls of a batch run side by side.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from hermes.core.checkpoints import FileLoss
from hermes.core.encoding import escape_fields
from hermes.core.errors import ToolError
from hermes.core.events import ApprovalAsked, Event, Level, Notice, Refused, ToolEnded, ToolStarted
from hermes.core.messages import Provenance, Source, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.protocols import EffectJournal, Intent
from hermes.execution.base import DeniedPath
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.tools.effect_marks import EffectMarks
from hermes.tools.named_paths import FILE_CHANGES, MAX_PATH, list_targets, rename_paths
from hermes.tools.open_folders import list_written_folders
from hermes.tools.output import BATCH_CAP, PREVIEW, RESULT_CAP, spill_or_cut
from hermes.tools.permissions.gate import (
    GIT_SETTINGS,
    NO_PERSON,
    NOBODY,
    ApprovalAnswer,
    Approver,
    CallReviewer,
    PermissionDecision,
    PermissionGate,
)
from hermes.tools.permissions.prompts import ApprovalPrompter, RuntimePermissions, describe_refusal
from hermes.tools.registry import Toolbox
from hermes.tools.schema import Arguments, ArgumentsError
from hermes.tools.session import NestedCalls, ToolContext
from hermes.tools.shown_texts import list_shown_files, show_texts
from hermes.tools.taint import sources_from_provenance
from hermes.tools.tool import Parallel, PathUse, Tool, ToolOutput
from hermes.util.localizable import join_localizable
from hermes.util.text import clean_surrogates

if TYPE_CHECKING:
    from hermes.core.code_runs import CodeJournal
    from hermes.tools.permissions.call_hooks import CallHooks, CallReview


class PlannedCall(Struct, frozen=True):
    """The facts of one call that the plan needs; paths are real ones, symlinks followed."""

    parallel: Parallel
    paths: tuple[PathUse, ...] = ()


def plan_stages(calls: Sequence[PlannedCall]) -> list[list[int]]:
    """Return the indices of the calls in stages: stages run one after another, the calls of a stage side by side.

    Order is kept: a call never runs before one that is in an earlier stage. A batch with a `NEVER` call is serial as a
    whole; a `SERIAL` call is a stage of its own; a `PATHS` call that conflicts with the last begins a new one.
    """
    if any(step.parallel is Parallel.NEVER for step in calls):
        return [[index] for index in range(len(calls))]
    planned: list[list[int]] = []
    for index, step in enumerate(calls):
        last = planned[-1] if planned else []
        alone = step.parallel is Parallel.SERIAL or any(calls[other].parallel is Parallel.SERIAL for other in last)
        if not last or alone or any(_has_conflict(step, calls[other]) for other in last):
            planned.append([index])
        else:
            last.append(index)
    return planned


def _has_conflict(one: PlannedCall, other: PlannedCall) -> bool:
    return any(
        (mine.write or theirs.write) and has_path_overlap(mine.path, theirs.path)
        for mine in one.paths
        for theirs in other.paths
    )


def has_path_overlap(one: str, other: str) -> bool:
    """Return whether two real paths are the same, or one is a folder above the other."""
    return one == other or one.startswith(other.rstrip("/") + "/") or other.startswith(one.rstrip("/") + "/")


Emit = Callable[[Event], None]

MAX_PARALLEL_CALLS = 8
_LOG = logging.getLogger(__name__)
_PREVIEW_LINES = 40
_PREVIEW_CHARACTERS = 4_000
_TAIL_LINES = 12
_CHANGED_SINCE_ALLOWED = "what it would touch changed after it was allowed"
_KEPT_COPIES = N_(
    "What this command deletes was copied first, so you were not asked: /undo brings it back. This is said once."
)
_NO_COPIES = N_(
    "No copy is kept of {files}: /undo cannot bring back what the command deletes there. This is said once."
)
_MAX_NAMED_PATHS = 3
_NO_WORKAROUND = "Do not try to reach the same effect another way. Say what you wanted to do, or go on without it."
_INTERRUPTED_RUNNING = "Interrupted while it ran. Part of its effect may have happened: check before doing it again."
_INTERRUPTED_BEFORE_START = "Interrupted before it began. Nothing was done."


SLOW_SECONDS = 2.0
"""Seconds from which on a call has taken real time."""


class CallBatch:
    """The calls of one answer and their results as they come.

    The caller keeps it: when `Executor.run` is cancelled, the batch still has one result for each call.
    """

    def __init__(self, calls: Sequence[ToolCallPart]) -> None:
        self.calls = tuple(calls)
        self._results: dict[int, ToolResultPart] = {}
        self._started: set[int] = set()
        self._handed_over: set[int] = set()
        self.characters = 0
        self.failed_ids: set[str] = set()
        """Ids of the calls that ran something which reports a failure of its own."""
        self.slow_ids: set[str] = set()
        """Ids of the calls that took `SLOW_SECONDS` or more."""

    def mark_started(self, index: int) -> None:
        """Note that a call has begun to have its effect."""
        self._started.add(index)

    def hand_over(self, index: int) -> None:
        """Note that the program that asks runs this call."""
        self._handed_over.add(index)

    @property
    def has_handed_over(self) -> bool:
        """Whether the program that asks runs calls of this batch: they have no result here."""
        return bool(self._handed_over)

    def set_result(self, index: int, result: ToolResultPart) -> None:
        """Store a call's result."""
        self._results[index] = result
        self.characters += len(result.text)

    def get_result(self, index: int) -> ToolResultPart | None:
        """Return a call's result, or None."""
        return self._results.get(index)

    def collect_results(self) -> tuple[ToolResultPart, ...]:
        """Return one result for each call that runs here, in call order; a call without one was interrupted."""
        return tuple(
            self._results.get(index) or self._build_interrupted(index)
            for index in range(len(self.calls))
            if index not in self._handed_over
        )

    def _build_interrupted(self, index: int) -> ToolResultPart:
        call = self.calls[index]
        text = _INTERRUPTED_RUNNING if index in self._started else _INTERRUPTED_BEFORE_START
        return ToolResultPart(call_id=call.call_id, name=call.name, text=text, status=ToolStatus.INTERRUPTED)


class _PreparedCall(Struct):
    """A call that can run: the tool it is for, its arguments, and what it was allowed to do."""

    index: int
    call: ToolCallPart
    tool: Tool
    arguments: Arguments
    raw: str
    decision: PermissionDecision
    shown_files: tuple[str, ...] = ()
    """The files (resolved) whose text stood in the question to which a person has said yes."""
    paths: tuple[PathUse, ...] = field(default=())
    review: "CallReview | None" = None
    """What hooks have said of it, where there are any."""


class _WrittenFiles(Struct, frozen=True):
    """The files that a call may write: by the tool itself, with stamp and origin before; and by a command. `earlier`
    are the sources of text that was there before the call and may still be, in whichever of them.
    """

    own: dict[str, tuple[tuple[int, int] | None, str | None]]
    by_command: tuple[str, ...]
    earlier: Sequence[str] = ()


class _UnusableCallError(Exception):
    """A call that cannot run; the text tells the model why."""


class Executor:
    """Runs batches of calls for one session.

    Without an `approver` nobody can be asked, so what needs an answer is refused. A `reviewer` looks at what the rules
    allow, and can only ask for more. `tool_delay` is the pause in seconds between calls that run one after another.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        gate: PermissionGate,
        *,
        approver: Approver | None = None,
        reviewer: CallReviewer | None = None,
        tool_delay: float = 0.0,
        marks: EffectMarks | None = None,
        code_journal: "CodeJournal | None" = None,
    ) -> None:
        self.marks = marks
        self.hooks: CallHooks | None = None
        """What other people's code says of calls; None: nothing does."""
        self.toolbox = toolbox
        self.questions = ApprovalPrompter(gate, approver)
        self.code_journal = code_journal
        """Keeps the state of code that calls tools; without it such code does not outlive its process."""
        self._reviewer = reviewer
        self._delay = tool_delay

    async def run(
        self, batch: CallBatch, context: ToolContext, journal: EffectJournal, emit: Emit
    ) -> tuple[ToolResultPart, ...]:
        """Run the batch and return one result for each call that runs here, in call order.

        What a tool raises becomes its result. Raises what `journal` raises; when cancelled, running tools are
        cancelled and awaited first, and the batch's results are complete all the same.
        """
        context.state.uncovered.clear()
        return await self._run_batch(_BatchRun(self, batch, context, journal, emit))

    async def run_nested(
        self, outer: "_BatchRun", calls: Sequence[ToolCallPart], own: Tool | None = None
    ) -> tuple[ToolResultPart, ...]:
        """Run calls that the code of a call of `outer` makes, as a batch of their own, with results for that code."""
        state = outer.context.state
        before = dict(state.uncovered)
        state.uncovered.clear()
        try:
            nested = _BatchRun(
                self, CallBatch(calls), outer.context, outer.journal, outer.send_event, is_nested=True, own=own
            )
            return await self._run_batch(nested)
        finally:
            state.uncovered.clear()
            state.uncovered |= before

    async def _run_batch(self, round_: "_BatchRun") -> tuple[ToolResultPart, ...]:
        batch, context, journal = round_.batch, round_.context, round_.journal
        await self.toolbox.refresh_limit()
        ready: list[_PreparedCall] = []
        for index, call in enumerate(batch.calls):
            prepared = await round_.prepare_call(index, call, self._reviewer)
            if prepared is not None:
                ready.append(prepared)
        if ready:
            await journal.record_intents([_build_intent(item) for item in ready])
            plan = plan_stages([PlannedCall(parallel=item.tool.parallel, paths=item.paths) for item in ready])
            for number, stage in enumerate(plan):
                if number:
                    await journal.flush()
                if number and self._delay:
                    await context.clock.sleep(self._delay)
                await round_.run_stage([ready[position] for position in stage], first=number == 0)
        return batch.collect_results()


class _BatchRun:
    """One batch while it runs. `is_nested`: code has made its calls, with `own` as the tool of the one call where it is
    the calling tool's own.
    """

    def __init__(
        self,
        executor: Executor,
        batch: CallBatch,
        context: ToolContext,
        journal: EffectJournal,
        emit: Emit,
        *,
        is_nested: bool = False,
        own: Tool | None = None,
    ) -> None:
        self.batch = batch
        self.context = context
        self.journal = journal
        self._executor = executor
        self._toolbox = executor.toolbox
        self._questions = executor.questions
        self._gate = executor.questions.gate
        self._marks = executor.marks
        self._hooks = executor.hooks
        self.send_event = emit
        self._slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)
        self._has_asked = False
        self._is_nested = is_nested
        self._own = own

    def _emit(self, event: Event) -> None:
        self.send_event(escape_fields(event))

    async def prepare_call(self, index: int, call: ToolCallPart, reviewer: CallReviewer | None) -> _PreparedCall | None:
        """Resolve, validate and gate one call; return None when it already has its result, or runs elsewhere."""
        try:
            tool, arguments, raw, review = await self._resolve_reviewed(call)
        except _UnusableCallError as why:
            await self._close_call(index, call, call.name, str(why), ToolStatus.INVALID)
            return None
        if tool.runs_at_caller:
            self.batch.hand_over(index)
            return None

        def decide() -> PermissionDecision:
            decided = self._decide_call(tool, arguments)
            return review.narrow(decided, raw) if review is not None else decided

        decision = decide()
        if await _look_for_copies(decision, self.context):
            losses, decision = decision.losses, decide()
            self._tell_of_undo(losses, decision)
        if reviewer is not None and decision.verdict is Verdict.ALLOW:
            decision = await reviewer.review(decision, tool, arguments)
        decision = await self._review_question(call, tool, arguments, raw, decision)
        outcome = await self._questions.resolve_decision(call.call_id, tool.name, decision, decide, self._emit_question)
        self._has_asked = self._has_asked or outcome.asked
        if not outcome.allowed:
            await self._refuse_call(index, call, tool, outcome.decision, outcome.answer)
            return None
        decision = outcome.decision
        paths = tuple(
            structs.replace(use, path=self.context.resolve_real_path(use.path) or use.path)
            for use in tool.paths(arguments)
        )
        shown = list_shown_files(decision, tool, arguments, self.context) if outcome.asked else ()
        return _PreparedCall(index, call, tool, arguments, raw, decision, shown, paths, review)

    async def _resolve_reviewed(self, call: ToolCallPart) -> "tuple[Tool, Arguments, str, CallReview | None]":
        """Return the tool and arguments of a call as hooks leave them, and what hooks say of it.

        Raises `_UnusableCallError`.
        """
        tool, arguments, raw = await self._resolve_when_ready(call)
        if self._hooks is None or tool.runs_at_caller:
            return tool, arguments, raw, None
        from hermes.tools.permissions.call_hooks import build_hooked_call

        review = await self._hooks.review_call(build_hooked_call(call, tool, arguments, raw))
        if review.arguments is not None:
            arguments, raw = _decode_changed(tool, review.arguments), review.arguments
        return tool, arguments, raw, review

    async def _review_question(
        self, call: ToolCallPart, tool: Tool, arguments: Arguments, raw: str, decision: PermissionDecision
    ) -> PermissionDecision:
        """Return the decision; a question is a refusal where hooks want that."""
        if self._hooks is None or decision.verdict is not Verdict.ASK:
            return decision
        from hermes.tools.permissions.call_hooks import build_hooked_call, refuse_decision

        hooked = build_hooked_call(call, tool, arguments, raw)
        return refuse_decision(decision, await self._hooks.review_question(hooked, decision))

    def _decide_call(self, tool: Tool, arguments: Arguments) -> PermissionDecision:
        """Return what the gate decides, its reason with paths as commands and people name them."""
        decision = self._gate.decide_call(tool, arguments, self.context)
        if decision.verdict is Verdict.ASK:
            decision = show_texts(decision, tool, arguments, self.context)
        if not decision.reason:
            return decision
        return structs.replace(decision, reason=rename_paths(decision.reason, self.context.backend.to_command_path))

    def _emit_question(self, event: Event) -> None:
        """Emit what a question is told by; its folder is named as commands name it."""
        if isinstance(event, ApprovalAsked):
            event = structs.replace(event, cwd=self.context.backend.to_command_path(event.cwd))
        self._emit(event)

    def _tell_of_undo(self, losses: Sequence[FileLoss], decision: PermissionDecision) -> None:
        """Say once a session that something is deleted without a question, since copies are kept, and once that none
        is kept of what can be made again.
        """
        state = self.context.state
        if not losses or decision.verdict is not Verdict.ALLOW:
            return
        met = dict.fromkeys(state.uncovered.get(_with_everything(one), one.path) for one in losses)
        uncovered = [self.context.backend.to_command_path(one) for one in met if one]
        if uncovered and not state.has_told_of_no_copy:
            state.has_told_of_no_copy = True
            self._emit(Notice(Level.INFO, _NO_COPIES.format(files=", ".join(uncovered[:_MAX_NAMED_PATHS]))))
        elif not uncovered and not state.has_told_of_undo:
            state.has_told_of_undo = True
            self._emit(Notice(Level.INFO, _KEPT_COPIES))

    async def run_stage(self, items: Sequence[_PreparedCall], *, first: bool) -> None:
        """Run calls side by side, eight at once, and wait for all."""
        recheck = not first or self._has_asked
        if len(items) == 1:
            await self._run_call(items[0], recheck=recheck)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for item in items:
                    group.create_task(self._run_call(item, recheck=recheck), name=f"tool {item.tool.name}")
        except BaseExceptionGroup as failures:
            # Only the journal raises out of a call; the first failure stands for all.
            raise failures.exceptions[0] from None

    async def _run_call(self, item: _PreparedCall, *, recheck: bool) -> None:
        async with self._slots:
            # What was decided before other calls ran, or while a person thought, is decided again on what is there now.
            if recheck and self._has_changed(item):
                decision = structs.replace(item.decision, reason=_CHANGED_SINCE_ALLOWED)
                await self._refuse_call(item.index, item.call, item.tool, decision, None)
                return
            written = await self._save_before_change(item)
            started = self.context.clock.monotonic()
            self.batch.mark_started(item.index)
            noted = self._record_writes(item, await _list_sources_before(item, self.context))
            if self._marks is not None:
                await self._marks.begin_call(self.context, anything=_changes_anything(item))
            self._emit(ToolStarted(item.call.call_id, item.tool.name, item.raw, item.tool.format_line(item.arguments)))
            try:
                output = await self._run_tool(item)
            except asyncio.CancelledError:
                self._emit_ended(item, ToolOutput(text="", status=ToolStatus.INTERRUPTED), started)
                raise
            output = await self._add_provenance(item, output, noted.earlier)
            output, said = await self._finish_call(item, output, started)
            result = self._build_result(item, output, output.provenance)
            _record_outcome(noted, result, self.context.state.written_files)
            result = await self._mark_effects(item, noted, result, output.opened_paths)
            if said is not None and not self._is_nested:  # code that made the call gets the result alone
                result = said.add_to(result)
            ran = _changes_anything(item)
            if (written or ran) and self.context.safeguard is not None:
                await self.context.safeguard.record_after(written, ran=ran)
            if output.failed:
                self.batch.failed_ids.add(item.call.call_id)
            if self.context.clock.monotonic() - started >= SLOW_SECONDS:
                self.batch.slow_ids.add(item.call.call_id)
            self.batch.set_result(item.index, result)
            await self.journal.record_result(result)
            self._emit_ended(item, output, started)

    async def _finish_call(
        self, item: _PreparedCall, output: ToolOutput, started: float
    ) -> "tuple[ToolOutput, CallReview | None]":
        """Return the output of a call as hooks leave it, and what they have said of it before and now."""
        if self._hooks is None or item.review is None:
            return output, None
        from hermes.tools.permissions.call_hooks import build_hooked_call

        hooked = build_hooked_call(item.call, item.tool, item.arguments, item.raw)
        output, after = await self._hooks.finish_call(hooked, output, self.context.clock.monotonic() - started)
        return output, item.review.join(after)

    async def _save_before_change(self, item: _PreparedCall) -> list[str]:
        """Have the files that the call may change saved first; return those that it writes itself."""
        safeguard, context = self.context.safeguard, self.context
        if safeguard is None:
            return []
        written = [context.resolve_path(use.path) for use in item.tool.paths(item.arguments) if use.write]
        # What processes in the background change is marked from here on, if untrusted content is there by now.
        goes_on = context.state.started_processes is not None and bool(context.state.taint.list_sources())
        anything = _changes_anything(item) or goes_on
        if written or anything:
            named: list[str] = []
            if anything and item.decision.effects:
                from hermes.tools.permissions.changed_files import find_changed_files  # loaded with the first command

                named = await asyncio.to_thread(find_changed_files, item.decision, context)
            await safeguard.save_before([*written, *named], anything=anything, folders=item.decision.folders)
        return written

    async def _run_tool(self, item: _PreparedCall) -> ToolOutput:
        """Run the tool. This is the one place where what a tool raises is turned into its result."""
        try:
            return await item.tool.run(self._build_call_context(item), item.arguments)
        except ToolError as error:
            return ToolOutput(text=str(error), status=ToolStatus.ERROR, is_own_text=not error.quotes)
        except Exception as error:  # noqa: BLE001 - a tool's own fault must not end the turn; it is logged and told
            _LOG.exception("tool %s failed", item.tool.name)
            kind = type(error).__name__
            return ToolOutput(
                text=f"The tool failed with an internal error ({kind}: {error}).", status=ToolStatus.ERROR
            )

    async def _resolve_when_ready(self, call: ToolCallPart) -> tuple[Tool, Arguments, str]:
        """Return the tool and arguments of a call; wait for a tool that is still to come.

        Raises `_UnusableCallError`.
        """
        try:
            return self._resolve_call(call.name, call.arguments)
        except _UnusableCallError as why:
            missing = await self._toolbox.wait_for_tools()
            try:
                return self._resolve_call(call.name, call.arguments)
            except _UnusableCallError:
                raise _UnusableCallError(f"{why} {missing}".rstrip()) from None

    def _resolve_call(self, name: str, raw: str) -> tuple[Tool, Arguments, str]:
        """Return the tool and arguments that a call stands for, through any redirect.

        Raises `_UnusableCallError`.
        """
        tool = self._own or self._toolbox.find(name)
        if tool is None:
            raise _UnusableCallError(f"There is no tool {name[:80]!r}. {self._toolbox.suggest_tool(name)}")
        try:
            arguments = tool.parameters.decode(raw)
        except ArgumentsError as error:
            raise _UnusableCallError(f"{name}: {error}") from None
        if tool.redirect is None:
            if self._is_nested:
                from hermes.tools.code.nested_calls import explain_exclusion

                if why := explain_exclusion(tool):
                    raise _UnusableCallError(why)
            return tool, arguments, raw
        target = tool.redirect(arguments)
        if target.name == name:
            raise _UnusableCallError(f"{name} cannot call itself. Name the tool that you mean.")
        found = self._resolve_call(target.name, target.arguments)
        if found[0].runs_at_caller:  # the program that asks knows its tools by their own names only
            raise _UnusableCallError(f"Call {target.name} itself, not by {name}.")
        return found

    async def _refuse_call(
        self, index: int, call: ToolCallPart, tool: Tool, decision: PermissionDecision, answer: ApprovalAnswer | None
    ) -> None:
        reason = decision.reason
        pattern = note = ""
        if answer is not None:
            reason = join_localizable(", and ", (reason, describe_refusal(answer)))
            pattern = decision.pattern if answer.by == NOBODY else ""
            note = f" {answer.note}" if answer.note else ""
            if decision.lasting_refusals and answer.by not in NO_PERSON:
                note += f" That holds for this session: {', '.join(decision.lasting_refusals)}."
        self._emit(Refused(call.call_id, tool.name, decision.subject, reason, pattern))
        text = f"Not allowed: {reason}.{note} Nothing was done. {_NO_WORKAROUND}"
        await self._close_call(index, call, tool.name, text, ToolStatus.REFUSED)

    async def _close_call(self, index: int, call: ToolCallPart, name: str, text: str, status: ToolStatus) -> None:
        """Give its result to a call that does not run."""
        result = ToolResultPart(call_id=call.call_id, name=call.name, text=clean_surrogates(text), status=status)
        self.batch.set_result(index, result)
        self._emit(ToolEnded(call.call_id, name, status, 0.0, _preview_text(text)))

    def _has_changed(self, item: _PreparedCall) -> bool:
        now = self._decide_call(item.tool, item.arguments)
        return now.verdict is not Verdict.ALLOW and now != item.decision

    def _build_call_context(self, item: _PreparedCall) -> ToolContext:
        call_id, name = item.call.call_id, item.tool.name
        permissions = RuntimePermissions(
            call_id,
            name,
            self._questions,
            self.context,
            self._emit,
            allowed=item.decision,
            decide=partial(self._decide_call, item.tool, item.arguments),
        )
        effects = item.decision.effects
        return structs.replace(
            self.context,
            call_id=call_id,
            offline=item.decision.offline,
            permissions=permissions,
            confirm_call=partial(permissions.confirm_call, self._emit_question),
            opened=item.decision.opened,
            allowed_writes=tuple(
                one for effect in effects if effect.kind is EffectKind.WRITES for one in effect.targets
            ),
            run_files=tuple(one for effect in effects if effect.kind is EffectKind.RUNS for one in effect.targets),
            git_settings=tuple(one for effect in effects if effect.argv == GIT_SETTINGS for one in effect.targets),
            nested_calls=_make_nested_calls(self._executor, self, call_id) if item.tool.calls_tools else None,
        )

    def _record_writes(self, item: _PreparedCall, earlier: Sequence[str]) -> "_WrittenFiles":
        """Record what the call writes, and whose text was in the conversation, or there already, when it did."""
        state = self.context.state
        state.moved_paths.update(item.decision.moved)
        written = [use.path for use in item.paths if use.write]
        own = {path: (_stamp_file(path), state.written_files.get(path)) for path in written}
        named = _list_known_targets(item.decision, EffectKind.WRITES, EffectKind.OVERWRITES)
        by_command = tuple(self.context.resolve_real_path(one) or one for one in named if one not in own)
        if own or by_command:
            sources = state.taint.list_sources()
            kept = (*(use.path for use in item.paths if use.keeps_text), *by_command)
            state.written_files |= dict.fromkeys(own, "\n".join(sources))
            state.written_files |= dict.fromkeys(kept, "\n".join(dict.fromkeys((*sources, *earlier))))
        return _WrittenFiles(own, by_command, earlier)

    async def _mark_effects(
        self, item: _PreparedCall, written: "_WrittenFiles", result: ToolResultPart, opened: Sequence[DeniedPath]
    ) -> ToolResultPart:
        """Mark what the call has changed, and look again at what still runs; add to the result what there is to say."""
        context, wrote = self.context, self.context.state.written_files
        lines: list[str] = []
        if self._marks is not None:
            named = [path for path in (*written.own, *written.by_command) if wrote.get(path)]
            approved = _list_approved(item, written)
            origin = result.provenance
            reached = sources_from_provenance(origin) if origin is not None and origin.is_untrusted else ()
            sources = tuple(dict.fromkeys((*context.state.taint.list_sources(), *reached)))
            lines += await self._marks.end_call(
                context, sources, named, approved, anything=_changes_anything(item), opened=opened
            )
        for line in lines:
            self._emit(Notice(Level.WARNING, line))
        if context.backend_handle.backend is not None:
            lines += await context.backend_handle.backend.look_again()
        return structs.replace(result, text="\n".join((result.text, *(f"[{one}]" for one in lines))))

    def _find_provenance(self, item: _PreparedCall, output: ToolOutput, earlier: Sequence[str]) -> Provenance | None:
        """Return the provenance of a result; `earlier` are the sources of what the call found and changed."""
        said = output.provenance
        runs = item.tool.polls or bool(item.tool.command(item.arguments))
        if (output.is_own_text and not runs) or (said is not None and said.source is not Source.FILE):
            return said
        paths = [use.path for use in item.paths if not use.write]
        from hermes.tools.result_provenance import find_provenance, list_program_places

        cwd = item.decision.cwd or str(self.context.state.cwd)
        paths += list_program_places(self.context, cwd, output.opened_paths) if runs else ()
        # What came to a process in the background may come out of any command, and out of its files.
        seen_hosts = _find_contacted_hosts(item, output, self.context)
        effects = item.decision.effects
        found = find_provenance(effects, paths, self.context, seen_hosts, runs=runs, earlier=earlier)
        return found or (said and structs.replace(said, vouched=True))

    async def _add_provenance(self, item: _PreparedCall, output: ToolOutput, earlier: Sequence[str]) -> ToolOutput:
        """Return the output with its provenance, also of what hooks make of it; marked files are read in a thread."""
        if self.context.taint_marks.is_empty:
            return structs.replace(output, provenance=self._find_provenance(item, output, earlier))
        found = await asyncio.to_thread(self._find_provenance, item, output, earlier)
        return structs.replace(output, provenance=found)

    def _build_result(self, item: _PreparedCall, output: ToolOutput, provenance: Provenance | None) -> ToolResultPart:
        text = self.context.redact(clean_surrogates(output.text))
        crowded = len(text) > 2 * PREVIEW and self.batch.characters + len(text) > BATCH_CAP
        limit = item.tool.cap or self.context.limits.result_characters
        # Code gets more than a model is shown, and the text itself: a fence would be in the way of its work.
        if crowded or len(text) > (RESULT_CAP if self._is_nested else min(limit, RESULT_CAP)):
            text = spill_or_cut(text, self.context.spill_folder, item.call.call_id)
        if provenance is not None and provenance.is_untrusted and not self._is_nested:
            from hermes.safety.fencing import fence_untrusted_text

            text = fence_untrusted_text(text, provenance)
        return ToolResultPart(
            call_id=item.call.call_id,
            name=item.call.name,
            text=text,
            status=output.status,
            images=output.images,
            provenance=provenance,
        )

    def _emit_ended(self, item: _PreparedCall, output: ToolOutput, started: float) -> None:
        seconds = self.context.clock.monotonic() - started
        text = _preview_text(clean_surrogates(output.text[:_PREVIEW_CHARACTERS]))
        lines = output.text.count("\n") + (not output.text.endswith("\n"))
        tail = _tail_text(output.text) if len(text.rstrip()) < len(output.text.rstrip()) else ""
        call_id, name = item.call.call_id, item.tool.name
        self._emit(ToolEnded(call_id, name, output.status, seconds, text, output.failed, output.code, lines, tail))


def _make_nested_calls(executor: Executor, round_: _BatchRun, call_id: str) -> NestedCalls:
    from hermes.tools.code.nested_calls import NestedCallRunner  # loaded with the first code that is run

    taint, run_batch = round_.context.state.taint, partial(executor.run_nested, round_)
    return NestedCallRunner(call_id, executor.toolbox, taint, run_batch, executor.code_journal)


async def _look_for_copies(decision: PermissionDecision, context: ToolContext) -> bool:
    """Find out of what a call may lose or change no copy is kept; return whether that may change the decision."""
    losses = decision.losses if decision.verdict is Verdict.ASK else ()
    folders = decision.folders if decision.verdict is not Verdict.DENY else ()
    if context.safeguard is None or not context.keeps_copies or not (losses or folders):
        return False
    unlisted = [FileLoss(one, unlisted=True) for one in folders]
    asked = [*losses, *unlisted]
    found = await context.safeguard.find_uncovered([*asked, *map(_with_everything, losses)], folders)
    context.state.uncovered |= found
    return bool(losses) or any(found[one] for one in asked)


def _decode_changed(tool: Tool, raw: str) -> Arguments:
    """Return the arguments that hooks have put in the place of a call's. Raises `_UnusableCallError`."""
    try:
        return tool.parameters.decode(raw)
    except ArgumentsError as error:
        raise _UnusableCallError(f"{tool.name}: a hook changed the arguments, and they do not fit: {error}") from None


def _record_outcome(written: _WrittenFiles, result: ToolResultPart, wrote: dict[str, str]) -> None:
    """Correct the record of writes after the call.

    What a tool left as it was it has not written; what a command wrote also comes from what reached it.
    """
    for path, (stamp, before) in written.own.items():
        if stamp == _stamp_file(path) and not os.path.isdir(path):
            if before is None:
                wrote.pop(path, None)
            else:
                wrote[path] = before
    origin = result.provenance
    if origin is not None and origin.is_untrusted:
        for path in written.by_command:
            known = filter(None, wrote.get(path, "").split("\n"))
            wrote[path] = "\n".join(dict.fromkeys([*known, *sources_from_provenance(origin)]))


def _find_contacted_hosts(item: _PreparedCall, output: ToolOutput, context: ToolContext) -> frozenset[str] | None:
    """Return the hosts that something came from, or None for those that the call names."""
    cut_off = item.decision.offline and context.backend.contained
    return frozenset() if cut_off else output.contacted_hosts


def _with_everything(loss: FileLoss) -> FileLoss:
    """Return a loss for which all counts that lies there, also what is not asked about since it can be made again."""
    return structs.replace(loss, ignored=True, history=True, builds=True)


def _changes_anything(item: _PreparedCall) -> bool:
    """Return whether a call may change files that it does not name."""
    runs = bool(item.tool.command(item.arguments)) and not item.decision.is_read_only
    return runs or item.tool.changes_files


def _list_approved(item: _PreparedCall, written: _WrittenFiles) -> list[str]:
    """Return the files that a person has allowed by their names, and whose whole text a question has shown: nothing of
    what was in a file before, and not what a command will come by.
    """
    is_known = not written.earlier and not item.tool.command(item.arguments)
    allowed = [one for effect in item.decision.effects for one in effect.targets] if is_known else []
    return [one for one in allowed if one in item.shown_files]


async def _list_sources_before(item: _PreparedCall, context: ToolContext) -> Sequence[str]:
    """Return the sources of text that a call may keep where it writes; marked files are read for it, in a thread."""
    kept = [use.path for use in item.paths if use.keeps_text]
    marks = context.taint_marks
    runs = not marks.is_empty and bool(item.tool.command(item.arguments))
    if not kept and not runs:
        return ()
    from hermes.tools.result_provenance import list_program_places, list_sources_before

    changed: list[str] = []
    if runs:
        opened = (*item.decision.opened, *context.backend.list_opened())
        changed += list_program_places(context, item.decision.cwd or str(context.state.cwd), opened)
        changed += list_written_folders(context)
        known = _list_known_targets(item.decision, *FILE_CHANGES)
        changed += (context.resolve_real_path(one) or one for one in known)
    if runs or any(map(marks.get_known_sources, kept)):
        return await asyncio.to_thread(list_sources_before, kept, changed, context)
    return list_sources_before(kept, changed, context)


def _list_known_targets(decision: PermissionDecision, *kinds: EffectKind) -> list[str]:
    """Return the absolute paths of what a command is known to have such an effect on."""
    targets = list_targets(decision.effects, *kinds)
    return sorted(one for one in targets if one[:1] == "/" and len(one) <= MAX_PATH)  # the kernel knows no longer ones


def _stamp_file(path: str) -> tuple[int, int] | None:
    """Return a stamp of the file and its state that no program can set, or None when there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_ctime_ns


def _preview_text(text: str) -> str:
    """Return the first lines of a result, for the person."""
    return "\n".join(text[:_PREVIEW_CHARACTERS].splitlines()[:_PREVIEW_LINES])


def _tail_text(text: str) -> str:
    """Return the last lines of a result, whole ones, for the person."""
    end = clean_surrogates(text[-_PREVIEW_CHARACTERS:]).splitlines()
    return "\n".join(end[len(text) > _PREVIEW_CHARACTERS :][-_TAIL_LINES:])


def _build_intent(item: _PreparedCall) -> Intent:
    return Intent(call_id=item.call.call_id, tool=item.tool.name, arguments=item.raw, repeatable=item.tool.repeatable)
