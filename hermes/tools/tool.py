"""The tool type, and the decorator that makes one from a typed async function."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from pkgutil import resolve_name
from typing import TypedDict, Unpack

from msgspec import Struct

from hermes.config.settings import Settings
from hermes.core.frame import ToolSchema
from hermes.core.messages import ImagePart, Provenance, ToolStatus
from hermes.execution.base import DeniedPath
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import CommandFinding
from hermes.tools.schema import Arguments, ParameterSet, parameters_from_function
from hermes.tools.session import ToolContext
from hermes.util.renamed import renamed_names
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)
_MAX_REASON = 200
MAX_SUMMARY = 120
"""The characters of the line that shows a call."""


class Parallel(StrEnum):
    """Says which calls may run beside a call."""

    SAFE = "safe"
    """Beside anything that is not serial."""
    PATHS = "paths"
    """Beside calls whose paths do not conflict with its own."""
    SERIAL = "serial"
    """Beside nothing."""
    NEVER = "never"
    """Beside nothing, and a batch that holds such a call runs one after another as a whole."""


class PathUse(Struct, frozen=True):
    """A path that a call reads, or writes."""

    path: str
    write: bool = False
    keeps_text: bool = False
    """Whether a write leaves text that was in the call's files before, in this one or in another of them."""


class Redirect(Struct, frozen=True):
    """Another call that a call stands for: it is validated, gated, journaled and shown in its place."""

    name: str
    arguments: str


class ToolOutput(Struct, frozen=True, kw_only=True):
    """A result with more than text.

    `provenance` is given when the text does not come from the tool itself; `is_own_text` says of a failure
    that all of its words are the tool's own.
    """

    text: str
    status: ToolStatus = ToolStatus.OK
    failed: bool = False
    """Whether what was run reports failure itself, though the tool has done its work."""
    code: int = 0
    """The exit code of a program that failed; negative for a signal."""
    contacted_hosts: frozenset[str] | None = None
    """The hosts from which anything came; None: nobody saw that, so the hosts that the call names count."""
    opened_paths: tuple[DeniedPath, ...] = ()
    """The places that were opened to its command, so that what it prints may be of them."""
    images: tuple[ImagePart, ...] = ()
    provenance: Provenance | None = None
    is_own_text: bool = False


