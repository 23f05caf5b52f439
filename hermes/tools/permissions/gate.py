"""The permission gate's types: the gate decides on a call before its effect, a person answers where it asks."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from hermes.core.checkpoints import FileLoss
from hermes.core.outcomes import AnswerScope
from hermes.execution.base import DeniedPath
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import CommandEffect, Verdict
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.taint import describe_source
from hermes.tools.tool import Tool
from hermes.util.localizable import join_localizable

GIT_SETTINGS = ("git", "settings")
"""The argv of an effect that stands for changing a repository's settings where they are kept in another place."""


class SessionGrant(Struct, frozen=True):
    """A permission that a person gives for the rest of a session.

    `pattern` is in the language of `hermes.safety.patterns`. `fingerprint` is filled where what runs is a
    file: the grant is for the content that the file had. `places_hash` is a hash of where it all leads: the
    same text may mean others later. `source` lifts the taint of a source instead.
    """

    pattern: str = ""
    fingerprint: str = ""
    source: str = ""
    places_hash: str = ""


class PermissionDecision(Struct, frozen=True, kw_only=True):
    """The gate's decision about a call.

    `subject` is what a person is shown: the command, or the tool with what it would touch. `fingerprint` is a hash of
    all that the decision was made on: the command, its folder and variables, where its paths lead, the files that it
    runs. When any of it is another by the time the call runs, the decision is another one too. `grants` and `always`
    are what the wider answers would cover; empty where there is no such answer. `pattern` is what would have to be
    among the allowed patterns for the call to run without a question.
    """

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    subject: str = ""
    cwd: str = ""
    pattern: str = ""
    grants: tuple[SessionGrant, ...] = ()
    always: tuple[str, ...] = ()
    effects: tuple[CommandEffect, ...] = ()
    fingerprint: str = ""
    offline: bool = False
    """Whether a sandbox must give it no network, because nobody can tell what it would run."""
    opened: tuple[DeniedPath, ...] = ()
    """The files and folders that the call may read, or write, though commands do not."""
    losses: tuple[FileLoss, ...] = ()
    """What its command would lose, where it is still to be looked whether copies are kept of that."""
    folders: tuple[str, ...] = ()
    """The folders outside of the workspace that its command may write."""
    moved: tuple[str, ...] = ()
    """The places to which its command moves or links things."""
    lasting_refusals: tuple[str, ...] = ()
    """The hosts or paths that a person's no holds for during the rest of the session, where the question is
    about them alone.
    """
    hint: str = ""
    """What would make such questions unnecessary; it is shown once a session."""
    is_read_only: bool = False
    """Whether the call's command is known for sure to write no file."""

    def describe_scope(self, scope: AnswerScope) -> str:
        """Return in words what an answer of this scope would cover; empty where there is no such answer."""
        if scope is AnswerScope.ALWAYS:
            return ", ".join(f"`{pattern}`" for pattern in self.always)
        if scope is not AnswerScope.SESSION:
            return describe_once(self.rule, self.subject) if scope is AnswerScope.ONCE else ""
        return join_localizable("; ", (_describe_grant(grant) for grant in self.grants))


def _describe_grant(grant: SessionGrant) -> str:
    if grant.source:
        return N_("everything that text from {source} leads to", source=describe_source(grant.source, has_kind=True))
    if grant.fingerprint:
        return N_("`{pattern}`, while the files that it runs stay unchanged", pattern=grant.pattern)
    return f"`{grant.pattern}`"


def describe_once(rule: str, subject: str) -> str:
    """Return in words what the answer "once" to such a question covers."""
    if rule == NETWORK:
        return N_("connections of this one command to that host")
    if rule == SITE:
        return N_("that site, until this browser is closed")
    if (rule == OUTSIDE and subject.startswith(f"{WRITE} ")) or rule == UNSEEN:
        return N_("that this command, run once more as it is, may {subject}", subject=subject)
    return "this call"


NOBODY = "nobody there to ask"
TIMED_OUT = "no answer in time"
WITHDRAWN = "withdrawn"
"""The answerers where no person answered. Withdrawn: whoever asked waits for no answer any more."""
NO_PERSON = frozenset({NOBODY, TIMED_OUT, WITHDRAWN})
NETWORK = "network"
OUTSIDE = "outside-workspace"
HIDDEN = "hidden-place"
UNSEEN = "unseen-place"
"""Rules of what lies outside of the sandbox, the last for what a command missed there; their subjects are
`connect HOST`, `write PATH` and `read PATH`.
"""
SITE = "site"
"""The rule of what the browser opens, and of what its pages send elsewhere: `visit HOST`, `send HOST FROM`."""
UNCOPIED = "uncopied-folder"
"""The rule of what a command may change in an opened folder that is too large to be copied: `change PATH`."""
READ = "read"
CONNECT = "connect"
WRITE = "write"
VISIT = "visit"
SEND = "send"


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A question to the person: may this call have its effect? The wider answers come with what they would cover."""

    approval_id: str
    call_id: str
    tool: str
    subject: str
    rule: str
    reason: str
    cwd: str = ""
    fingerprint: str = ""
    once_covers: str = ""
    session_covers: str = ""
    always_covers: str = ""
    no_covers: str = ""


class ApprovalAnswer(Struct, frozen=True):
    """The person's answer to an approval request. `by` says whose it is; `note` is for the model (why not, what
    instead).
    """

    scope: AnswerScope
    by: str
    note: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the call may run."""
        return self.scope is not AnswerScope.DENY


class Approver(Protocol):
    """Puts approval questions to a person. No answer in time, or nobody there, is an answer: not allowed."""

    async def ask(self, request: ApprovalRequest, show: Callable[[ApprovalRequest], None]) -> ApprovalAnswer:
        """Return the person's answer, given once to one caller.

        `show` is called once the question is on disk, with the id by which it can be answered: an older one
        when the same call asked already, before its process died. It is not called when nobody can be asked.
        """
        ...


class PermissionGate(Protocol):
    """Decides what a call may do. Nothing that a model, a file or a tool says can change what it decides."""

    def decide_call(self, tool: Tool, arguments: Arguments, context: ToolContext) -> PermissionDecision:
        """Return the decision for a call. Fast, without effects; symlinks are resolved as they are now."""
        ...

    def decide_connection(self, host: str, port: int, context: ToolContext, name: str = "") -> PermissionDecision:
        """Return the decision for a connection that a command in a sandbox wants to make; `name` led to it."""
        ...

    def decide_site(self, host: str, port: int, context: ToolContext, sender: str = "") -> PermissionDecision:
        """Return the decision for a site that the browser wants to open, or to which a page of `sender` wants to send
        data.
        """
        ...

    def decide_opening(self, denied: DeniedPath, context: ToolContext) -> PermissionDecision:
        """Return the decision for a path that a command in a sandbox wants to read or write."""
        ...

    def remember_refusal(self, decision: PermissionDecision) -> None:
        """Remember what a person's no covers beyond the call."""
        ...

    async def remember_approval(self, decision: PermissionDecision, scope: AnswerScope) -> None:
        """Remember what a person's answer covers beyond the call. Raises HermesError when it cannot be stored."""
        ...


class CallReviewer(Protocol):
    """Reviews a call that the rules allow. It can only make the decision stricter."""

    async def review(self, decision: PermissionDecision, tool: Tool, arguments: Arguments) -> PermissionDecision:
        """Return the same decision, or one that asks."""
        ...
