"""How calls of tools look in the terms that hooks for Claude Code are written in, and back.

The names and fields are those of its public hook reference. A call that several of its calls stand for (a patch of
several files) is told as several.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

Input = dict[str, object]
ResolvePath = Callable[[str], str]
"""Returns the absolute path that a path in a call means."""


class ForeignCall(Struct, frozen=True):
    """A call in another agent's terms."""

    name: str
    arguments: Input
    is_opaque: bool = False
    """Whether no rule can tell what it does: it is a program in another language than the other agent's tool runs."""


class ForeignTool(Struct, frozen=True):
    """A tool of another agent that stands for one of Hermes: its name, and the fields with another name there.

    `paths` are the fields, by their name here, whose value is a path.
    """

    name: str
    fields: Mapping[str, str] = {}
    paths: tuple[str, ...] = ()


_FILE = {"path": "file_path"}
_TOOLS = {
    "terminal": ForeignTool("Bash", {"background": "run_in_background", "workdir": "workdir"}, ("workdir",)),
    "read_file": ForeignTool("Read", _FILE, ("path",)),
    "write_file": ForeignTool("Write", _FILE, ("path",)),
    "patch": ForeignTool("Edit", _FILE, ("path",)),
    "search_files": ForeignTool("Grep", {"file_glob": "glob"}, ("path",)),
    "web_extract": ForeignTool("WebFetch"),
    "web_search": ForeignTool("WebSearch"),
    "delegate_task": ForeignTool("Task", {"goal": "prompt", "agent": "subagent_type"}),
    "todo": ForeignTool("TodoWrite"),
    "skill_view": ForeignTool("Skill", {"name": "skill"}),
    "clarify": ForeignTool("AskUserQuestion"),
}
_MORE_NAMES = {
    "search_files": ("Glob",),
    "process": ("Bash",),
    "execute_code": ("Bash",),
    "skill_manage": ("Write", "Edit", "MultiEdit"),
    "patch": ("MultiEdit", "Write"),
    "delegate_task": ("Agent",),
}
"""More names by which a matcher may mean a tool: it stands for several there, or has had another name."""
_MAX_SECONDS = 1e9
_SECONDS_FIELDS = frozenset({"timeout"})
"""Fields in seconds here that are in milliseconds there."""


def list_tool_names(name: str) -> tuple[str, ...]:
    """Return the names by which a matcher may mean a tool: its own, and those of the other agent."""
    found = _TOOLS.get(name)
    return (name, *((found.name,) if found is not None else ()), *_MORE_NAMES.get(name, ()))


def list_call_names(name: str, call: ForeignCall) -> tuple[str, ...]:
    """Return the names by which a matcher may mean one call: that of the tool here, and those it has there."""
    old = {"Edit": ("MultiEdit",), "Task": ("Agent",)}
    if name == "skill_manage":
        return (name, "Write", "Edit", "MultiEdit")
    return (name, call.name, *old.get(call.name, ()))


def list_foreign_calls(name: str, arguments: Mapping[str, object], resolve: ResolvePath) -> Sequence[ForeignCall]:
    """Return what a call is in the other agent's terms: one call, or one for each file, address or task."""
    split = _SPLITTERS.get(name)
    return (split(arguments, resolve) if split is not None else ()) or [_translate(name, arguments, resolve)]


def _split_addresses(arguments: Mapping[str, object], _resolve: ResolvePath) -> Sequence[ForeignCall]:
    urls = arguments.get("urls")
    return [ForeignCall("WebFetch", {"url": url, "prompt": ""}) for url in urls] if isinstance(urls, list) else ()


def _split_tasks(arguments: Mapping[str, object], resolve: ResolvePath) -> Sequence[ForeignCall]:
    tasks = arguments.get("tasks")
    named = (one for one in tasks if isinstance(one, Mapping)) if isinstance(tasks, list) else ()
    return [_translate("delegate_task", one, resolve) for one in named]


