"""Describe tools, their calls and resets of the prompt cache for people; a model reads other descriptions of tools."""

from hermes.core.events import ToolStarted
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import strip_control_characters, to_one_line

_TOOL_DESCRIPTIONS = {
    "read_file": N_("read a file"),
    "write_file": N_("write a file"),
    "patch": N_("change parts of files"),
    "search_files": N_("find files and what is in them"),
    "terminal": N_("run commands"),
    "process": N_("look after programs that run in the background"),
    "todo": N_("keep a list of steps"),
    "clarify": N_("ask you"),
    "web_search": N_("search the web"),
    "web_extract": N_("read web pages"),
    "browser_navigate": N_("open a web page in the browser"),
    "browser_snapshot": N_("look at the page in the browser"),
    "browser_click": N_("click something on the page"),
    "browser_type": N_("write into a field of the page"),
    "browser_press": N_("press keys in the browser"),
    "browser_select": N_("choose from a list on the page"),
    "browser_hover": N_("move the mouse over something on the page"),
    "browser_drag": N_("drag something on the page"),
    "browser_scroll": N_("scroll the page"),
    "browser_upload": N_("upload files of the workspace to the page"),
    "browser_wait": N_("wait for something on the page"),
    "browser_tabs": N_("open, switch and close tabs of the browser"),
    "browser_back": N_("go back to the page before"),
    "browser_dialog": N_("answer a dialog of the page"),
    "browser_console": N_("read the page's console, or run JavaScript on the page"),
    "browser_get_images": N_("list the pictures on the page"),
    "browser_vision": N_("look at a screenshot of the page"),
    "browser_cdp": N_("call the browser's own protocol"),
    "skills_list": N_("list the skills there are"),
    "skill_view": N_("read a skill"),
    "skill_manage": N_("write or fix a skill"),
    "memory": N_("remember facts for later sessions"),
    "session_search": N_("look through earlier conversations"),
    "cronjob": N_("run jobs on a schedule"),
    "delegate_task": N_("give tasks to sub-agents"),
    "execute_code": N_("run code that calls the other tools"),
    "text_to_speech": N_("speak a text into a file"),
    "vision_analyze": N_("look at a picture"),
    "image_generate": N_("make or change a picture"),
    "ha_list_entities": N_("list what is in your home"),
    "ha_get_state": N_("read a device or sensor of your home"),
    "ha_list_services": N_("list what your home can do"),
    "ha_call_service": N_("switch something in your home"),
    "python_script": N_("run code by Python itself"),
    "tool_search": N_("find tools that are not listed here"),
    "tool_call": N_("call a tool that was found"),
}
_CALL_FORMS = {
    "read": N_("read {what}"),
    "write": N_("write {what}"),
    "patch": N_("patch {what}"),
    "search": N_("search {what}"),
}
"""How calls about files are described, by the verbs of their summaries."""
_TOOLSET_DESCRIPTIONS = {
    "file": N_("read, search and change files"),
    "terminal": N_("run commands and programs"),
    "todo": N_("keep a list of steps"),
    "clarify": N_("ask you"),
    "web": N_("search the web and read pages"),
    "search": N_("search the web, without reading pages"),
    "vision": N_("look at pictures"),
    "image_gen": N_("make and change pictures"),
    "browser": N_("use web pages as a person does, in a browser"),
    "browser-cdp": N_("call the browser's own protocol"),
    "homeassistant": N_("see and switch what is in your home"),
    "skills": N_("use, write and fix skills"),
    "memory": N_("remember facts for later sessions"),
    "session_search": N_("look through earlier conversations"),
    "cronjob": N_("run jobs on a schedule"),
    "code_execution": N_("run code that calls the other tools"),
    "tts": N_("speak, for voice messages in chats"),
    "messages": N_("write to other chats and people, in chats"),
    "delegation": N_("give tasks to sub-agents"),
    "safe": N_("the web and pictures alone: neither files nor commands"),
    "coding": N_("all that work on a program needs"),
    "debugging": N_("commands, files and the web, for finding faults"),
}


def describe_tool(tool: str) -> str:
    """Describe what a tool does; empty for an unknown one, such as a server's."""
    return tr(_TOOL_DESCRIPTIONS[tool]) if tool in _TOOL_DESCRIPTIONS else ""


def describe_toolset(name: str) -> str:
    """Describe what the tools of a set do; empty for an unknown one."""
    return tr(_TOOLSET_DESCRIPTIONS[name]) if name in _TOOLSET_DESCRIPTIONS else ""


def describe_call(event: ToolStarted, width: int) -> str:
    """Describe a call in few words; the tool's name is left out where the summary begins with the same verb."""
    summary = to_one_line(strip_control_characters(event.summary or event.arguments), width)
    verb = event.name.partition("_")[0]
    first, space, rest = summary.partition(" ")
    if event.summary and first == verb:
        return tr(_CALL_FORMS[verb], what=rest) if space and verb in _CALL_FORMS else summary
    return to_one_line(f"{strip_control_characters(event.name)} {summary}".rstrip(), width)


def format_epoch_notice(reason: str, count: int) -> str:
    """Format the notice that requests start from a fresh prefix; empty where nothing is sent again."""
    if not count:
        return ""
    return tr_plural(
        "Prompt cache reset ({reason}): {n} byte is sent again.",
        "Prompt cache reset ({reason}): {n} bytes are sent again.",
        count,
        reason=localize(strip_control_characters(reason)),
    )
