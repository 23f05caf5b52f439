"""The manifest of a folder plug-in (`plugin.yaml`): what it is, what it offers, and all that it may do.

A manifest is taken whole or not at all: a key that is not known, a wrong type, or a number out of its range refuses it.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta, Struct, field

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.hooks.events import HookEvent
from hermes.i18n.messages import N_
from hermes.safety.environment import is_secret_variable
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.util.text import to_one_line

MANIFEST_FILE = "plugin.yaml"
DEFAULT_RUN = ("python", "main.py")
"""What runs without `run`: `python` as the first word is the interpreter that Hermes runs in."""
MAX_MANIFEST_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 16_000
_MAX_PROBLEM = 300
_MAX_DEPTH = 24
_HOST = re.compile(r"(\*\.)?(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){0,8}(:[0-9]{1,5})?", re.ASCII)
_PROTECTED_VARIABLES = re.compile(r"(LD_|DYLD_|PYTHON|HERMES_|GCONV_|NODE_OPTIONS$|PATH$|HOME$|TMPDIR$|.*_PROXY$)")
"""Variables that decide which code runs in the plug-in, or where it connects; they are Hermes' to set."""

_SILENT_EVENTS = frozenset(
    (
        HookEvent.ON_SESSION_START,
        HookEvent.ON_SESSION_FINALIZE,
        HookEvent.ON_SESSION_RESET,
        HookEvent.GATEWAY_STARTUP,
    )
)
"""The events at which a hook is told nothing that was said."""

_NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
_MAX_NAME = 24
_TOOL_NAME = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"
_PATTERN_WORDS = {_NAME: "small letters, digits and single dashes", _TOOL_NAME: "small letters, digits and single _"}
"""What the patterns of names mean, for a message."""
_Name = Annotated[str, Meta(pattern=_NAME, max_length=_MAX_NAME)]
_ToolName = Annotated[str, Meta(pattern=_TOOL_NAME, max_length=30)]
_Line = Annotated[str, Meta(min_length=1, max_length=200)]
_ShortLine = Annotated[str, Meta(max_length=200)]
_Text = Annotated[str, Meta(min_length=1, max_length=2_000)]
_Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
_Word = Annotated[str, Meta(min_length=1, max_length=1_000)]


class WorkspaceAccess(StrEnum):
    """What a plug-in sees of the session's workspace."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    """Its hooks, and its tools that only read, read it; each other call of a tool may write it."""


class ToolDeclaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool of a plug-in. `parameters` is a JSON Schema of an object; `timeout` is in seconds."""

    name: _ToolName
    description: _Text
    parameters: dict[str, object] = field(default_factory=lambda: {"type": "object"})
    read_only: bool = False
    timeout: Annotated[float, Meta(ge=1, le=600)] = 60.0

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters that a call must have."""
        named = self.parameters.get("required")
        return tuple(one for one in named if isinstance(one, str)) if isinstance(named, list) else ()


class CommandDeclaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command of a plug-in, which a person calls as `/plugin NAME COMMAND`."""

    name: _Name
    about: _Line
    usage: _ShortLine = ""