def _read_typed_text(arguments: Mapping[str, object], _resolve: ResolvePath) -> Sequence[ForeignCall]:
    """Return what is typed into a running process as a command: it may be one, to a shell."""
    data = arguments.get("data")
    return [ForeignCall("Bash", {"command": data})] if isinstance(data, str) and data else ()


def _tell_code(arguments: Mapping[str, object], _resolve: ResolvePath) -> Sequence[ForeignCall]:
    """Return code as a command: it may start programs like one."""
    return [ForeignCall("Bash", {"command": arguments.get("code", "")}, is_opaque=True)]


def _tell_skill_file(arguments: Mapping[str, object], _resolve: ResolvePath) -> Sequence[ForeignCall]:
    """Return what is changed of a skill as a file that is written. Its path is told by the skill's name."""
    file = arguments.get("file_path") or "SKILL.md"
    content = next((one for key in ("file_content", "content", "new_string") if (one := arguments.get(key))), "")
    return [ForeignCall("Write", {"file_path": f"skills/{arguments.get('name', '')}/{file}", "content": content})]


def _translate(name: str, arguments: Mapping[str, object], resolve: ResolvePath) -> ForeignCall:
    tool = _TOOLS.get(name)
    if tool is None:
        return ForeignCall(name, dict(arguments))
    found: Input = {}
    for key, value in arguments.items():
        there = tool.fields.get(key, key)
        if key in tool.paths and isinstance(value, str):
            found[there] = resolve(value)
        elif key in _SECONDS_FIELDS and isinstance(value, int | float) and abs(value) < _MAX_SECONDS:
            found[there] = int(value * 1000)
        else:
            found[there] = value
    is_glob = name == "search_files" and arguments.get("target") == "files"
    return ForeignCall("Glob" if is_glob else tool.name, found)


def _split_patch(arguments: Mapping[str, object], resolve: ResolvePath) -> Sequence[ForeignCall]:
    """Return a call for each file that a patch in the form of several files names."""
    text = arguments.get("patch")
    if not isinstance(text, str) or not text:
        return ()
    from hermes.tools.patch_text import PatchAction, find_patch_paths, find_patch_texts

    texts = find_patch_texts(text)
    calls = []
    for path, action in find_patch_paths(text):
        real = resolve(path)
        if action is PatchAction.ADD:
            calls.append(ForeignCall("Write", {"file_path": real, "content": texts.get(path) or ""}))
        else:
            calls.append(ForeignCall("Edit", {"file_path": real, "old_string": "", "new_string": "", "patch": text}))
    return calls or [ForeignCall("Edit", {"file_path": "", "patch": text})]


_SPLITTERS: Mapping[str, Callable[[Mapping[str, object], ResolvePath], Sequence[ForeignCall]]] = {
    "patch": _split_patch,
    "web_extract": _split_addresses,
    "delegate_task": _split_tasks,
    "process": _read_typed_text,
    "execute_code": _tell_code,
    "skill_manage": _tell_skill_file,
}
"""The tools of which one call may stand for several of the other agent."""


def to_own_arguments(
    name: str, call: ForeignCall, changed: Mapping[str, object], given: Mapping[str, object] = {}
) -> Input:
    """Return the arguments here that changed arguments of the other agent stand for; `given` are those of the call.

    Fields that stand for the same call unchanged are taken over; what has no name here stays as it is, and is checked
    against the tool's parameters like any other.
    """
    tool = _TOOLS.get(name, ForeignTool(call.name))
    back = {there: here for here, there in tool.fields.items()}
    found: Input = {}
    for key, value in changed.items():
        in_milliseconds = key in _SECONDS_FIELDS and name in _TOOLS and isinstance(value, int | float)
        found[back.get(key, key)] = -(-int(float(str(value))) // 1000) if in_milliseconds else value
    if name == "web_extract" and "url" in found:
        found = {**given, "urls": [found["url"]]}
    if name == "process":
        found = {**given, "data": found.get("command", "")}
    if name == "execute_code":
        found = {"code": found.get("command", "")}
    return found
