"""Runs the calls of one answer: check, gate, ask, write down, run, write down, in that order for all."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

from msgspec import Struct, field, structs

from hermes.core.errors import ToolError
from hermes.core.events import Event, Refused, ToolEnded, ToolStarted
from hermes.core.parts import Provenance, Source, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.protocols import EffectJournal, Intent
from hermes.safety.paths import is_or_below
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.tools.permissions.gate import GIT_SETTINGS, NO_PERSON, NOBODY, Answer, Approver, Decision, Gate, Reviewer
from hermes.tools.permissions.prompts import CallDoor, Questions, because
from hermes.tools.plan import Step, stages
from hermes.tools.registry import Toolbox
from hermes.tools.schema import Arguments, ArgumentsError
from hermes.tools.session import ToolContext
from hermes.tools.spill import BATCH_CAP, PREVIEW, RESULT_CAP, spill
from hermes.tools.taint import sources_of
from hermes.tools.tool import PathUse, Tool, ToolOutput
from hermes.util.text import clean_surrogates

Emit = Callable[[Event], None]

AT_ONCE = 8
_LOG = logging.getLogger(__name__)
_PREVIEW_LINES = 16
_PREVIEW_CHARACTERS = 2_000
_MEANWHILE = "what it would touch changed after it was allowed"
_NOT_AROUND = "Do not try to reach the same effect another way. Say what you wanted to do, or go on without it."
_CUT_SHORT = "Interrupted while it ran. Part of its effect may have happened: check before doing it again."
_NOT_BEGUN = "Interrupted before it began. Nothing was done."


class Batch:
    """The calls of one answer and their results as they come.

    The caller keeps it: when `Executor.run` is cancelled, `results()` still holds one result for each call.
    """

    def __init__(self, calls: Sequence[ToolCallPart]) -> None:
        self.calls = tuple(calls)
        self._results: dict[int, ToolResultPart] = {}
        self._begun: set[int] = set()
        self.characters = 0
        self.failed: set[str] = set()
        """Ids of the calls that ran something which says itself that it failed."""

    def begin(self, index: int) -> None:
        """Note that a call has begun to have its effect."""
        self._begun.add(index)

    def finish(self, index: int, result: ToolResultPart) -> None:
        """Keep a call's result."""
        self._results[index] = result
        self.characters += len(result.text)

    def result(self, index: int) -> ToolResultPart | None:
        """A call's result, if it has one."""
        return self._results.get(index)

    def results(self) -> tuple[ToolResultPart, ...]:
        """One result for each call, in call order; a call without one was interrupted."""
        return tuple(self._results.get(index) or self._interrupted(index) for index in range(len(self.calls)))

    def _interrupted(self, index: int) -> ToolResultPart:
        call = self.calls[index]
        text = _CUT_SHORT if index in self._begun else _NOT_BEGUN
        return ToolResultPart(call_id=call.call_id, name=call.name, text=text, status=ToolStatus.INTERRUPTED)


class _Prepared(Struct):
    """A call that can run: the tool it is for, its arguments, and what it was allowed to do."""

    index: int
    call: ToolCallPart
    tool: Tool
    arguments: Arguments
    raw: str
    decision: Decision
    paths: tuple[PathUse, ...] = field(default=())


class _Written(Struct, frozen=True):
    """What a call may write: by the tool itself, as it was before and was noted before; and by a command."""

    own: dict[str, tuple[tuple[int, int] | None, str | None]]
    by_command: tuple[str, ...]


class _UnusableError(Exception):
    """A call that cannot run; the text tells the model why."""


