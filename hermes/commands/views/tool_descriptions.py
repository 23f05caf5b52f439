"""Describe tools and tool sets for people; a model reads other descriptions."""

from hermes.core.events import ToolStarted
from hermes.i18n.messages import phrase, say
from hermes.util.text import inert, one_line

_TOOL_DESCRIPTIONS = {
    "read_file": phrase("read a file"),
    "write_file": phrase("write a file"),
    "patch": phrase("change parts of files"),
    "search_files": phrase("find files and what is in them"),
    "terminal": phrase("run commands"),
    "process": phrase("look after programs that run in the background"),
    "todo": phrase("keep a list of steps"),
    "clarify": phrase("ask you"),
    "web_search": phrase("search the web"),
    "web_extract": phrase("read web pages"),
    "skills_list": phrase("list the skills there are"),
    "skill_view": phrase("read a skill"),
    "skill_manage": phrase("write or mend a skill"),
    "memory": phrase("remember facts for later sessions"),
    "session_search": phrase("look through earlier conversations"),
    "execute_code": phrase("run Python that calls other tools"),
    "delegate_task": phrase("hand parts of the work to helpers"),
    "vision_analyze": phrase("look at pictures"),
    "tool_search": phrase("find tools that are not listed here"),
    "tool_call": phrase("call a tool that was found"),
}
_TOOLSET_DESCRIPTIONS = {
    "file": phrase("read, search and change files"),
    "terminal": phrase("run commands and programs"),
    "todo": phrase("keep a list of steps"),
    "clarify": phrase("ask you"),
    "web": phrase("search the web and read pages"),
    "search": phrase("search the web, without reading pages"),
    "skills": phrase("use, write and mend skills"),
    "memory": phrase("remember facts for later sessions"),
    "session_search": phrase("look through earlier conversations"),
    "code_execution": phrase("run Python that calls other tools"),
    "delegation": phrase("hand parts of the work to helpers"),
    "vision": phrase("look at pictures"),
    "debugging": phrase("commands, files and the web, for finding faults"),
}


def describe_tool(tool: str) -> str:
    """Describe what a tool does; empty for an unknown one, such as a server's."""
    return say(_TOOL_DESCRIPTIONS[tool]) if tool in _TOOL_DESCRIPTIONS else ""


def describe_toolset(name: str) -> str:
    """Describe what the tools of a set do; empty for an unknown one."""
    return say(_TOOLSET_DESCRIPTIONS[name]) if name in _TOOLSET_DESCRIPTIONS else ""


def describe_call(event: ToolStarted, width: int) -> str:
    """Describe a call in few words; the tool's name is left out where the summary begins with the same verb."""
    summary = one_line(inert(event.summary or event.arguments), width)
    verb = event.name.partition("_")[0]
    if event.summary and summary.partition(" ")[0] == verb:
        return summary
    return one_line(f"{inert(event.name)} {summary}".rstrip(), width)
