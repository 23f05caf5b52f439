"""Makes the calls of code that a call runs. They go through the executor, as calls of the model do."""

from collections.abc import Awaitable, Callable, Sequence

from hermes.core.code_runs import CodeJournal, CodeRunState, StoredCodeRun
from hermes.core.messages import ToolCallPart, ToolResultPart
from hermes.tools.registry import Toolbox
from hermes.tools.session import OwnTool
from hermes.tools.taint import Taint, sources_from_provenance
from hermes.tools.tool import Tool

PERSON_TOOLS = frozenset({"clarify", "delegate_task"})
"""Tools that code may not call, beside those that run code themselves and those that the program that asks runs: they
hand over to somebody else, whom no code can wait for.
"""
COMMAND_TOOL = "terminal"
RunBatch = Callable[[Sequence[ToolCallPart], Tool | None], Awaitable[Sequence[ToolResultPart]]]


def explain_exclusion(tool: Tool) -> str:
    """Return why code may not call a tool; empty when it may."""
    if tool.name in PERSON_TOOLS or tool.runs_at_caller or tool.calls_tools:
        return f"{tool.name} cannot be called by code. Call it yourself, outside of the code."
    return ""


class NestedCallRunner:
    """Makes the calls of one call's code."""

    def __init__(
        self, call_id: str, toolbox: Toolbox, taint: Taint, run_batch: RunBatch, journal: CodeJournal | None
    ) -> None:
        self._call_id = call_id
        self._toolbox = toolbox
        self._taint = taint
        self._run_batch = run_batch
        self._journal = journal

    @property
    def names(self) -> Sequence[str]:
        """The names of the tools that code may be able to call; what is excluded says so when it is called."""
        return [*self._toolbox.list_names(), *self._toolbox.list_deferred_names()]

    @property
    def can_run_commands(self) -> bool:
        """Whether the session has the tool that runs commands: who lacks it runs no Python either."""
        return self._toolbox.find_own(COMMAND_TOOL) is not None

    async def run(self, calls: Sequence[ToolCallPart], own: OwnTool | None = None) -> Sequence[ToolResultPart]:
        """Run calls as one batch; their untrusted sources count from then on."""
        results = await self._run_batch(calls, own if isinstance(own, Tool) else None)
        for result in results:
            if result.provenance is not None and result.provenance.is_untrusted:
                self.count_sources(sources_from_provenance(result.provenance))
        return results

    def count_sources(self, sources: Sequence[str]) -> None:
        """Let untrusted sources count from now on."""
        self._taint.add_sources(sources)

    async def record_state(self, state: CodeRunState, *, durable: bool = False) -> None:
        """Record the state of the code, where there is a journal."""
        if self._journal is not None:
            await self._journal.record_code_state(self._call_id, state, durable=durable)

    async def read_run(self) -> StoredCodeRun | None:
        """Return what another process has left of this call's run, or None."""
        return await self._journal.read_code_run(self._call_id) if self._journal is not None else None
