"""Tools of a program: a plain function with type hints becomes a tool that the model can call."""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import cast, get_type_hints

import msgspec

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError, UsageError
from hermes.i18n.messages import N_
from hermes.tools.schema import FunctionParameters
from hermes.tools.session import ToolContext
from hermes.tools.tool import Tool, ToolOutput
from hermes.util.text import clean_surrogates

TOOLSET = "program"
"""The tool set of a program's own tools."""
_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_USABLE = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
ProgramTool = Tool | Callable[..., object]


def make_tools(given: Iterable[ProgramTool]) -> tuple[Tool, ...]:
    """Return the tools of a program. Raises UsageError for what cannot be one."""
    listed: object = given
    if isinstance(listed, str | Mapping) or not isinstance(listed, Iterable):
        raise UsageError("tools must be a list of functions.")
    return tuple(one if isinstance(one, Tool) else make_function_tool(one) for one in given)


def make_function_tool(function: Callable[..., object]) -> Tool:
    """Make a tool of a plain or async function: its name, docstring and type hints are what the model is shown.

    `Annotated[type, "what it is"]` describes a parameter. A plain function runs in a thread. What is returned goes to
    the model: text as it is, other values as JSON. An exception tells the model that the call failed, and is logged.
    """
    name = getattr(function, "__name__", "")
    if not _NAME.fullmatch(name):
        raise UsageError(
            N_("{given} cannot be a tool.", given=repr(function)[:80]), "Give a function with a name: def f(x: int)."
        )
    hints, parameters = _read_parameters(function, name)
    takes_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext

    async def run(context: ToolContext, *whole: object, **arguments: object) -> str | ToolOutput:
        values = [context, *whole] if takes_context else whole
        try:
            if inspect.iscoroutinefunction(function):
                return _format_value(await cast(Awaitable[object], function(*values, **arguments)))
            return _format_value(await asyncio.to_thread(function, *values, **arguments))
        except ToolError:
            raise
        except Exception as error:  # a program's own code may raise anything; the model is told, and goes on
            _LOG.exception("the program's tool %s failed", name)
            raise ToolError(f"{name} failed: {type(error).__name__}: {clean_surrogates(str(error))[:2_000]}") from error

    own = parameters[1:] if takes_context else parameters
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ToolContext)
    run.__signature__ = inspect.Signature([first, *own])  # type: ignore[attr-defined]  # `inspect.signature` reads it
    run.__annotations__ = {"context": ToolContext, **{one.name: hints[one.name] for one in own}}
    try:
        described = FunctionParameters(run)
        described.schema()
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise UsageError(
            N_("The tool {name} has a parameter that JSON cannot hold: {error}.", name=name, error=error),
            "Use text, numbers, booleans, lists, dicts, Literal and Annotated.",
        ) from None
    return Tool(
        name=name,
        toolset=TOOLSET,
        description=" ".join((inspect.getdoc(function) or name).split()),
        parameters=described,
        function=run,
    )


def _read_parameters(
    function: Callable[..., object], name: str
) -> tuple[dict[str, object], tuple[inspect.Parameter, ...]]:
    """Return the type hints and the parameters of a function. Raises UsageError where a call by name cannot work."""
    try:
        hints = get_type_hints(function, include_extras=True)
        parameters = tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(N_("The tool {name} cannot be read: {error}.", name=name, error=error)) from None
    for one in parameters:
        if one.kind not in _USABLE or one.name not in hints:
            raise UsageError(
                N_("The tool {name} needs a type hint for {parameter}.", name=name, parameter=repr(one.name)),
                "Each parameter has a name and a type: def f(city: str, days: int = 3).",
            )
    return hints, parameters


def _format_value(value: object) -> str | ToolOutput:
    """Return a function's value as a result for the model."""
    if isinstance(value, str | ToolOutput):
        return value if isinstance(value, ToolOutput) else clean_surrogates(value)
    if value is None:
        return "Done."
    try:
        return to_json(value).decode()
    except (TypeError, ValueError, RecursionError):
        return clean_surrogates(str(value))
