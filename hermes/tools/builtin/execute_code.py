"""`execute_code`: runs code that calls the other tools."""

from typing import Annotated

from hermes.core.errors import ToolError
from hermes.tools.session import ToolContext
from hermes.tools.tool import AvailabilityCheck, ToolOutput, tool

SHOWN_CHARACTERS = 20_000
"""The characters of its output that a model is shown; all of it goes to a file."""


@tool(
    "code_execution",
    repeatable=True,
    deferred=True,
    refunds=True,
    calls_tools=True,
    cap=SHOWN_CHARACTERS,
    brief="code that calls tools",
    summary=lambda args: str(args["code"]).strip().partition("\n")[0],
    availability=AvailabilityCheck(
        function="hermes.execution.code.monty_engine:explain_missing", settings=("code_execution.engine",)
    ),
)
async def execute_code(ctx: ToolContext, code: Annotated[str, "Python code."]) -> ToolOutput:
    """Run Python that calls your tools: each is a function with keyword arguments, read_file(path="a"), or
    tool(name, {...}); at_once([(name, {...}), ...]) makes several. They return text; ToolError is a failure. Only what
    it prints comes back. Without yield, del, subclasses, packages and open it survives restarts."""
    if ctx.nested_calls is None:
        raise ToolError("No code can be run here.")
    from hermes.tools.code.code_run import CodeRun

    return await CodeRun(ctx, ctx.nested_calls, code).run()
