"""`process`: the background processes that `terminal` started."""

import asyncio
from typing import Annotated, Literal

from hermes.core.errors import ToolError
from hermes.execution.base import Stopped
from hermes.tools.output import cut
from hermes.tools.processes import Process
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import tool

MAX_WAIT = 600
_LOG_LINES = 200
_SEND = 10


def _command(args: Arguments) -> str:
    """What is typed into a process may be a command to a shell, so it is judged like one."""
    return str(args["data"]) if args["action"] in ("write", "submit") else ""


@tool("terminal", polls=True, summary=lambda args: f"{args['action']} {args['session_id']}".strip(), command=_command)
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
        return "\n".join(_line(one, now) for one in table.all()) or "There are no background processes."
    if not session_id:
        raise ToolError(f"Give the process's id in session_id to {action}. Use list to see them.")
    one = table.find(session_id)
    if action in ("write", "submit"):
        return await _send(one, data + ("\n" if action == "submit" else ""))
    if action == "close":
        one.input().close_input()
        return f"The input of {session_id} is closed."
    if action == "kill":
        unsure = " It may still be running there." if await table.kill(one) is Stopped.UNCERTAIN else ""
        return f"{session_id}: {one.status}.{unsure}"
    if action == "log":
        return _log(one, offset, limit)
    if action == "wait":
        await one.ended(max(0, min(timeout, MAX_WAIT)))
    return _new_output(one)


async def _send(one: Process, text: str) -> str:
    try:
        async with asyncio.timeout(_SEND):
            one.typed += text
            await one.input().write(text.encode("utf-8", "replace"))
    except TimeoutError:
        raise ToolError(
            f"{one.process_id} did not take all of the input within {_SEND} s; it may not be reading."
        ) from None
    return f"Sent to {one.process_id}. See the answer with poll."


def _line(one: Process, now: float) -> str:
    return f"{one.process_id}: {one.status}, started {now - one.started:.0f} s ago in {one.cwd}: {one.command[:200]}"


def _new_output(one: Process) -> str:
    text = one.output.since(one.read_to)
    one.read_to = one.output.total
    return f"{cut(text.strip(chr(10)))}\n[{one.status}]".lstrip("\n")


def _log(one: Process, offset: int, limit: int) -> str:
    lines = one.output.since(0).strip("\n").split("\n")
    count = max(1, limit)
    first = offset - 1 if offset > 0 else max(0, len(lines) - count)
    shown = lines[first : first + count]
    return f"{cut(chr(10).join(shown))}\n[lines {first + 1}-{first + len(shown)} of {len(lines)}; {one.status}]"
