"""One run of code that calls tools: it is begun, or goes on where another process has left it, up to its end."""

import asyncio
import contextlib
from collections.abc import Sequence

from msgspec import structs

from hermes.core.code_runs import CodeRunState, NestedEffect, StoredCodeRun
from hermes.core.errors import ToolError
from hermes.core.ids import name_nested_call
from hermes.core.messages import Provenance, Source, ToolCallPart, ToolResultPart, ToolStatus
from hermes.execution.code import monty_engine, python_engine
from hermes.execution.code.monty_engine import MontyLimits, MontyRun
from hermes.execution.code.steps import (
    MAX_CODE,
    MAX_ERROR,
    AnswerKind,
    CallAnswer,
    CallsWanted,
    CodeEnded,
    CodeStep,
    PrintedText,
    UnsupportedCodeError,
    find_needs,
)
from hermes.tools.code import run_seal
from hermes.tools.session import NestedCalls, ToolContext
from hermes.tools.taint import sources_from_provenance
from hermes.tools.tool import ToolOutput
from hermes.util.text import to_one_line

UNKNOWN_OUTCOME = (
    "The program ended while this call of {name} was under way. All, part or none of it may have happened: check before"
    " you make it again."
)
_CANNOT_GO_ON = "Hermes was ended while this code ran, and it cannot go on: {why}."
_CALLS_MADE = "These calls were made; their effects stand:"
_NO_CALLS = "It had called no tool."
_OTHER_VERSION = "another version of its interpreter is installed"
_MAX_LISTED_CALLS = 60


class _ChangedRunError(Exception):
    """A run that is repeated does something else than the first time."""


