"""The tools of a folder plug-in as deferred tools of a session."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Raw, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source, ToolStatus
from hermes.i18n.messages import N_
from hermes.plugin_host.channel import PluginError, PluginRefusedError
from hermes.plugin_host.folders import PluginFolder
from hermes.plugin_host.given_sources import GivenSources
from hermes.plugin_host.manifest import ToolDeclaration, WorkspaceAccess
from hermes.safety.fencing import reveal_hidden_text
from hermes.safety.paths import Places
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.tools.schema import Arguments, ExternalParameters, format_arguments, format_for_question
from hermes.tools.session import ToolContext
from hermes.tools.taint import PLUGIN_LABEL, describe_source, name_source
from hermes.tools.tool import Parallel, Tool, ToolOutput

TOOL_PREFIX = "plugin__"


class _ToolResult(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(max_length=500_000)]
    is_error: bool = False


_DECODER = msgspec.json.Decoder(_ToolResult)


def plugin_toolset_name(plugin: str) -> str:
    """Return the name of the tool set of a plug-in."""
    return f"plugin-{plugin}"


def plugin_source(plugin: str) -> str:
    """Return the name of a plug-in as a source of text."""
    return name_source(Source.OTHER, f"{PLUGIN_LABEL}{plugin}")


class ToolCaller(Protocol):
    """Calls the tools of one plug-in for one session."""

    async def call_tool(
        self, params: object, seconds: float, *, writes: bool, places: Places
    ) -> tuple[Raw, Sequence[str]]:
        """Call a tool; return its result, and lines about what it left. Raises PluginError and PluginRefusedError."""
        ...


def build_plugin_tools(folder: PluginFolder, caller: ToolCaller, given: GivenSources) -> list[Tool]:
    """Return the tools of a plug-in. Nothing is started before one is called."""
    return [_build_tool(folder, declared, caller, given) for declared in folder.manifest.tools]


def _build_tool(folder: PluginFolder, declared: ToolDeclaration, caller: ToolCaller, given: GivenSources) -> Tool:
    plugin = folder.name
    has_hosts = bool(folder.manifest.hosts)
    writes = folder.manifest.capabilities.workspace is WorkspaceAccess.WRITE and not declared.read_only

    async def call_tool(context: ToolContext, arguments: Arguments) -> ToolOutput:
        await given.add(context.state.taint.list_sources())
        sources = dict.fromkeys([*_list_own_sources(folder, context), *given.list_all()])
        # Of this kind also for a single file's source: the executor does not look for paths of its own then.
        provenance = Provenance(Source.OTHER, "\n".join(sources)) if sources else None
        params = {
            "name": declared.name,
            "arguments": arguments,
            "session": context.session_id,
            "folder": context.places.workspace,
        }
        try:
            raw, notes = await caller.call_tool(params, declared.timeout, writes=writes, places=context.places)
            result = _DECODER.decode(raw)
        except PluginError as error:
            raise ToolError(f"The plug-in {plugin}: {error}.") from None
        except PluginRefusedError as error:
            said = f"The plug-in answered with an error: {error}"
            return ToolOutput(text=said, status=ToolStatus.ERROR, provenance=provenance)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ToolError(f"The plug-in {plugin}: its result cannot be read ({error!s:.200}).") from None
        status = ToolStatus.ERROR if result.is_error else ToolStatus.OK
        text = reveal_hidden_text(result.text).text
        text = "\n".join((text or "(nothing)", *(f"[{one}]" for one in notes)))
        return ToolOutput(text=text, status=status, provenance=provenance)

    def find_doubts(_arguments: Arguments, sources: Sequence[str]) -> Sequence[CommandFinding]:
        return _find_tainted_arguments(plugin, sources) if has_hosts else ()

    return Tool(
        name=f"{TOOL_PREFIX}{plugin}__{declared.name}",
        toolset=plugin_toolset_name(plugin),
        description=f"[plug-in {plugin}] {declared.description}",
        parameters=ExternalParameters(
            to_json(declared.parameters), declared.required, "tool_search shows the parameters."
        ),
        function=call_tool,
        parallel=Parallel.SAFE if declared.read_only else Parallel.SERIAL,
        repeatable=declared.read_only,
        changes_files=writes,
        deferred=True,
        brief=declared.description.split("\n")[0][:80],
        summary=format_arguments,
        shown=format_for_question,
        doubts=find_doubts,
        origin=Provenance(Source.OTHER, plugin_source(plugin), vouched=True),
    )


def _list_own_sources(folder: PluginFolder, context: ToolContext) -> Iterator[str]:
    """Yield the untrusted sources of what a plug-in may say whatever it is called with: its hosts, what it hears of
    conversations, and the workspace, as a program that reads all of it finds them.
    """
    manifest, workspace = folder.manifest, context.places.workspace
    if manifest.hosts or manifest.hears_conversations:
        yield plugin_source(folder.name)
    if manifest.capabilities.workspace is not WorkspaceAccess.NONE:
        if place := context.trust.find_untrusted_folder(workspace, workspace):
            yield name_source(Source.FILE, place)
        yield from context.taint_marks.find_sources(workspace)


def _find_tainted_arguments(plugin: str, sources: Sequence[str]) -> Sequence[CommandFinding]:
    """Return a finding if untrusted content from elsewhere may have chosen the arguments, which may leave for the
    plug-in's hosts.
    """
    others = [one for one in sources if one != plugin_source(plugin)]
    if not others:
        return ()
    because = N_("untrusted content from {source} is in this conversation", source=describe_source(others[-1]))
    reason = N_(
        "its arguments go to the plug-in {name}, which reaches hosts, while {because}", name=plugin, because=because
    )
    return (CommandFinding(Verdict.ASK, "tainted-egress", reason, N_("connect plugin:{name}", name=plugin)),)