class Executor:
    """Runs batches of calls for one session.

    Without an `approver` nobody can be asked, so what needs an answer is refused. A `reviewer` looks at what the rules
    allow, and can only ask for more. `tool_delay` is the pause in seconds between calls that run one after another.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        *,
        approver: Approver | None = None,
        reviewer: Reviewer | None = None,
        tool_delay: float = 0.0,
    ) -> None:
        self._toolbox = toolbox
        self._questions = Questions(gate, approver)
        self._reviewer = reviewer
        self._delay = tool_delay

    async def run(
        self, batch: Batch, context: ToolContext, journal: EffectJournal, emit: Emit
    ) -> tuple[ToolResultPart, ...]:
        """Run the batch; one result for each call, in call order.

        What a tool raises becomes its result. Raises what `journal` raises; when cancelled, running tools are cancelled
        and awaited first, and `batch.results()` is complete all the same.
        """
        round_ = _Round(self._toolbox, self._questions, batch, context, journal, emit)
        ready: list[_Prepared] = []
        for index, call in enumerate(batch.calls):
            prepared = await round_.prepare(index, call, self._reviewer)
            if prepared is not None:
                ready.append(prepared)
        if ready:
            await journal.intend([_intent(item) for item in ready])
            plan = stages([Step(parallel=item.tool.parallel, paths=item.paths) for item in ready])
            for number, stage in enumerate(plan):
                if number and self._delay:
                    await context.clock.sleep(self._delay)
                await round_.stage([ready[position] for position in stage], first=number == 0)
        return batch.results()


class _Round:
    """One batch under way."""

    def __init__(
        self,
        toolbox: Toolbox,
        questions: Questions,
        batch: Batch,
        context: ToolContext,
        journal: EffectJournal,
        emit: Emit,
    ) -> None:
        self._toolbox = toolbox
        self._gate = questions.gate
        self._questions = questions
        self._batch = batch
        self._context = context
        self._journal = journal
        self._emit = emit
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._asked = False

    async def prepare(self, index: int, call: ToolCallPart, reviewer: Reviewer | None) -> _Prepared | None:
        """Resolve, validate and gate one call; None when it already has its result."""
        try:
            tool, arguments, raw = await self._found(call)
        except _UnusableError as why:
            await self._close(index, call, call.name, str(why), ToolStatus.INVALID)
            return None

        def decide() -> Decision:
            return self._gate.decide(tool, arguments, self._context)

        decision = decide()
        if reviewer is not None and decision.verdict is Verdict.ALLOW:
            decision = await reviewer.review(decision, tool, arguments)
        leave = await self._questions.settle(call.call_id, tool.name, decision, decide, self._emit)
        self._asked = self._asked or leave.asked
        if not leave.given:
            await self._refuse(index, call, tool, leave.decision, leave.answer)
            return None
        decision = leave.decision
        paths = tuple(PathUse(self._context.real(use.path) or use.path, use.write) for use in tool.paths(arguments))
        return _Prepared(index, call, tool, arguments, raw, decision, paths)

    async def stage(self, items: Sequence[_Prepared], *, first: bool) -> None:
        """Run calls side by side, eight at once, and wait for all."""
        recheck = not first or self._asked
        if len(items) == 1:
            await self._one(items[0], recheck=recheck)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for item in items:
                    group.create_task(self._one(item, recheck=recheck), name=f"tool {item.tool.name}")
        except BaseExceptionGroup as failures:
            # Only the journal raises out of a call; the first failure stands for all.
            raise failures.exceptions[0] from None

    async def _one(self, item: _Prepared, *, recheck: bool) -> None:
        async with self._slots:
            # What was decided before other calls ran, or while a person thought, is decided again on what is there now.
            if recheck and self._changed(item):
                decision = structs.replace(item.decision, reason=_MEANWHILE)
                await self._refuse(item.index, item.call, item.tool, decision, None)
                return
            written = await self._safeguarded(item)
            started = self._context.clock.monotonic()
            self._batch.begin(item.index)
            noted = self._note_written(item)
            self._emit(ToolStarted(item.call.call_id, item.tool.name, item.raw, item.tool.line(item.arguments)))
            try:
                output = await self._output(item)
            except asyncio.CancelledError:
                self._ended(item, ToolOutput(text="", status=ToolStatus.INTERRUPTED), started)
                raise
            result = self._result(item, output)
            self._note_outcome(noted, result)
            if written and self._context.safeguard is not None:
                await self._context.safeguard.after(written)
            if output.failed:
                self._batch.failed.add(item.call.call_id)
            self._batch.finish(item.index, result)
            await self._journal.done(result)
            self._ended(item, output, started)

    async def _safeguarded(self, item: _Prepared) -> list[str]:
        """Have what the call may change kept first; the files that it writes itself."""
        safeguard, context = self._context.safeguard, self._context
        if safeguard is None:
            return []
        written = [str(context.resolve(use.path)) for use in item.tool.paths(item.arguments) if use.write]
        anything = bool(item.tool.command(item.arguments)) and not item.decision.looks
        if written or anything:
            named = _files_changed(item.decision, context) if anything else []
            await safeguard.before([*written, *named], anything=anything)
        return written

    async def _output(self, item: _Prepared) -> ToolOutput:
        """Run the tool. This is the one place where what a tool raises is turned into its result."""
        try:
            return await item.tool.run(self._for_call(item), item.arguments)
        except ToolError as error:
            return ToolOutput(text=str(error), status=ToolStatus.ERROR, ours=not error.quotes)
        except Exception as error:  # noqa: BLE001 - a tool's own fault must not end the turn; it is logged and told
            _LOG.exception("tool %s failed", item.tool.name)
            kind = type(error).__name__
            return ToolOutput(
                text=f"The tool failed by an error of its own ({kind}: {error}).", status=ToolStatus.ERROR
            )

    async def _found(self, call: ToolCallPart) -> tuple[Tool, Arguments, str]:
        """What a call stands for; a tool that is still to come is waited for. Raises `_UnusableError`."""
        try:
            return self._resolve(call.name, call.arguments)
        except _UnusableError as why:
            missing = await self._toolbox.settled()
            try:
                return self._resolve(call.name, call.arguments)
            except _UnusableError:
                raise _UnusableError(f"{why} {missing}".rstrip()) from None

    def _resolve(self, name: str, raw: str) -> tuple[Tool, Arguments, str]:
        """The tool and arguments a call stands for, through any redirect. Raises `_UnusableError`."""
        tool = self._toolbox.find(name)
        if tool is None:
            raise _UnusableError(f"There is no tool {name[:80]!r}. {self._toolbox.hint(name)}")
        try:
            arguments = tool.parameters.decode(raw)
        except ArgumentsError as error:
            raise _UnusableError(f"{name}: {error}") from None
        if tool.redirect is None:
            return tool, arguments, raw
        target = tool.redirect(arguments)
        if target.name == name:
            raise _UnusableError(f"{name} cannot call itself. Name the tool that you mean.")
        return self._resolve(target.name, target.arguments)

    async def _refuse(
        self, index: int, call: ToolCallPart, tool: Tool, decision: Decision, answer: Answer | None
    ) -> None:
        reason = decision.reason
        pattern = note = ""
        if answer is not None:
            reason = f"{reason}, and {because(answer)}"
            pattern = decision.pattern if answer.by == NOBODY else ""
            note = f" {answer.note}" if answer.note else ""
            if decision.sticks and answer.by not in NO_PERSON:
                note += f" That holds for this session: {', '.join(decision.sticks)}."
        self._emit(Refused(call.call_id, tool.name, decision.subject, reason, pattern))
        text = f"Not allowed: {reason}.{note} Nothing was done. {_NOT_AROUND}"
        await self._close(index, call, tool.name, text, ToolStatus.REFUSED)

    async def _close(self, index: int, call: ToolCallPart, name: str, text: str, status: ToolStatus) -> None:
        """Give a call that does not run its result."""
        result = ToolResultPart(call_id=call.call_id, name=call.name, text=clean_surrogates(text), status=status)
        self._batch.finish(index, result)
        self._emit(ToolEnded(call.call_id, name, status, 0.0, _beginning(text)))

    def _changed(self, item: _Prepared) -> bool:
        now = self._gate.decide(item.tool, item.arguments, self._context)
        return now.verdict is not Verdict.ALLOW and now != item.decision

    def _for_call(self, item: _Prepared) -> ToolContext:
        call_id, name = item.call.call_id, item.tool.name
        door = CallDoor(call_id, name, self._questions, self._context, self._emit)
        effects = item.decision.effects
        return structs.replace(
            self._context,
            call_id=call_id,
            offline=item.decision.offline,
            door=door,
            cleared=tuple(one for effect in effects if effect.kind is EffectKind.WRITES for one in effect.targets),
            settings=tuple(one for effect in effects if effect.argv == GIT_SETTINGS for one in effect.targets),
        )

    def _note_written(self, item: _Prepared) -> "_Written":
        """Keep in mind what the call writes, and whose text stood in the conversation when it did."""
        state = self._context.state
        written = [use.path for use in item.paths if use.write]
        own = {path: (_stamp(path), state.wrote.get(path)) for path in written}
        for effect in item.decision.effects:
            if effect.kind in (EffectKind.WRITES, EffectKind.OVERWRITES):
                written += [
                    os.path.realpath(self._context.backend.outside(target))
                    for target in effect.targets
                    if target[:1] == "/"
                ]
        if written:
            state.wrote |= dict.fromkeys(written, "\n".join(state.taint.sources()))
        return _Written(own, tuple(one for one in written if one not in own))

    def _note_outcome(self, written: "_Written", result: ToolResultPart) -> None:
        """What a tool left as it was it has not written; what a command wrote is of what came to it, too."""
        wrote = self._context.state.wrote
        for path, (stamp, before) in written.own.items():
            if stamp == _stamp(path) and not os.path.isdir(path):
                if before is None:
                    wrote.pop(path, None)
                else:
                    wrote[path] = before
        origin = result.provenance
        if origin is not None and origin.untrusted:
            for path in written.by_command:
                known = filter(None, wrote.get(path, "").split("\n"))
                wrote[path] = "\n".join(dict.fromkeys([*known, *sources_of(origin)]))
        for path in (*written.own, *written.by_command):
            if sources := wrote.get(path):
                self._context.marked.note(path, sources.split("\n"))

    def _origin(self, item: _Prepared, output: ToolOutput) -> Provenance | None:
        """Whose text a result is."""
        said = output.provenance
        runs = item.tool.polls or bool(item.tool.command(item.arguments))
        if (output.ours and not runs) or (said is not None and said.source is not Source.FILE):
            return said
        paths = [use.path for use in item.paths if not use.write]
        if runs:  # what a program prints may be of any file: of its folder's, or the workspace's
            folder = item.decision.cwd or str(self._context.state.cwd)
            paths += [os.path.realpath(folder), os.path.realpath(self._context.places.workspace)]
        from hermes.tools.permissions.evaluate import origin

        # What came to a process in the background may come out of any command, and out of its files.
        heard = self._reached(item, output)
        found = origin(item.decision.effects, paths, self._context, heard, runs=runs)
        return found or (said and structs.replace(said, vouched=True))

    def _reached(self, item: _Prepared, output: ToolOutput) -> frozenset[str] | None:
        """The hosts that something came from; None: those that the call names."""
        cut_off = item.decision.offline and self._context.backend.contained
        return frozenset() if cut_off else output.reached

    def _result(self, item: _Prepared, output: ToolOutput) -> ToolResultPart:
        text = self._context.redact(clean_surrogates(output.text))
        provenance = self._origin(item, output)
        crowded = len(text) > 2 * PREVIEW and self._batch.characters + len(text) > BATCH_CAP
        if crowded or len(text) > min(item.tool.cap or self._context.limits.result_characters, RESULT_CAP):
            text = self._spilled(text, item.call.call_id)
        if provenance is not None and provenance.untrusted:
            from hermes.safety.fencing import fence

            text = fence(text, provenance)
        return ToolResultPart(
            call_id=item.call.call_id,
            name=item.call.name,
            text=text,
            status=output.status,
            images=output.images,
            provenance=provenance,
        )

    def _spilled(self, text: str, call_id: str) -> str:
        try:
            return spill(text, self._context.spill, call_id)
        except OSError as error:
            return f"{text[: RESULT_CAP // 4]}\n\n[The rest of {len(text)} characters is lost: {error}.]"

    def _ended(self, item: _Prepared, output: ToolOutput, started: float) -> None:
        seconds = self._context.clock.monotonic() - started
        text = _beginning(clean_surrogates(output.text[:_PREVIEW_CHARACTERS]))
        call_id, name = item.call.call_id, item.tool.name
        self._emit(ToolEnded(call_id, name, output.status, seconds, text, output.failed, output.code))


def _files_changed(decision: Decision, context: ToolContext) -> list[str]:
    """The files out of the workspace that a command is known to change."""
    kinds = (EffectKind.WRITES, EffectKind.OVERWRITES, EffectKind.DELETES)
    targets = {one for effect in decision.effects if effect.kind in kinds for one in effect.targets if one[:1] == "/"}
    outside = (context.backend.outside(one) for one in targets if not is_or_below(one, context.places.workspace))
    return sorted(one for one in outside if not os.path.isdir(one) and "*" not in one)


def _stamp(path: str) -> tuple[int, int] | None:
    """Which file stands there in which state, as no program can set it; None: none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_ctime_ns


def _beginning(text: str) -> str:
    """The first lines of a result, for the person."""
    return "\n".join(text[:_PREVIEW_CHARACTERS].splitlines()[:_PREVIEW_LINES])


def _intent(item: _Prepared) -> Intent:
    return Intent(call_id=item.call.call_id, tool=item.tool.name, arguments=item.raw, repeatable=item.tool.repeatable)
