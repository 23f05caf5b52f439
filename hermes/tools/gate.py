"""What stands between a call and its effect: the gate decides, a person answers where it asks."""

import os.path
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, structs

from hermes.safety.findings import Finding, Verdict
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool


class Decision(Struct, frozen=True):
    """What may happen with a call. `subject` is the command, or the tool and path, that the decision is about.

    A decision is for one folder: the same command in another one is another decision. `pattern` is what would have to
    be among the allowed patterns for the call to run without a question; empty where none would help.
    """

    verdict: Verdict
    rule: str = ""
    reason: str = ""
    subject: str = ""
    cwd: str = ""
    pattern: str = ""


ALLOWED = Decision(Verdict.ALLOW)


NOBODY = "nobody there to ask"
TIMED_OUT = "no answer in time"
"""Who answered, where no person did."""


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

    `allow` holds patterns of the person's: what one of them covers needs no answer (`hermes.safety.patterns`), nor does
    a line that is one of them, letter by letter. A pattern never lifts a refusal.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = tuple(pattern.strip() for pattern in allow)

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
        from hermes.safety.commands import analyse  # its tables are read when there is a command to judge

        folder = str(arguments.get("workdir") or ".")
        real = context.real(folder)
        cwd = real if real is not None and ".." in folder.split("/") else str(context.resolve(folder))
        places = context.places
        if real == places.workspace:
            places = structs.replace(places, workspace=cwd)  # the session's own folder by the name it goes by here
        line = command.strip() if cwd == places.workspace else f"cd {cwd} && {command.strip()}"
        return self._strictest(
            analyse(command, cwd, places).findings, Decision(Verdict.ASK, "", "", command, cwd, line)
        )

    def _path(self, path: str, *, write: bool, context: ToolContext) -> str:
        from hermes.safety.paths import read_refused, write_refused

        places = context.places
        refused = write_refused if write else read_refused
        real = context.real(path)
        if real is None:
            return "where it leads cannot be told"
        named = str(context.resolve(path))
        return refused(real, places) or (refused(os.path.normpath(named), places) if named != real else "")

    def _strictest(self, findings: Sequence[Finding], asked: Decision) -> Decision:
        """What the findings come to. `asked` is about the command, its pattern the one that allows the whole line."""
        from hermes.safety.patterns import covers, literal

        for finding in findings:
            if finding.verdict is Verdict.DENY:
                return structs.replace(
                    asked, verdict=Verdict.DENY, rule=finding.rule, reason=finding.reason, pattern=""
                )
        asks = [one for one in findings if not any(covers(pattern, one.subject) for pattern in self._allow)]
        if not asks or asked.pattern in self._allow:
            return ALLOWED
        subjects = {one.subject for one in asks}
        pattern = literal(subjects.pop()) if len(subjects) == 1 and "" not in subjects else asked.pattern
        return structs.replace(asked, rule=asks[0].rule, reason=asks[0].reason, pattern=pattern)
