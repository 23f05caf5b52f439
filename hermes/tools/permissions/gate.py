"""What stands between a call and its effect: the gate decides, a person answers where it asks."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from hermes.core.outcomes import AnswerScope
from hermes.safety.shell.findings import Effect, Verdict
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool

GIT_SETTINGS = ("git", "settings")
"""The argv of an effect that stands for changing a repository's settings, in a place where they are kept otherwise."""


class Grant(Struct, frozen=True):
    """Something that a person allows for the rest of a session.

    `pattern` is in the language of `hermes.safety.globs`. `seal` is filled where what runs is a file: the grant is
    for the content that the file had. `places` is a hash of where it all leads: the same words may mean others later.
    `source` lifts the taint of a source instead.
    """

    pattern: str = ""
    seal: str = ""
    source: str = ""
    places: str = ""


class Decision(Struct, frozen=True, kw_only=True):
    """What may happen with a call.

    `subject` is what a person is shown: the command, or the tool with what it would touch. `seal` is a hash of all that
    the decision was made on: the command, its folder and variables, where its paths lead, the files that it runs. When
    any of it is another by the time the call runs, the decision is another one too. `grants` and `always` are what the
    wider answers would cover; empty where there is no such answer. `pattern` is what would have to be among the allowed
    patterns for the call to run without a question.
    """

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    subject: str = ""
    cwd: str = ""
    pattern: str = ""
    grants: tuple[Grant, ...] = ()
    always: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    seal: str = ""
    offline: bool = False
    """Whether a sandbox must give it no network: nobody can tell what it would run."""
    sticks: tuple[str, ...] = ()
    """What a person's no is about for the rest of the session, where the question is about hosts or paths alone."""
    hint: str = ""
    """What would make such questions unnecessary; it is said once a session."""
    looks: bool = False
    """Whether the call's command is one that writes no file, for sure."""

    def covers(self, scope: AnswerScope) -> str:
        """What an answer of this scope would cover, in words; empty where there is no such answer."""
        if scope is AnswerScope.ALWAYS:
            return ", ".join(f"`{pattern}`" for pattern in self.always)
        if scope is not AnswerScope.SESSION:
            return once_covers(self.rule, self.subject) if scope is AnswerScope.ONCE else ""
        named = [
            f"everything that text from {grant.source} leads to"
            if grant.source
            else f"`{grant.pattern}`" + (", while the files that it runs stay unchanged" if grant.seal else "")
            for grant in self.grants
        ]
        return "; ".join(named)


def once_covers(rule: str, subject: str) -> str:
    """What the answer "once" to such a question covers, in words."""
    if rule == NETWORK:
        return "connections of this one command to that host"
    if rule == OUTSIDE and subject.startswith(f"{WRITE} "):
        return f"that this command, run once more as it is, may {subject}"
    return "this call"


NOBODY = "nobody there to ask"
TIMED_OUT = "no answer in time"
WITHDRAWN = "withdrawn"
"""Who answered, where no person did. Withdrawn: whoever asked waits for no answer any more."""
NO_PERSON = frozenset({NOBODY, TIMED_OUT, WITHDRAWN})
NETWORK = "network"
OUTSIDE = "outside-workspace"
"""Rules of what a sandboxed command asks for while it runs; their subjects are `connect HOST` and `write PATH`."""
CONNECT = "connect"
WRITE = "write"


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A question to the person: may this call have its effect? The wider answers come with what they would cover."""

    approval_id: str
    call_id: str
    tool: str
    subject: str
    rule: str
    reason: str
    cwd: str = ""
    seal: str = ""
    once_covers: str = ""
    session_covers: str = ""
    always_covers: str = ""
    no_covers: str = ""


class Answer(Struct, frozen=True):
    """The person's answer. `by` says whose it is; `note` is for the model (why not, what instead)."""

    scope: AnswerScope
    by: str
    note: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.scope is not AnswerScope.DENY


class Approver(Protocol):
    """Puts approval questions to a person. No answer in time, or nobody there, is an answer: not allowed."""

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> Answer:
        """The person's answer, given once to one caller.

        `show` is called once the question is on disk, with the id by which it can be answered: an older one when the
        same call asked already, before its process died. It is not called when nobody can be asked.
        """
        ...


class Gate(Protocol):
    """Decides what a call may do. Nothing that a model, a file or a tool says can change what it decides."""

    def decide(self, tool: Tool, arguments: Arguments, context: ToolContext) -> Decision:
        """The decision for a call. Fast, without effects; symlinks are resolved as they are now."""
        ...

    def connection(self, host: str, port: int, context: ToolContext, name: str = "") -> Decision:
        """The decision for a connection that a command in a sandbox wants to make; `name` led to it."""
        ...

    def opening(self, path: str, context: ToolContext) -> Decision:
        """The decision for a path that a command in a sandbox wants to write."""
        ...

    def refuse(self, decision: Decision) -> None:
        """Remember what a person's no covers beyond the call."""
        ...

    async def keep(self, decision: Decision, scope: AnswerScope) -> None:
        """Remember what a person's answer covers beyond the call. Raises HermesError when it cannot be kept."""
        ...


class Reviewer(Protocol):
    """Looks at a call that the rules allow. It can only make the decision stricter."""

    async def review(self, decision: Decision, tool: Tool, arguments: Arguments) -> Decision:
        """The same decision, or one that asks."""
        ...


def offered(decision: Decision) -> Sequence[AnswerScope]:
    """The answers that a question has."""
    wider = [scope for scope in (AnswerScope.SESSION, AnswerScope.ALWAYS) if decision.covers(scope)]
    return (AnswerScope.ONCE, *wider, AnswerScope.DENY)
