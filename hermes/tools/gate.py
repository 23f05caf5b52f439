"""What stands between a call and its effect: the gate decides, a person answers where it asks."""

import fnmatch
import os.path
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from hermes.safety.findings import Finding, Verdict
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool


class Decision(Struct, frozen=True):
    """What may happen with a call. `subject` is the command, or the tool and path, that the decision is about.

    A decision is for one folder: the same command in another one is another decision.
    """

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    subject: str = ""
    cwd: str = ""


ALLOWED = Decision(Verdict.ALLOW)


class ApprovalRequest(Struct, frozen=True):
    """A question to the person: may this call have its effect?"""

    approval_id: str
    call_id: str
    tool: str
    subject: str
    rule: str
    reason: str


class Answer(Struct, frozen=True):
    """The person's answer. `by` says whose it is; `note` is for the model (why not, what instead)."""

    allowed: bool
    by: str
    note: str = ""


class Approver(Protocol):
    """Puts approval questions to a person. No answer in time, or nobody there, is an answer: not allowed."""

    async def ask(self, request: ApprovalRequest) -> Answer:
        """The person's answer."""
        ...


class Gate(Protocol):
    """Decides what a call may do. Nothing that a model, a file or a tool says can change what it decides."""

    def decide(self, tool: Tool, arguments: Arguments, context: ToolContext) -> Decision:
        """The decision for a call. Fast, without effects; symlinks are resolved as they are now."""
        ...


class RuleGate:
    """Decides by the rules of `hermes.safety`.

    `allow` holds patterns of the person's (`*` and `?` as in file names), each matched against a whole simple command,
    its words joined by spaces: what matches needs no answer. A pattern never lifts a refusal.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = tuple(allow)

    def decide(self, tool: Tool, arguments: Arguments, context: ToolContext) -> Decision:
        """The strictest of what the rules say about the call's paths and command."""
        for use in tool.paths(arguments):
            refused = self._path(use.path, write=use.write, context=context)
            if refused:
                subject = f"{tool.name} {use.path}"
                return Decision(Verdict.DENY, "protected-path", f"{use.path} is not open to tools: {refused}", subject)
        command = tool.command(arguments)
        if not command:
            return ALLOWED
        from hermes.safety.commands import judge  # its tables and patterns are read when there is a command to judge

        cwd = str(context.resolve(str(arguments.get("workdir") or ".")))
        return self._strictest(judge(command, cwd, context.places), command, cwd)

    def _path(self, path: str, *, write: bool, context: ToolContext) -> str:
        from hermes.safety.paths import read_refused, write_refused

        places = context.places
        refused = write_refused if write else read_refused
        real = context.real(path)
        if real is None:
            return "where it leads cannot be told"
        named = str(context.resolve(path))
        return refused(real, places) or (refused(os.path.normpath(named), places) if named != real else "")

    def _allowed(self, finding: Finding) -> bool:
        if not finding.whole:
            return finding.subject in self._allow or "*" in self._allow
        return any(fnmatch.fnmatchcase(finding.subject, pattern) for pattern in self._allow)

    def _strictest(self, findings: Sequence[Finding], command: str, cwd: str) -> Decision:
        asks: Finding | None = None
        for finding in findings:
            if finding.verdict is Verdict.DENY:
                return Decision(Verdict.DENY, finding.rule, finding.reason, command, cwd)
            if asks is None and not self._allowed(finding):
                asks = finding
        return ALLOWED if asks is None else Decision(Verdict.ASK, asks.rule, asks.reason, command, cwd)
