"""`!command`: a command of the person's own, run where the agent's commands run; what it says goes along afterwards."""

import json
from collections.abc import Callable, Sequence

from hermes.core.errors import BusyError
from hermes.core.events import Event
from hermes.core.ids import new_call_id
from hermes.core.messages import PROGRAM
from hermes.core.outcomes import AnswerScope
from hermes.core.parts import ImagePart, TextPart, ToolCallPart, ToolResultPart
from hermes.core.protocols import Intent
from hermes.i18n.messages import phrase
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.tools.executor import Batch, Executor
from hermes.tools.permissions.gate import Answer, ApprovalRequest, Gate
from hermes.tools.registry import Registry
from hermes.tools.session import ToolContext

SECONDS = 600
"""How long such a command may take."""


class _TypedIt:
    """Who typed a command has said yes to it. What is never allowed stays refused: that is not asked about."""

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> Answer:
        """Yes, for this once."""
        del request, show
        return Answer(scope=AnswerScope.ONCE, by="person")


class _NoJournal:
    """A command outside of every turn belongs to no transcript that a crash could repeat."""

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Nothing is written down."""

    async def done(self, result: ToolResultPart) -> None:
        """Nothing is written down."""


async def run_line(
    actor: SessionActor, gate: Gate, context: ToolContext, command: str, show: Callable[[Event], None]
) -> ToolResultPart:
    """Run a command between two turns, and bring its result along with the next message.

    Cancelling ends the command with all that it has started. Raises BusyError while a turn runs.
    """
    if actor.busy:
        raise BusyError(phrase("A turn runs."), phrase("Your command can run when it has ended."))
    call = ToolCallPart(new_call_id(), "terminal", json.dumps({"command": command, "timeout": SECONDS}))
    batch = Batch((call,))

    executor = Executor(Registry().select(("terminal",)), gate, approver=_TypedIt())
    await executor.run(batch, context, _NoJournal(), show)
    result = batch.results()[0]
    text = f"[The person ran `{command}` themselves:]\n{result.text}"
    _bring_once(actor, TextPart(text, result.provenance or PROGRAM))
    return result


def said(result: ToolResultPart) -> str:
    """The result in the person's eyes: without the fence that is for the model."""
    lines = result.text.split("\n")
    return "\n".join(line for line in lines if not line.startswith(("<untrusted ", "</untrusted ")))


def _bring_once(actor: SessionActor, part: TextPart) -> None:
    async def bring(_inbound: Inbound) -> Sequence[ImagePart | TextPart]:
        actor.bringing.bringers.remove(bring)
        return (part,)

    actor.bringing.bringers.append(bring)