class PluginCapabilities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the process of a plug-in may use: megabytes of memory, processes beside the first, the workspace."""

    workspace: WorkspaceAccess = WorkspaceAccess.NONE
    memory: Annotated[int, Meta(ge=32, le=4_096)] = 256
    processes: Annotated[int, Meta(ge=0, le=64)] = 0


class PluginManifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A manifest that was checked. `hosts` are names, `*.name`, with `:port` for one other than 80 and 443."""

    name: _Name
    version: Annotated[str, Meta(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}$")]
    description: _Line
    run: Annotated[tuple[_Word, ...], Meta(min_length=1, max_length=32)] = DEFAULT_RUN
    hooks: Annotated[tuple[HookEvent, ...], Meta(max_length=32)] = ()
    tools: Annotated[tuple[ToolDeclaration, ...], Meta(max_length=64)] = ()
    commands: Annotated[tuple[CommandDeclaration, ...], Meta(max_length=32)] = ()
    memory: bool = False
    """Whether `memory.provider` may name it."""
    engine: bool = False
    """Whether `context.engine` may name it, as the writer of summaries."""
    capabilities: PluginCapabilities = PluginCapabilities()
    hosts: Annotated[tuple[str, ...], Meta(max_length=32)] = ()
    env: Annotated[tuple[_Variable, ...], Meta(max_length=32)] = ()

    @property
    def hears_conversations(self) -> bool:
        """Whether it is told texts of conversations besides what its tools are called with."""
        return self.memory or self.engine or bool({*self.hooks} - _SILENT_EVENTS)

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """The variables in `env` whose names say that they hold a key, which a person is told before a yes."""
        return tuple(one for one in self.env if is_secret_variable(one))


class _StrictLoader(yaml.SafeLoader):
    """Reads plain YAML: no aliases, by which a small file becomes a huge one, and no key twice."""

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (`*name`) are not allowed")
        return super().compose_node(parent, index)  # type: ignore[arg-type]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        names = [key.value for key, _ in node.value]
        if twice := next((one for one in names if names.count(one) > 1), None):
            raise yaml.YAMLError(f"`{twice}` is there twice")
        return super().construct_mapping(node, deep=deep)


def parse_manifest(raw: bytes) -> PluginManifest:
    """Return the manifest that the bytes hold. Raises ConfigError with what is wrong with it, on one line."""
    try:
        return _check_manifest(msgspec.convert(_load_yaml(raw), PluginManifest))
    except (yaml.YAMLError, msgspec.ValidationError, ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        for pattern, words in _PATTERN_WORDS.items():
            said = said.replace(f"`str` matching regex {pattern!r}", words)
        raise ConfigError(
            N_(
                "{MANIFEST_FILE} is not valid: {reason}.",
                MANIFEST_FILE=MANIFEST_FILE,
                reason=to_one_line(show_control_characters(said), _MAX_PROBLEM),
            ),
            N_("docs/plugins.md lists the keys of a manifest."),
        ) from None


def check_plugin_name(name: str) -> None:
    """Raise ConfigError where a plug-in cannot have this name."""
    if len(name) > _MAX_NAME or not re.fullmatch(_NAME, name):
        raise ConfigError(
            N_("{name!r} is no name for a plug-in.", name=name[:60]),
            N_("A name has small letters, digits and single dashes, {MAX_NAME} at most.", MAX_NAME=_MAX_NAME),
        )


def _load_yaml(raw: bytes) -> object:
    if len(raw) > MAX_MANIFEST_BYTES:
        raise ValueError(f"it has more than {MAX_MANIFEST_BYTES >> 10} kB")
    loaded = yaml.load(raw.decode("utf-8"), Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    if not isinstance(loaded, dict):
        raise yaml.YAMLError("it is no mapping of keys to values")
    if isinstance(loaded.get("version"), (int, float)):
        raise yaml.YAMLError('the version must stand in quotation marks, such as "1.0"')
    return loaded


def _check_manifest(manifest: PluginManifest) -> PluginManifest:
    _check_unique("hooks", manifest.hooks)
    _check_unique("tools", [one.name for one in manifest.tools])
    _check_unique("commands", [one.name for one in manifest.commands])
    for host in manifest.hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host[:80]!r} is no host: a name, or `*.` and a name, with `:port` if need be")
    for variable in manifest.env:
        if _PROTECTED_VARIABLES.match(variable.upper()):
            raise ValueError(f"the variable {variable} is not for plug-ins")
    for tool in manifest.tools:
        _check_schema(tool)
    if any(reveal_hidden_text(text).text != text or "\x1b" in text for text in _list_texts(manifest)):
        raise ValueError("a text holds characters that cannot be seen")
    return manifest


def _check_unique(key: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"`{key}` names something twice")


def _list_texts(manifest: PluginManifest) -> Iterator[str]:
    """Yield the texts that a person or a model is shown."""
    yield manifest.description
    for tool in manifest.tools:
        yield tool.description
        yield to_json(tool.parameters).decode()
    for command in manifest.commands:
        yield command.about
        yield command.usage


def _check_schema(tool: ToolDeclaration) -> None:
    if tool.parameters.get("type") != "object":
        raise ValueError(f"the parameters of {tool.name} are no schema of an object (`type: object`)")
    required = tool.parameters.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        raise ValueError(f"`required` of {tool.name} is no list of names")
    if _measure_depth(tool.parameters) > _MAX_DEPTH:
        raise ValueError(f"the parameters of {tool.name} are nested too deeply")
    if len(to_json(tool.parameters)) > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema of {tool.name} has more than {MAX_SCHEMA_BYTES:,} bytes")


def _measure_depth(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_measure_depth, inside), default=0)
