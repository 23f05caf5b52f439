"""Agents that people describe, for `delegate_task(agent=NAME)`: Markdown files in `agents/` of the home, and in
`.hermes/agents/` of a trusted project; and those of other programs that the person has agreed to
(`docs/other-agents.md`).

The head of a file says for what it is good (`description`), and may name its `tools` (tool sets and tools, also by the
names that other programs use) and its `model`; its text is what the agent is told. It can only take away: what the
session that delegates has not, an agent has not either, and a project's file names no model that is not set up.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.config.trusted_folders import TrustFile
from hermes.context.described_files import DescribedFile, is_usable_name, read_agent_tables, read_described_files
from hermes.context.prompt import PromptTier
from hermes.core.errors import ToolError
from hermes.core.sub_agents import SubAgentTask
from hermes.sessions.features.foreign_limits import read_foreign_limits, split_tool_names
from hermes.tools.registry import Toolbox
from hermes.tools.toolsets import ALL_TOOLSETS, MCP_TOOLSET, Toolset, is_mcp_toolset, resolve_toolset
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.config.home import HermesHome
    from hermes.tools.taint_marks import TaintMarks

AGENTS_FOLDER = "agents"
PROJECT_FOLDER = ".hermes/agents"
_ABOUT_CHARACTERS = 160
_SECTION_CHARACTERS = 3_000
_SECTION_HEAD = "Described agents, for the argument `agent` of delegate_task:"
_FOREIGN_TOOLS = {
    "read": "read_file",
    "notebookread": "read_file",
    "glob": "search_files",
    "grep": "search_files",
    "ls": "search_files",
    "list": "search_files",
    "write": "write_file",
    "edit": "patch",
    "multiedit": "patch",
    "apply_patch": "patch",
    "bash": "terminal process",
    "shell": "terminal process",
    "bashoutput": "process",
    "killshell": "process",
    "websearch": "web_search",
    "webfetch": "web_extract",
    "todowrite": "todo",
    "todoread": "todo",
    "task": "delegate_task",
    "agent": "delegate_task",
    "subagent": "delegate_task",
    "skill": "skills_list skill_view",
}
"""What tools of other programs are called here, by their names without capitals."""
_FOREIGN_MODELS = frozenset(("inherit", "default", "sonnet", "opus", "haiku"))
"""Words of other programs in the place of a model: the agent has its parent's."""


class DescribedAgent(Struct, frozen=True, kw_only=True):
    """An agent that a file describes. `tools` are as they stand there; None where it says nothing of them."""

    name: str
    about: str
    instructions: str
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    """The tools that it has not, whatever else it has, as they stand there."""
    model: str = ""
    is_project: bool = False
    """Whether the project describes it, and not the person's home."""
    is_foreign: bool = False
    """Whether it is a file of another program, whose model counts where it is set up here."""


class AgentFiles:
    """The files that describe agents for sessions in one folder. They are read afresh each time, in the caller's
    thread.
    """

    def __init__(
        self,
        home: "HermesHome",
        folder: str,
        trusted_folders: Sequence[str],
        marks: "TaintMarks",
        environ: Mapping[str, str],
    ) -> None:
        self._home = home
        self._own = home.root / AGENTS_FOLDER
        self._folder = folder
        self._trusted_folders = trusted_folders
        self._trust = TrustFile(home.trust_file, trusted_folders)
        self._environ = environ
        self._marks = marks

    def list_all(self) -> list[DescribedAgent]:
        """Return the agents by name: the home's file comes before the project's, and these before those of other
        programs. Raises ConfigError for a damaged file of agreements.
        """
        found = {one.name: _read_agent(one, is_project=False) for one in read_described_files(self._own)}
        place = os.path.realpath(os.path.join(self._folder, PROJECT_FOLDER))
        if self._trust.is_trusted_folder(place):
            for one in read_described_files(Path(place), lambda path: bool(self._marks.find_sources(path))):
                found.setdefault(one.name, _read_agent(one, is_project=True))
        for foreign in self._read_foreign() if os.path.lexists(self._home.consent_file) else ():
            found.setdefault(foreign.name, foreign)
        return [found[name] for name in sorted(found)]

    def _read_foreign(self) -> Iterator[DescribedAgent]:
        """Yield the agents of other programs that the person has agreed to."""
        from hermes.config.other_agents import FileKind, list_agreed_places

        places = list_agreed_places(FileKind.AGENTS, self._home, self._environ, self._folder, self._trusted_folders)
        for place in places:
            for one in read_foreign_agents(place.path, lambda path: bool(self._marks.find_sources(path))):
                agent, problem = read_foreign_agent(one, is_project=place.is_project)
                if not problem:
                    yield agent

    def get(self, name: str) -> DescribedAgent:
        """Return the agent of that name. Raises ToolError, which says which ones there are."""
        agents = self.list_all()
        found = next((one for one in agents if one.name == name.lower()), None)
        if found is not None:
            return found
        known = f"Those there are: {', '.join(one.name for one in agents)}." if agents else "None is described."
        raise ToolError(f"There is no agent {name[:40]!r}. {known}{self._explain_unused(name.lower())}")

    def _explain_unused(self, name: str) -> str:
        """Say why a file of that name in the project is not used, where there is one."""
        if not is_usable_name(name):
            return ""
        if os.path.lexists(os.path.join(self._folder, PROJECT_FOLDER, f"{name}.md")):
            return (
                f" {PROJECT_FOLDER}/{name}.md is not used: its folder is not trusted, or it was written beside"
                " untrusted content. Only the person can change that."
            )
        from hermes.config.other_agents import FileKind, find_project_file

        found = find_project_file(FileKind.AGENTS, self._folder, f"{name}.md")
        if found is None:
            return ""
        agent, file = found
        return (
            f" {file} belongs to another program; the person can move it to {PROJECT_FOLDER}/, or have it read by"
            f" `hermes import {agent.name} --read-in-place`."
        )


