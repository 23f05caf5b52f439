"""The tool type, and the decorator that makes one from a typed async function."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypedDict, Unpack

from msgspec import Struct

from hermes.core.frame import ToolSchema
from hermes.core.parts import ImagePart, Provenance, ToolStatus
from hermes.safety.shell.findings import Finding
from hermes.tools.schema import Arguments, ParameterSet, parameters_of
from hermes.tools.session import ToolContext
from hermes.util.text import one_line

DEFAULT_CAP = 50_000
"""Characters of a result before it is spilled to a file."""
SUMMARY = 120
"""Characters of the line that shows a call."""


class Parallel(StrEnum):
    """What a call may run beside."""

    SAFE = "safe"
    """Anything that is not serial."""
    PATHS = "paths"
    """Calls whose paths do not conflict with its own."""
    SERIAL = "serial"
    """Nothing."""
    NEVER = "never"
    """Nothing, and a batch that holds such a call runs one after another as a whole."""


class PathUse(Struct, frozen=True):
    """A path that a call reads, or writes."""

    path: str
    write: bool = False


class Redirect(Struct, frozen=True):
    """Another call that a call stands for: it is validated, gated, journaled and shown in its place."""

    name: str
    arguments: str


class ToolOutput(Struct, frozen=True, kw_only=True):
    """A result with more than text. `provenance` is given when the text comes from elsewhere than the tool itself;
    `ours` says of a failure that all of its words are the tool's own.
    """

    text: str
    status: ToolStatus = ToolStatus.OK
    failed: bool = False
    """Whether what was run says itself that it failed, though the tool has done its work."""
    code: int = 0
    """What a program that failed ended with; negative for a signal."""
    reached: frozenset[str] | None = None
    """The hosts from which anything came; None: nobody saw that, so those count which the call names."""
    images: tuple[ImagePart, ...] = ()
    provenance: Provenance | None = None
    ours: bool = False


ToolFunction = Callable[..., Awaitable[str | ToolOutput]]


class Traits(TypedDict, total=False):
    """What is true of a tool besides its function; see the fields of `Tool`."""

    parallel: Parallel
    repeatable: bool
    cap: int
    deferred: bool
    refunds: bool
    polls: bool
    housekeeping: bool
    summary: Callable[[Arguments], str]
    paths: Callable[[Arguments], Sequence[PathUse]]
    command: Callable[[Arguments], str]
    hosts: Callable[[Arguments], Sequence[str]]
    keeps: Callable[[Arguments], str]
    shown: Callable[[Arguments], str]
    doubts: Callable[[Arguments, Sequence[str]], Sequence[Finding]]
    redirect: Callable[[Arguments], Redirect]
    available: Callable[[Mapping[str, str]], bool]


class Tool(Struct, frozen=True, kw_only=True):
    """Something a model can call.

    The functions below take decoded arguments, never raise, and are cheap.
    """

    name: str
    toolset: str
    description: str
    parameters: ParameterSet
    function: ToolFunction
    parallel: Parallel = Parallel.SERIAL
    repeatable: bool = False
    """Whether running it twice does no harm, so that a crash in between needs no question."""
    cap: int = 0
    """Characters of a result before it is spilled to a file; 0: what the session's limits say."""
    deferred: bool = False
    """Whether it is kept out of the fixed array and found through `tool_search`."""
    refunds: bool = False
    """Whether a batch of nothing but such calls costs the turn no step."""
    polls: bool = False
    """Whether calling it again with the same result is its normal use, as with waiting for a process."""
    housekeeping: bool = False
    """Whether it only keeps the agent's own house in order, so that an answer given beside it is the answer."""
    summary: Callable[[Arguments], str] = lambda _: ""
    """A few words for the line that shows the call."""
    paths: Callable[[Arguments], Sequence[PathUse]] = lambda _: ()
    """The paths it will touch, for the gate and for running calls side by side."""
    command: Callable[[Arguments], str] = lambda _: ""
    """The shell text it will run, for the gate; empty when none."""
    hosts: Callable[[Arguments], Sequence[str]] = lambda _: ()
    """The URLs that it will reach because the model named them, for the gate. Not those that the person set up."""
    keeps: Callable[[Arguments], str] = lambda _: ""
    """What it will keep beyond the session (a memory, a skill, a job), in a few words, for the gate; empty: nothing."""
    shown: Callable[[Arguments], str] = lambda _: ""
    """What a question about the call names besides its paths and URLs; a yes is for exactly that."""
    doubts: Callable[[Arguments, Sequence[str]], Sequence[Finding]] = lambda _, __: ()
    """What the tool's owner says against a call while text from these sources stands in the conversation."""
    origin: Provenance | None = None
    """Whose words its description and schema are; None: Hermes' own."""
    redirect: Callable[[Arguments], Redirect] | None = None
    """For a tool that only stands for another: which call it is."""
    available: Callable[[Mapping[str, str]], bool] = lambda _: True
    """Whether it can work with these settings and keys; one that cannot is not offered."""

    def line(self, arguments: Arguments) -> str:
        """What a call does, on one short line."""
        return one_line(self.summary(arguments), SUMMARY)

    @property
    def schema(self) -> ToolSchema:
        """What the model is shown."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters.schema())

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        """Run it. Raises `ToolError` with a text for the model when it cannot do what was asked."""
        output = await self.parameters.call(self.function, context, arguments)
        return output if isinstance(output, ToolOutput) else ToolOutput(text=output)


def tool(toolset: str, **traits: Unpack[Traits]) -> Callable[[ToolFunction], Tool]:
    """Make a tool of an async function `(ctx, parameter, ...)`.

    Each parameter is `Annotated[type, "what it is"]`; the schema comes from the signature, the description from the
    docstring, the name from the function.
    """

    def make(function: ToolFunction) -> Tool:
        description = " ".join((function.__doc__ or "").split())
        name = function.__name__
        return Tool(
            name=name,
            toolset=toolset,
            description=description,
            parameters=parameters_of(function),
            function=function,
            **traits,
        )

    return make
