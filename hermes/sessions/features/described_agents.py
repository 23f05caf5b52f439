"""Agents that people describe, for `delegate_task(agent=NAME)`: Markdown files in `agents/` of the home, and in
`.hermes/agents/` of a trusted project.

The head of a file says for what it is good (`description`), and may name its `tools` (tool sets and tools, also by the
names that other programs use) and its `model`; its text is what the agent is told. It can only take away: what the
session that delegates has not, an agent has not either, and a project's file names no model that is not set up.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.config.trusted_folders import TrustFile
from hermes.context.described_files import DescribedFile, is_usable_name, read_described_files
from hermes.context.prompt import PromptTier
from hermes.core.errors import ToolError
from hermes.core.sub_agents import SubAgentTask
from hermes.tools.registry import Toolbox
from hermes.tools.toolsets import ALL_TOOLSETS, MCP_TOOLSET, Toolset, is_mcp_toolset, resolve_toolset
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.config.home import HermesHome
    from hermes.tools.taint_marks import TaintMarks

AGENTS_FOLDER = "agents"
PROJECT_FOLDER = ".hermes/agents"
_FOREIGN_FOLDERS = (".claude/agents", ".opencode/agent", ".opencode/agents")
"""Where other programs keep such files."""
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
    "bash": "terminal process",
    "bashoutput": "process",
    "killshell": "process",
    "websearch": "web_search",
    "webfetch": "web_extract",
    "todowrite": "todo",
    "todoread": "todo",
    "task": "delegate_task",
    "agent": "delegate_task",
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
    model: str = ""
    is_project: bool = False
    """Whether the project describes it, and not the person's home."""


class AgentFiles:
    """The files that describe agents for sessions in one folder. They are read afresh each time, in the caller's
    thread.
    """

    def __init__(self, home: "HermesHome", folder: str, trusted_folders: Sequence[str], marks: "TaintMarks") -> None:
        self._own = home.root / AGENTS_FOLDER
        self._folder = folder
        self._trust = TrustFile(home.trust_file, trusted_folders)
        self._marks = marks

    def list_all(self) -> list[DescribedAgent]:
        """Return the agents by name; the home's file comes before the project's."""
        found = {one.name: _read_agent(one, is_project=False) for one in read_described_files(self._own)}
        place = os.path.realpath(os.path.join(self._folder, PROJECT_FOLDER))
        if self._trust.is_trusted_folder(place):
            for one in read_described_files(Path(place), lambda path: bool(self._marks.find_sources(path))):
                found.setdefault(one.name, _read_agent(one, is_project=True))
        return [found[name] for name in sorted(found)]

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
        for place in (PROJECT_FOLDER, *_FOREIGN_FOLDERS):
            if not os.path.lexists(os.path.join(self._folder, place, f"{name}.md")):
                continue
            if place == PROJECT_FOLDER:
                return (
                    f" {place}/{name}.md is not used: its folder is not trusted, or it was written beside untrusted"
                    " content. Only the person can change that."
                )
            return f" {place}/{name}.md belongs to another program; the person can move it to {PROJECT_FOLDER}/."
        return ""


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


def _read_agent(file: DescribedFile, *, is_project: bool) -> DescribedAgent:
    about = file.fields.get("description") or file.body.lstrip("# ").partition("\n")[0]
    tools, model = file.fields.get("tools"), file.fields.get("model", "")
    return DescribedAgent(
        name=file.name,
        about=to_one_line(strip_control_characters(about), _ABOUT_CHARACTERS),
        instructions=file.body,
        tools=_split_names(tools) if tools and tools not in ALL_TOOLSETS else None,
        model="" if model in _FOREIGN_MODELS else model[:200],
        is_project=is_project,
    )


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip("[]").replace(",", " ").replace('"', " ").replace("'", " ").split()))


def _resolve_tools(named: Sequence[str], toolbox: Toolbox) -> tuple[str, ...]:
    """Return the tools that the names of a file mean, as far as the session has them. What means nothing here is left
    out.
    """
    sets, has = toolbox.load_toolsets(), {one.name for one in toolbox}
    servers = [f"{MCP_TOOLSET}-{one}" for one in toolbox.servers]
    found: dict[str, None] = {}
    for name in named:
        if is_mcp_toolset(name):
            found |= dict.fromkeys(one for one in servers if name in (MCP_TOOLSET, one))
        else:
            found |= dict.fromkeys(tool for tool in _list_meant(name, sets, has) if tool in has)
    return tuple(found)


def _list_meant(name: str, sets: Mapping[str, Toolset], has: set[str]) -> Sequence[str]:
    """Return the tools that a name means: those of a set, a tool, or what one of another program is called here."""
    if name in sets and name not in ALL_TOOLSETS:
        return resolve_toolset(name, sets)
    return [name] if name in has else _FOREIGN_TOOLS.get(name.lower(), "").split()
