"""What a sub-agent's session begins with: options taken over from its parent's session, and its first message."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.config.settings import ModelReference, Settings
from hermes.core.errors import ToolError
from hermes.core.messages import PROGRAM, TextPart
from hermes.core.sub_agents import TASK_HEADING, SubAgentTask
from hermes.providers.resolve import ModelChoice
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.model.model_route import choose_model, fallback_choices, make_model_choice
from hermes.sessions.options import SessionOptions
from hermes.store.records import SUB_AGENT_SOURCE
from hermes.store.sub_agents import SubAgentRow
from hermes.tools.taint import provenance_from_sources
from hermes.tools.toolsets import ALL_TOOLSETS, MCP_TOOLSET, is_mcp_toolset, resolve_toolset

if TYPE_CHECKING:
    from hermes.sessions.features.described_agents import DescribedAgent
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession
    from hermes.tools.tool import Tool

_TAKEN_AWAY = ("clarify", "memory", "messages", "code_execution", "cronjob")
"""Tool sets that no sub-agent has: what they do is the parent's or the person's."""
MIXTURE_PATH = "moa.presets."
"""How a task names a model of a mixture: by its place in the settings, since there stand its address and key."""
_INSTRUCTIONS = (
    "You are a sub-agent. Another agent has given you one task; it sees nothing of your work but your last answer. "
    "Work with your tools until the task is done or cannot be done. Nobody answers questions: where something is "
    "unclear, decide by yourself and say what you decided. Your last answer is your report: what you found or did, "
    "with the paths of files that matter, and what is left undone. Programs that you leave running end with you."
)


def build_child_options(parent: "LiveSession", row: SubAgentRow, settings: Settings, folder: str) -> SessionOptions:
    """Return the options of a sub-agent's session: its parent's, without what a sub-agent has not. It works in
    `folder`.
    """
    own, task, delegation = parent.options, row.task, settings.delegation
    orchestrates = task.role == "orchestrator" and row.depth < delegation.max_spawn_depth
    taken_away = _TAKEN_AWAY if orchestrates else (*_TAKEN_AWAY, "delegation")
    disabled = parent.overrides.disabled if parent.overrides.disabled is not None else own.disabled_toolsets
    options = structs.replace(
        _leave_editor(own),
        max_turns=row.steps,
        enabled_toolsets=_list_toolsets(parent, task),
        tool_names=own.tool_names if task.tools is None else task.tools,
        disabled_toolsets=tuple(dict.fromkeys((*disabled, *taken_away))),
        extra_tools=_list_own_tools(own),
        mode=parent.tools.state.mode,
        platform=SUB_AGENT_SOURCE,
        surroundings="\n\n".join(filter(None, ("" if task.tools == () else _INSTRUCTIONS, task.instructions))),
        reviews=False,
        prefill_messages=(),
        cwd=folder,
        root_id=row.root_id,
        depth=row.depth,
        max_session_cost=min(filter(None, (delegation.max_cost, task.max_cost)), default=None),
        max_tokens=task.max_tokens or own.max_tokens,
        goes_on=True,
    )
    if parent.overrides.effort is not None:
        options = structs.replace(options, reasoning_effort=parent.overrides.effort, reasoning_tokens=None)
    return _choose_model(options, parent, task, settings)


async def describe_agents(
    parent: "LiveSession", services: "Services", tasks: Sequence[SubAgentTask]
) -> list[SubAgentTask]:
    """Return the tasks with what the files of their agents say. Raises ToolError for an unknown agent."""
    wanted = {task.agent for task in tasks if task.agent}
    if not wanted:
        return [*tasks]
    from hermes.sessions.features.described_agents import AgentFiles, describe_task

    if parent.options.person:
        raise ToolError("Described agents are the owner's: leave `agent` out.")
    context = parent.tools.context
    files = AgentFiles(
        services.home,
        context.places.workspace,
        parent.options.trusted_folders,
        context.taint_marks,
        services.environ,
    )
    agents = await asyncio.to_thread(lambda: {name: files.get(name) for name in sorted(wanted)})
    agents = {name: _settle_model(one, parent, services.settings) for name, one in agents.items()}
    found = [describe_task(one, agents[one.agent], parent.tools.toolbox) if one.agent else one for one in tasks]
    return [structs.replace(one, instructions=context.redact(one.instructions)) for one in found]


def _settle_model(agent: "DescribedAgent", parent: "LiveSession", settings: Settings) -> "DescribedAgent":
    """Return an agent without the model of another program's file that is not set up here."""
    named = SubAgentTask(goal="", model=agent.model)
    is_unknown = agent.is_foreign and agent.model and _find_model(named, parent, settings) is None
    return structs.replace(agent, model="") if is_unknown else agent


