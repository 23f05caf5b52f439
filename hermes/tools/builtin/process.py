"""`process`: manages the background processes that `terminal` started."""

import asyncio
from typing import Annotated, Literal

from hermes.core.errors import ToolError
from hermes.execution.base import StopOutcome
from hermes.tools.output import truncate_text
from hermes.tools.processes import BackgroundProcess
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import tool

MAX_WAIT = 600
_LOG_LINES = 200
_SEND_SECONDS = 10


def _get_command(args: Arguments) -> str:
    """Return what is typed into a process: it may be a command to a shell, so it is judged like one."""
    return str(args["data"]) if args["action"] in ("write", "submit") else ""


@tool(
    "terminal",
    polls=True,
    summary=lambda args: f"{args['action']} {args['session_id']}".strip(),
    command=_get_command,
    types_into=lambda args: str(args["session_id"]),
)
async def process(
    ctx: ToolContext,
    action: Annotated[
        Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"],
        "poll: new output; log: all output; write: input; submit: input and Enter; close: end of input.",
    ],
    session_id: Annotated[str, "The process's id; for all but list."] = "",
    data: Annotated[str, "Input (write, submit)."] = "",
    timeout: Annotated[int, "Seconds (wait)."] = 60,  # noqa: ASYNC109 - a parameter of the model's
    offset: Annotated[int, "First line (log); 0: the last ones."] = 0,
    limit: Annotated[int, "Lines (log)."] = _LOG_LINES,
) -> str:
    """Manage background processes."""
    table = ctx.state.processes
    if action == "list":
        now = ctx.clock.now()
        return "\n".join(_format_line(one, now) for one in table.list_all()) or "There are no background processes."
    if not session_id:
        raise ToolError(f"Give the process's id in session_id to {action}. Use list to see them.")
    one = table.find(session_id)
    if action in ("write", "submit"):
        return await _send_input(one, data + ("\n" if action == "submit" else ""))
    if action == "close":
        one.get_running().close_input()
        return f"The input of {session_id} is closed."
    if action == "kill":
        unsure = " It may still be running there." if await table.kill(one) is StopOutcome.UNCERTAIN else ""
        return f"{session_id}: {one.status}.{unsure}"
    if action == "log":
        return _format_log(one, offset, limit)
    if action == "wait":
        await one.wait_for_end(max(0, min(timeout, MAX_WAIT)))
    return _read_new_output(one)


async def _send_input(one: BackgroundProcess, text: str) -> str:
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            one.typed_text += text
            await one.get_running().write(text.encode("utf-8", "replace"))
    except TimeoutError:
        raise ToolError(
            f"{one.process_id} did not take all of the input within {_SEND_SECONDS} s; it may not be reading."
        ) from None
    return f"Sent to {one.process_id}. See the answer with poll."


def _format_line(one: BackgroundProcess, now: float) -> str:
    return f"{one.process_id}: {one.status}, started {now - one.started:.0f} s ago in {one.cwd}: {one.command[:200]}"


def _read_new_output(one: BackgroundProcess) -> str:
    text = one.output.text_since(one.read_to)
    one.read_to = one.output.total
    return f"{truncate_text(text.strip(chr(10)))}\n[{one.status}]".lstrip("\n")


def _format_log(one: BackgroundProcess, offset: int, limit: int) -> str:
    lines = one.output.text_since(0).strip("\n").split("\n")
    count = max(1, limit)
    first = offset - 1 if offset > 0 else max(0, len(lines) - count)
    shown = lines[first : first + count]
    return (
        f"{truncate_text(chr(10).join(shown))}\n[lines {first + 1}-{first + len(shown)} of {len(lines)}; {one.status}]"
    )