class CodeRun:
    """One run of code."""

    def __init__(self, context: ToolContext, nested: NestedCalls, code: str) -> None:
        self.printed = PrintedText(context.code.max_output)
        self._context = context
        self._nested = nested
        self._code = code
        self._key: bytes | None = None
        self._state = CodeRunState(engine=monty_engine.NAME)
        self._known: dict[str, NestedEffect] = {}
        self._repeats = 0
        """How many of its first calls are those that it has made before, and are compared with them."""
        self._answered = 0
        """How many of these have been answered before: none of them is made again."""
        self._remark = ""

    async def run(self) -> ToolOutput:
        """Run the code to its end, and return what it has printed. Raises ToolError where it cannot be run."""
        self._check_code()
        self._key = await asyncio.to_thread(self._load_key)
        stored = await self._nested.read_run()
        try:
            if stored is not None:
                return await self._go_on(stored)
            return await self._begin()
        except _ChangedRunError as why:
            return self._explain_lost_run(str(why))

    def _check_code(self) -> None:
        if not self._code.strip():
            raise ToolError("The code is empty.")
        if len(self._code) > MAX_CODE:
            raise ToolError(f"The code has over {MAX_CODE} characters. Write it to a file and run that.")
        try:
            find_needs(self._code)
        except SyntaxError as error:
            raise ToolError(f"SyntaxError in line {error.lineno}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError):
            raise ToolError("The code is too deeply nested, or holds characters that no code may have.") from None

    def _load_key(self) -> bytes | None:
        path = self._context.code.key_file
        with contextlib.suppress(OSError):
            return run_seal.load_key(path) if path is not None else None
        return None

    async def _begin(self) -> ToolOutput:
        engine = self._context.code.engine
        if engine != python_engine.NAME and monty_engine.find_version():
            try:
                return await self._run_monty()
            except UnsupportedCodeError as why:
                if engine == monty_engine.NAME:
                    raise ToolError(f"The interpreter cannot run this code: {why}.") from None
                self._remark = f"run by Python itself: {why}"
                self.printed = PrintedText(self._context.code.max_output)
        elif engine == monty_engine.NAME:
            raise ToolError("The interpreter that the settings name is not installed: tell the person.")
        return await self._run_python()

    async def _go_on(self, stored: StoredCodeRun) -> ToolOutput:
        """Go on with a run whose process died."""
        state = stored.state
        self._known = dict(stored.effects)
        if self._key is None or not run_seal.is_genuine(state, self._key, *self._about()):
            return self._explain_lost_run("its stored state is not what this Hermes has written")
        self._state, self._repeats, self._answered = state, len(state.asked), state.calls
        self._nested.count_sources(state.sources)
        if state.engine == python_engine.NAME:
            if not self._known:
                return await self._run_python()
            return self._explain_lost_run("Python itself cannot be stored")
        if not monty_engine.find_version():
            return self._explain_lost_run("its interpreter is not installed any more")
        is_same = state.version == monty_engine.find_version()
        if not is_same:
            # Another version reads no dump: the code runs again, up to here with the results that are known.
            self._state = structs.replace(state, calls=0, dump=b"", printed="", mac=b"")
        try:
            return await self._run_monty(state if is_same else None)
        except UnsupportedCodeError as why:
            raise _ChangedRunError(str(why) if is_same else f"{_OTHER_VERSION}, and {why}") from None

    def _about(self) -> tuple[str, ...]:
        return (self._context.session_id, self._context.call_id, self._code)

    async def _run_monty(self, state: CodeRunState | None = None) -> ToolOutput:
        settings = self._context.code
        if state is not None:
            self.printed = PrintedText(settings.max_output, state.printed)
        limits = MontyLimits(seconds=settings.timeout, calls=settings.max_calls)
        run = MontyRun(self._code, limits, self.printed, settings.environ)
        self._state = structs.replace(self._state, engine=monty_engine.NAME, version=monty_engine.find_version())
        try:
            if state is not None:
                step = await run.load(state.dump)
            else:
                step = await run.start(self._nested.names, "\0".join(self._about()))
            while isinstance(step, CallsWanted):
                if (over := self.explain_limit(step)) is not None:
                    step = over
                    break
                step = await run.answer(await self.make_calls(step))
            if self._state.calls < self._answered:
                raise _ChangedRunError(f"{_OTHER_VERSION}, and it ends before all that it did")
            return self._build_output(step)
        finally:
            await run.close()

    async def _run_python(self) -> ToolOutput:
        """Run the code by Python itself: as a command, by a call of its own that is gated as one."""
        from hermes.tools.code.python_script import build_python_tool

        if not self._nested.can_run_commands:
            why = self._remark or "the interpreter is not installed"
            raise ToolError(f"This session runs no commands, and so no Python ({why}).")
        self._state = structs.replace(self._state, engine=python_engine.NAME, version="", asked=())
        await self._nested.record_state(self._seal(), durable=True)
        ended: list[CodeStep] = []
        own = build_python_tool(self, self._nested.names, ended.append)
        call = ToolCallPart(
            call_id=name_nested_call(self._context.call_id, 0), name=own.name, arguments=own.encode_code(self._code)
        )
        (result,) = await self._nested.run((call,), own.tool)
        self._note_sources((result,))
        if not ended:
            return ToolOutput(text=result.text, status=result.status, provenance=self._build_provenance())
        return self._build_output(ended[0], result.text.strip())

    def explain_limit(self, wanted: CallsWanted) -> CodeEnded | None:
        """Return the end of a run that makes more calls than it may; None where it does not."""
        limit = self._context.code.max_calls
        if self._state.calls + len(wanted.calls) <= limit:
            return None
        return CodeEnded(f"The code was stopped: it may make {limit} calls (`code_execution.max_calls`).")

    async def make_calls(self, wanted: CallsWanted) -> list[CallAnswer]:
        """Make the calls that the code waits for, but those whose results are known; return the answers to all."""
        first, asked = self._state.calls, [run_seal.digest_call(one.name, one.arguments) for one in wanted.calls]
        self._compare_repeated(first, asked)
        self._state = structs.replace(
            self._state,
            dump=wanted.dump,
            printed=self.printed.to_text(),
            asked=(*self._state.asked[:first], *asked, *self._state.asked[first + len(asked) :]),
        )
        if wanted.dump:
            await self._nested.record_state(self._seal())
        numbered = [
            ToolCallPart(
                call_id=name_nested_call(self._context.call_id, first + number), name=one.name, arguments=one.arguments
            )
            for number, one in enumerate(wanted.calls, 1)
        ]
        answers = await self._answer_calls(numbered, first)
        self._state = structs.replace(self._state, calls=first + len(numbered))
        return answers

    def _compare_repeated(self, first: int, asked: Sequence[str]) -> None:
        """Raise `_ChangedRunError` where the run that is repeated makes another call than it did before."""
        before = self._state.asked[first : first + len(asked)]
        if first < self._repeats and before != tuple(asked)[: len(before)]:
            raise _ChangedRunError(f"{_OTHER_VERSION}, and it does not do the same again")

    async def _answer_calls(self, calls: Sequence[ToolCallPart], first: int) -> list[CallAnswer]:
        answers: dict[str, CallAnswer] = {}
        todo: list[ToolCallPart] = []
        for number, call in enumerate(calls, first + 1):
            if (answer := self._recall_answer(call)) is not None:
                answers[call.call_id] = answer
            elif number <= self._answered:
                raise _ChangedRunError("what its calls returned is not known any more")
            else:
                todo.append(call)
        if todo:
            results = await self._nested.run(todo)
            self._note_sources(results)
            without_effect = [one for one in results if one.status in (ToolStatus.REFUSED, ToolStatus.INVALID)]
            self._state = structs.replace(self._state, closed=(*self._state.closed, *without_effect))
            answers |= {one.call_id: _to_answer(one) for one in results}
        return [answers[call.call_id] for call in calls]

    def _recall_answer(self, call: ToolCallPart) -> CallAnswer | None:
        """Return the answer to a call that another process has made, or may have made; None where it never began."""
        known = self._known.get(call.call_id)
        closed = next((one for one in self._state.closed if one.call_id == call.call_id), None)
        result = closed or (known.result if known is not None else None)
        if result is not None:
            self._note_sources((result,))
            self._nested.count_sources(self._state.sources)
            return _to_answer(result)
        return CallAnswer(AnswerKind.UNKNOWN, UNKNOWN_OUTCOME.format(name=call.name)) if known is not None else None

    def _note_sources(self, results: Sequence[ToolResultPart]) -> None:
        found = dict.fromkeys(self._state.sources)
        for one in results:
            if one.provenance is not None and one.provenance.is_untrusted:
                found |= dict.fromkeys(sources_from_provenance(one.provenance))
        if len(found) > len(self._state.sources):
            self._state = structs.replace(self._state, sources=tuple(found))

    def _seal(self) -> CodeRunState:
        return run_seal.seal_state(self._state, self._key, *self._about()) if self._key is not None else self._state

    def _build_provenance(self) -> Provenance | None:
        """Return where the output is from: from everything that any of its calls has returned."""
        return Provenance(Source.OTHER, "\n".join(self._state.sources)) if self._state.sources else None

    def _build_output(self, step: CodeStep, said_of_effects: str = "") -> ToolOutput:
        error = step.error if isinstance(step, CodeEnded) else ""
        if len(error) > MAX_ERROR:
            error = f"{error[:MAX_ERROR]} [{len(error) - MAX_ERROR} more characters]"
        text = self.printed.to_text().rstrip("\n")
        notes = [f"{self.printed.left_out} more characters were printed and not kept"] if self.printed.left_out else []
        notes += [self._remark] if self._remark else []
        pieces = [text, error, said_of_effects, *([f"[{'; '.join(notes)}]"] if notes else [])]
        said = "\n".join(one for one in pieces if one)
        return ToolOutput(
            text=said or "[It printed nothing.]",
            failed=bool(error),
            code=1 if error else 0,
            provenance=self._build_provenance(),
        )

    def _explain_lost_run(self, why: str) -> ToolOutput:
        """Return what is known of a run that cannot go on: the calls that it has made, and what it has printed."""
        lines = [_CANNOT_GO_ON.format(why=why), _CALLS_MADE if self._known else _NO_CALLS]
        for one in list(self._known.values())[:_MAX_LISTED_CALLS]:
            outcome = one.result.status.value if one.result is not None else "outcome unknown, check it"
            lines.append(f"- {one.tool} {to_one_line(one.arguments, 200)}: {outcome}")
        self._note_sources([one.result for one in self._known.values() if one.result is not None])
        return ToolOutput(
            text="\n".join(lines), status=ToolStatus.UNCERTAIN, provenance=self._build_provenance(), failed=True
        )


def _to_answer(result: ToolResultPart) -> CallAnswer:
    if result.status is ToolStatus.OK:
        return CallAnswer(AnswerKind.OK, result.text)
    kind = AnswerKind.UNKNOWN if result.status is ToolStatus.UNCERTAIN else AnswerKind.FAILED
    return CallAnswer(kind, result.text)