def build_person_options(parent: "LiveSession", row: SubAgentRow, folder: str) -> SessionOptions:
    """Return the options of a session that a person has asked to work beside theirs: the same tools, mode and model."""
    own, overrides = parent.options, parent.overrides
    options = structs.replace(
        _leave_editor(own),
        max_turns=row.steps,
        enabled_toolsets=_list_enabled(parent),
        extra_tools=_list_own_tools(own),
        disabled_toolsets=overrides.disabled if overrides.disabled is not None else own.disabled_toolsets,
        mode=parent.tools.state.mode,
        cwd=folder,
        root_id=row.root_id,
        depth=row.depth,
    )
    if overrides.effort is not None:
        options = structs.replace(options, reasoning_effort=overrides.effort, reasoning_tokens=None)
    return _use_model(options, parent.route.chosen_model)


def check_task(parent: "LiveSession", task: SubAgentTask, settings: Settings) -> None:
    """Raise ToolError for tools, a model or a role that the parent cannot give to a sub-agent."""
    has = {one.name for one in parent.tools.toolbox}
    for name in task.toolsets:
        if not _is_toolset_present(parent, name, has):
            raise ToolError(
                f"You do not have the tool set {name[:60]!r}, so no sub-agent of yours can. "
                f"Those you have: {', '.join(_list_present(parent, has)) or 'none'}."
            )
    if task.model and _find_model(task, parent, settings) is None:
        known = ", ".join(_name_model(one) for one in _list_models(parent, settings))
        raise ToolError(f"The model {task.model[:80]!r} is not set up for sub-agents. Those that are: {known}.")


def find_mixture_model(path: str, settings: Settings) -> ModelReference | str | None:
    """Return the model of a mixture that stands in the settings under `moa.presets.NAME.NUMBER`, or None."""
    name, _, number = path.removeprefix(MIXTURE_PATH).rpartition(".")
    preset = settings.moa.presets.get(name) if path.startswith(MIXTURE_PATH) else None
    if preset is None or not number.isdecimal() or int(number) >= len(preset.reference_models):
        return None
    return preset.reference_models[int(number)]


def build_task_message(task: SubAgentTask, folder: str, *, branch: str = "") -> InboundMessage:
    """Return the first message of a sub-agent. The model of its parent wrote it, so it counts as what stood there.

    What the sub-agents of a call have in common comes first: a provider's cache holds it for all of them. `branch` is
    that of its worktree, if it has one. One without tools is asked, not given a task.
    """
    if task.tools == ():
        return InboundMessage(text=task.goal, cwd=folder)
    own = f" (a git worktree of your own, on the branch {branch}: commit your work there)" if branch else ""
    context = f"What you need to know:\n{task.context}\n\n" if task.context else ""
    text = f"Workspace: {folder}{own}\n\n{context}{TASK_HEADING}\n{task.goal}"
    origin = provenance_from_sources(task.sources) or PROGRAM
    return InboundMessage(text="", cwd=folder, quoted=(TextPart(text=text, provenance=origin),))


def _list_toolsets(parent: "LiveSession", task: SubAgentTask) -> tuple[str, ...] | None:
    """Return the tool sets of a sub-agent: those that are asked for, as far as its parent has them, or its parent's."""
    if not task.toolsets:
        return _list_enabled(parent)
    has = {one.name for one in parent.tools.toolbox}
    return tuple(one for one in task.toolsets if _is_toolset_present(parent, one, has))


