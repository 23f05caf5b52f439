"""Run a user's own command (`!command`) where the agent's commands run; its output joins the next message."""

import json
from collections.abc import Callable, Sequence

from hermes.core.errors import BusyError
from hermes.core.events import Event
from hermes.core.ids import new_call_id
from hermes.core.messages import PROGRAM, ImagePart, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.outcomes import AnswerScope
from hermes.core.protocols import Intent
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.references import GIT, PLAIN_DIFF
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.permissions.gate import ApprovalAnswer, ApprovalRequest, Approver, PermissionGate
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import ToolContext

COMMAND_SECONDS = 600
"""The time limit of such a command."""


class _TypedCommandApprover:
    """Approves the command, because the user typed it. What is never allowed is refused without asking."""

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> ApprovalAnswer:
        """Approve once."""
        del request, show
        return ApprovalAnswer(scope=AnswerScope.ONCE, by="person")


class NullJournal:
    """A journal that records nothing: a command outside of turns is in no transcript that a crash could repeat."""

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        """Record nothing."""

    async def record_result(self, result: ToolResultPart) -> None:
        """Record nothing."""

    async def flush(self) -> None:
        """Wait for nothing."""


async def run_shell_line(
    actor: SessionActor, gate: PermissionGate, context: ToolContext, command: str, show: Callable[[Event], None]
) -> ToolResultPart:
    """Run a command between two turns, and attach its result to the next message.

    Cancelling ends the command with all that it has started. Raises BusyError while a turn runs.
    """
    if actor.busy:
        raise BusyError(N_("A turn runs."), N_("Your command can run when it has ended."))
    result = await _run_command(gate, _TypedCommandApprover(), context, command, show)
    text = f"[The person ran `{command}` themselves:]\n{result.text}"
    _attach_to_next_message(actor, TextPart(text, result.provenance or PROGRAM))
    return result


async def _run_command(
    gate: PermissionGate, approver: Approver | None, context: ToolContext, command: str, show: Callable[[Event], None]
) -> ToolResultPart:
    call = ToolCallPart(new_call_id(), "terminal", json.dumps({"command": command, "timeout": COMMAND_SECONDS}))
    batch = CallBatch((call,))
    executor = Executor(ToolRegistry().select_tools(("terminal",)), gate, approver=approver)
    await executor.run(batch, context, NullJournal(), show)
    return batch.collect_results()[0]


async def read_working_diff(gate: PermissionGate, context: ToolContext) -> tuple[str, list[str]] | None:
    """Return what differs in the repository's working tree from its last commit, and the files that git does not know.

    None where there is no commit, or where git could run programs of its own and nothing confines them.
    """
    folder = context.places.workspace
    if not context.backend.contained and context.trust.find_untrusted_folder(folder, folder):
        from hermes.execution.git_programs import list_repository_programs

        if list_repository_programs(folder) != []:
            return None
    found: list[str] = []
    for words in (f"diff {PLAIN_DIFF} HEAD", "ls-files --others --exclude-standard"):
        result = await _run_command(gate, None, context, f"{GIT} {words}", lambda _: None)
        body, _, note = format_result(result).rpartition("[exit code ")
        if result.status is not ToolStatus.OK or not note.startswith("0"):
            return None
        found.append(body.strip("\n"))
    return found[0], found[1].splitlines()


def format_result(result: ToolResultPart) -> str:
    """Format the result for the user, without the fence that is meant for the model."""
    lines = result.text.split("\n")
    return "\n".join(line for line in lines if not line.startswith(("<untrusted ", "</untrusted ")))


def _attach_to_next_message(actor: SessionActor, part: TextPart) -> None:
    async def attach_part(_inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        actor.attachments.providers.remove(attach_part)
        return (part,)

    actor.attachments.providers.append(attach_part)
