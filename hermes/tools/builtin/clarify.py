"""`clarify`: asks the person a question."""

from typing import Annotated

from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, ToolOutput, tool

MAX_CHOICES = 4


@tool("clarify", parallel=Parallel.NEVER, repeatable=True, summary=lambda args: str(args["question"]))
async def clarify(
    ctx: ToolContext,
    question: Annotated[str, "The question."],
    choices: Annotated[list[str] | None, "Up to 4 answers; the person may give another."] = None,
) -> ToolOutput:
    """Ask the person, when the task is unclear and a wrong guess would cost much. Not for permission to act."""
    offered = [choice for choice in choices or () if choice.strip()]
    if not question.strip():
        raise ToolError("The question is empty.")
    if len(offered) > MAX_CHOICES:
        raise ToolError(f"At most {MAX_CHOICES} choices can be offered, not {len(offered)}.")
    answer = await ctx.asker.ask(question, offered) if ctx.asker is not None else None
    if not answer:
        why = "Nobody is there to answer." if answer is None else "The person closed the question without an answer."
        return ToolOutput(text=f"{why} Go on with the most reasonable assumption, and say which it was.")
    return ToolOutput(text=f"The person answered: {answer}", provenance=Provenance(source=Source.PERSON))