def _list_enabled(parent: "LiveSession") -> tuple[str, ...] | None:
    """Return the tool sets of a session; None for those of the settings, which is what no override of any means."""
    enabled = parent.overrides.enabled
    return parent.options.enabled_toolsets if enabled is None else enabled or None


def _leave_editor(options: SessionOptions) -> SessionOptions:
    """Return the options without what an editor gives to the one session that it shows."""
    return structs.replace(options, editor_files=None, handed_servers={}, keeps_unused=False)


def _list_own_tools(options: SessionOptions) -> "tuple[Tool, ...]":
    """Return the tools of a program without those that run at the program: it waits for the calls of one session."""
    return tuple(one for one in options.extra_tools if not one.runs_at_caller)


def _is_toolset_present(parent: "LiveSession", name: str, has: set[str]) -> bool:
    """Return whether the parent has every tool of a set."""
    if is_mcp_toolset(name):
        servers = [one for one in parent.tools.toolbox.servers if one not in parent.options.handed_servers]
        return bool(servers) if name == MCP_TOOLSET else name.removeprefix(f"{MCP_TOOLSET}-") in servers
    known = parent.tools.toolbox.load_toolsets()
    if name not in known or name in ALL_TOOLSETS:
        return False
    tools = resolve_toolset(name, known)
    return bool(tools) and has.issuperset(tools)


def _list_present(parent: "LiveSession", has: set[str]) -> list[str]:
    """Return the tool sets that the parent has whole."""
    names = [name for name in parent.tools.toolbox.load_toolsets() if not name.startswith("hermes-")]
    servers = [f"{MCP_TOOLSET}-{name}" for name in parent.tools.toolbox.servers]
    return [name for name in (*names, *servers) if _is_toolset_present(parent, name, has)]


def _choose_model(
    options: SessionOptions, parent: "LiveSession", task: SubAgentTask, settings: Settings
) -> SessionOptions:
    """Return the options with the sub-agent's model: the task's, that of the settings, or its parent's."""
    chosen = _find_model(task, parent, settings) if task.model else None
    if chosen is None and _is_named(settings.delegation):
        chosen = make_model_choice(settings.delegation)
    return _use_model(options, chosen or parent.route.chosen_model)


def _use_model(options: SessionOptions, chosen: ModelChoice | None) -> SessionOptions:
    if chosen is None:
        return options
    return structs.replace(
        options,
        model=chosen.model,
        provider=chosen.provider,
        base_url=chosen.base_url,
        api_key=chosen.api_key,
        api_mode=chosen.api_mode,
        context_length=chosen.context_length,
        credential_pool=chosen.more_keys,
        key_organisations=chosen.key_organisations,
        request_members=chosen.request_members,
    )


def _find_model(task: SubAgentTask, parent: "LiveSession", settings: Settings) -> ModelChoice | None:
    """Return the model that a task names among those that the person has set up; None for any other: which models are
    paid for is not the model's to say. Where the person names it themselves it may be any.
    """
    if task.is_model_trusted and (one := find_mixture_model(task.model, settings)) is not None:
        return make_model_choice(one)
    known = _list_models(parent, settings)
    found = next((one for one in known if task.model in (_name_model(one), one.model)), None)
    return make_model_choice(task.model) if found is None and task.is_model_trusted else found


def _list_models(parent: "LiveSession", settings: Settings) -> list[ModelChoice]:
    chosen, delegation = parent.route.chosen_model, settings.delegation
    return [
        *([chosen] if chosen is not None else []),
        *([make_model_choice(delegation)] if _is_named(delegation) else []),
        *(one for one in (choose_model(settings.model, parent.options),) if one.model),
        *fallback_choices(settings, parent.options.fallback_models),
    ]


def _is_named(reference: ModelReference) -> bool:
    return bool(reference.model or reference.default or reference.provider or reference.base_url)


def _name_model(one: ModelChoice) -> str:
    return f"{one.provider}/{one.model}" if one.provider else one.model