class ToolRequirements(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be there so that a tool can work: data, so that nothing is imported to decide. In each entry names
    that are joined by `|` are as good as each other: `BRAVE_SEARCH_API_KEY|BRAVE_API_KEY`.
    """

    variables: tuple[str, ...] = ()
    """Environment variables, of the process or of `.env`, which hold keys and addresses."""
    programs: tuple[str, ...] = ()
    """Programs that are found by `PATH`."""

    def explain_missing(self, environ: Mapping[str, str]) -> str:
        """Return which variable or program is missing, for a person; empty where none is."""
        for names in self.variables:
            if not any(environ.get(name, "").strip() for name in names.split("|")):
                if "|" in names:
                    return N_("it needs one of the variables {names}", names=names.replace("|", ", "))
                return N_("it needs the variable {names}", names=names)
        if self.programs:
            from shutil import which

            for names in self.programs:
                if not any(which(name, path=environ.get("PATH", "")) for name in names.split("|")):
                    return N_("it needs the program {names}", names=names.replace("|", " / "))
        return ""


NO_REQUIREMENTS = ToolRequirements()


class AvailabilityCheck(Struct, frozen=True, kw_only=True):
    """A function that tells of the rest: it is imported only where a setting that it reads has not its default.

    It is named by code alone, never by a manifest or another file of a plug-in, since what is named is run.
    """

    function: str
    """`module:function`: it takes the environment variables and the settings, and returns why the tool cannot work,
    without a stop at the end; empty where it can. It is cheap: it starts nothing and reaches nothing.
    """
    settings: tuple[str, ...] = ()
    """The settings that it reads, such as `web.search_backend`. Without any it is always called."""

    def explain_missing(self, environ: Mapping[str, str], settings: Settings) -> str:
        """Return what the function says; one that fails counts as a no."""
        try:
            said: object = resolve_name(self.function)(environ, settings)
        except Exception as error:  # noqa: BLE001 - it may be others' code: without an answer nothing is offered
            _LOG.warning("%s cannot tell whether its tool can work", self.function, exc_info=True)
            return N_("its check failed: {error}", error=to_one_line(f"{type(error).__name__}: {error}", _MAX_REASON))
        return said if isinstance(said, str) else N_("its check gave no text")


ToolFunction = Callable[..., Awaitable[str | ToolOutput]]


class ToolTraits(TypedDict, total=False):
    """The properties of a tool besides its function; see the fields of `Tool`."""

    parallel: Parallel
    repeatable: bool
    cap: int
    deferred: bool
    brief: str
    changes_files: bool
    refunds: bool
    calls_tools: bool
    polls: bool
    housekeeping: bool
    summary: Callable[[Arguments], str]
    paths: Callable[[Arguments], Sequence[PathUse]]
    command: Callable[[Arguments], str]
    types_into: Callable[[Arguments], str]
    hosts: Callable[[Arguments], Sequence[str]]
    keeps: Callable[[Arguments], str]
    shown: Callable[[Arguments], str]
    texts: Callable[[Arguments], Mapping[str, str | None]]
    doubts: Callable[[Arguments, Sequence[str]], Sequence[CommandFinding]]
    redirect: Callable[[Arguments], Redirect]
    requirements: ToolRequirements
    availability: AvailabilityCheck


class Tool(Struct, frozen=True, kw_only=True):
    """A function that a model can call.

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
    """The characters of a result before it is spilled to a file; 0: the session's limit."""
    deferred: bool = False
    """Whether it is kept out of the fixed array and found through `tool_search`."""
    brief: str = ""
    """Of a deferred tool: what it is for in a few words, which `tool_search` names to the model."""
    changes_files: bool = False
    """Whether a call may change files of the workspace that it does not name, without being a command."""
    refunds: bool = False
    """Whether a batch of nothing but such calls costs the turn no step."""
    calls_tools: bool = False
    """Whether it runs code that calls other tools: it gets `ToolContext.nested_calls`, and code cannot call it."""
    polls: bool = False
    """Whether calling it again with the same result is its normal use, as with waiting for a process."""
    runs_at_caller: bool = False
    """Whether the program that asks runs it: a call is checked and handed over, and the turn ends with it."""
    housekeeping: bool = False
    """Whether it only keeps the agent's own data in order, so that an answer given beside it is the answer."""
    summary: Callable[[Arguments], str] = lambda _: ""
    """A few words for the line that shows the call."""
    paths: Callable[[Arguments], Sequence[PathUse]] = lambda _: ()
    """The paths it will touch, for the gate and for running calls side by side."""
    command: Callable[[Arguments], str] = lambda _: ""
    """The shell text it will run, for the gate; empty when none."""
    types_into: Callable[[Arguments], str] = lambda _: ""
    """The id of the running process that is given that text, which need not be a shell; empty: it is a command."""
    hosts: Callable[[Arguments], Sequence[str]] = lambda _: ()
    """The URLs that it will reach because the model named them, for the gate. Not those that the person set up."""
    keeps: Callable[[Arguments], str] = lambda _: ""
    """What it stores beyond the session (a memory, a skill, a job), in a few words, for the gate; empty:
    nothing.
    """
    shown: Callable[[Arguments], str] = lambda _: ""
    """What a question about the call names besides its paths and URLs; a yes is for exactly that."""
    texts: Callable[[Arguments], Mapping[str, str | None]] = lambda _: {}
    """What it puts into which file, as a question shows that of files which act later, where untrusted content is in
    the conversation; None for a file whose text does not stand in the call.
    """
    doubts: Callable[[Arguments, Sequence[str]], Sequence[CommandFinding]] = lambda _, __: ()
    """The tool owner's findings against a call while text from these sources is in the conversation."""
    origin: Provenance | None = None
    """The provenance of its description and schema; None: Hermes' own."""
    note: str = ""
    """What its owner says of all its tools together, which `tool_search` shows beside them; of the same origin."""
    redirect: Callable[[Arguments], Redirect] | None = None
    """Returns the call that this one stands for, for a tool that only stands for another."""
    requirements: ToolRequirements = NO_REQUIREMENTS
    """What must be there so that it can work: where it is not, the tool is not offered."""
    availability: AvailabilityCheck | None = None
    """A function that tells of what `requirements` cannot say."""

    def format_line(self, arguments: Arguments) -> str:
        """Return what a call does, on one short line."""
        return to_one_line(self.summary(arguments), MAX_SUMMARY)

    @property
    def schema(self) -> ToolSchema:
        """The schema that the model is shown."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters.schema())

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        """Run the tool. Raises `ToolError` with a text for the model when it cannot do what was asked."""
        output = await self.parameters.call(self.function, context, arguments)
        return output if isinstance(output, ToolOutput) else ToolOutput(text=output)


def tool(toolset: str, **traits: Unpack[ToolTraits]) -> Callable[[ToolFunction], Tool]:
    """Make a tool of an async function `(ctx, parameter, ...)`.

    Each parameter is `Annotated[type, "what it is"]`; the schema comes from the signature, the description from the
    docstring, the name from the function.
    """

    def make_tool(function: ToolFunction) -> Tool:
        description = " ".join((function.__doc__ or "").split())
        name = function.__name__
        return Tool(
            name=name,
            toolset=toolset,
            description=description,
            parameters=parameters_from_function(function),
            function=function,
            **traits,
        )

    return make_tool


__getattr__ = renamed_names(__name__)