class AgentsSection:
    """The prompt section that tells a session which agents are described, where it can delegate."""

    name = "agents"
    tier = PromptTier.CONTEXT

    def __init__(self, files: AgentFiles) -> None:
        self._files = files
        self._toolbox: Toolbox | None = None

    def use_tools(self, toolbox: Toolbox) -> None:
        """Use the tools of the session: the section is empty where those that delegate are not among them."""
        self._toolbox = toolbox

    def render_text(self) -> str:
        """Return a line for each agent; empty without any."""
        if self._toolbox is None or "delegate_task" not in self._toolbox.list_deferred_names():
            return ""
        lines = [f"- {one.name}: {one.about}" for one in self._files.list_all()]
        shown = [line for number, line in enumerate(lines) if len("\n".join(lines[: number + 1])) < _SECTION_CHARACTERS]
        left = [f"- and {len(lines) - len(shown)} more; an unknown name is answered with all"] if lines != shown else []
        return "\n".join([_SECTION_HEAD, *shown, *left]) if lines else ""

    def list_remarks(self) -> Sequence[str]:
        """Return nothing: a file that cannot be used is named when it is asked for."""
        return ()


def describe_task(task: SubAgentTask, agent: DescribedAgent, toolbox: Toolbox) -> SubAgentTask:
    """Return the task with what the agent's file says. Raises ToolError where the session has none of its tools."""
    tools = _resolve_tools(agent.tools, toolbox) if agent.tools is not None else None
    if agent.without:
        tools = _remove_tools(tools, agent.without, toolbox)
    if tools == ():
        raise ToolError(
            f"You have none of the tools of the agent {agent.name!r}: {', '.join(agent.tools or ())[:200]}."
        )
    return structs.replace(
        task,
        agent=agent.name,
        instructions=agent.instructions,
        tools=tools,
        model=task.model or agent.model,
        is_model_trusted=not task.model and bool(agent.model) and not agent.is_project,
    )


def read_foreign_agents(folder: str, is_marked: Callable[[str], bool] = lambda _path: False) -> Iterator[DescribedFile]:
    """Yield the files of a folder in which another program keeps agents."""
    yield from read_described_files(Path(folder), is_marked)
    yield from read_agent_tables(Path(folder), is_marked)


def read_foreign_agent(file: DescribedFile, *, is_project: bool) -> tuple[DescribedAgent, str]:
    """Return the agent of a file of another program with its limits, and why it cannot be used, as the end of a
    sentence; empty where it can. What a limit means that is not known here keeps an agent from being used.
    """
    agent, named = _read_agent(file, is_project=is_project), file.fields.get("name", "").lower()
    agent = structs.replace(agent, name=named if is_usable_name(named) else agent.name, is_foreign=True)
    return agent, read_foreign_limits(file.fields).problem


def _read_agent(file: DescribedFile, *, is_project: bool) -> DescribedAgent:
    about = file.fields.get("description") or file.body.lstrip("# ").partition("\n")[0]
    tools, model = file.fields.get("tools"), file.fields.get("model", "")
    limits = read_foreign_limits(file.fields)
    named = split_tool_names(tools) if tools and tools not in ALL_TOOLSETS else None
    return DescribedAgent(
        name=file.name,
        about=to_one_line(strip_control_characters(about), _ABOUT_CHARACTERS),
        instructions=file.body,
        tools=limits.tools if limits.tools is not None else named,
        without=limits.without,
        model="" if model in _FOREIGN_MODELS else model[:200],
        is_project=is_project,
    )


def _resolve_tools(named: Sequence[str], toolbox: Toolbox) -> tuple[str, ...]:
    """Return the tools that the names of a file mean, as far as the session has them. What means nothing here is left
    out.
    """
    sets, has = toolbox.load_toolsets(), {one.name for one in toolbox}
    servers = _list_servers(toolbox)
    found: dict[str, None] = {}
    for name in named:
        if is_mcp_toolset(name):
            found |= dict.fromkeys(one for one in servers if name in (MCP_TOOLSET, one))
        else:
            found |= dict.fromkeys(tool for tool in _list_meant(name, sets, has) if tool in has)
    return tuple(found)


def _remove_tools(tools: Sequence[str] | None, without: Sequence[str], toolbox: Toolbox) -> tuple[str, ...]:
    """Return the tools, those of the session where there is no limit, without what these names mean."""
    have = tools if tools is not None else (*(one.name for one in toolbox), *_list_servers(toolbox))
    taken = set(_resolve_tools(without, toolbox))
    servers = tuple(f"mcp__{name.removeprefix('mcp-')}__" for name in without if is_mcp_toolset(name))
    return tuple(name for name in have if name not in taken and not name.startswith(servers))


def _list_servers(toolbox: Toolbox) -> list[str]:
    return [f"{MCP_TOOLSET}-{one}" for one in toolbox.servers]


def _list_meant(name: str, sets: Mapping[str, Toolset], has: set[str]) -> Sequence[str]:
    """Return the tools that a name means: those of a set, a tool, or what one of another program is called here."""
    if name in sets and name not in ALL_TOOLSETS:
        return resolve_toolset(name, sets)
    return [name] if name in has else _FOREIGN_TOOLS.get(name.lower(), "").split()
