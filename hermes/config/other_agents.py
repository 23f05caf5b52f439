"""Other agents whose files Hermes can read where they lie: a table of where Claude Code, codex and opencode keep them.

Nothing of them is read into a session before the person has agreed to that agent's files with `hermes import NAME
--read-in-place`, and nothing of a project outside of a trusted folder. The agreement stands in the file of the home
that holds what was enabled of other people's code, which no project, no setting and no model writes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.config.home import HermesHome
from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.config.trusted_folders import TrustFile
from hermes.i18n.messages import N_
from hermes.util.file_handles import RefusedPathError, open_read

_MAX_HOOK_FILE = 1 << 20
_CONSENT = PluginConsent("", "")


class FileKind(StrEnum):
    """What a place holds."""

    COMMANDS = "commands"
    AGENTS = "agents"
    SKILLS = "skills"
    SERVERS = "servers"
    HOOKS = "hooks"


class OtherAgent(Struct, frozen=True, kw_only=True):
    """Where an agent keeps its files. Paths are below its folder, below the person's home where they begin with `~/`,
    and below the project.
    """

    name: str
    title: str
    base: str
    """The folder below the person's home in which its folder lies, or that is its folder."""
    base_variable: str
    """The variable that names another one."""
    folder: str = ""
    """Its folder below the base; empty where that is its folder."""
    in_home: Mapping[FileKind, tuple[str, ...]]
    in_project: Mapping[FileKind, tuple[str, ...]]
    unread: Mapping[str, str] = {}
    """Names in its folder of what is not read, each with the reason."""
    unread_keys: Mapping[str, str] = {}
    """Keys of the files that name its servers which are not read, each with the reason."""

    @property
    def consent_key(self) -> str:
        """The key under which it is kept that the person has agreed to this agent's files."""
        return f"agent:{self.name}"

    def locate_root(self, environ: Mapping[str, str]) -> str:
        """Return its folder in the person's home; empty where no home folder is known."""
        home = environ.get("HOME", "")
        named = environ.get(self.base_variable, "")
        base = named if os.path.isabs(named) else os.path.join(home, self.base) if home else ""
        return os.path.join(base, self.folder).rstrip("/") if base else ""


_CODE = N_("code that runs in that program only")
_INSTRUCTIONS = N_("what holds for you everywhere goes into SOUL.md of the home")
_RIGHTS = N_("permissions are not taken over: Hermes asks by its own rules")
_OWN_FILES = N_("only those in files of their own are read")
_LOOK = N_("how that program looks and speaks")
_SHARED_SKILLS = ".agents/skills"
"""Where several agents look for skills."""
OTHER_AGENTS = (
    OtherAgent(
        name="claude",
        title="Claude Code",
        base=".claude",
        base_variable="CLAUDE_CONFIG_DIR",
        in_home={
            FileKind.COMMANDS: ("commands",),
            FileKind.AGENTS: ("agents",),
            FileKind.SKILLS: ("skills",),
            FileKind.SERVERS: (".claude.json", "~/.claude.json"),
            FileKind.HOOKS: ("settings.json",),
        },
        in_project={
            FileKind.COMMANDS: (".claude/commands",),
            FileKind.AGENTS: (".claude/agents",),
            FileKind.SKILLS: (".claude/skills",),
            FileKind.SERVERS: (".mcp.json",),
            FileKind.HOOKS: (".claude/settings.json", ".claude/settings.local.json"),
        },
        unread={
            "CLAUDE.md": _INSTRUCTIONS,
            "rules": _INSTRUCTIONS,
            "plugins": _CODE,
            "output-styles": _LOOK,
            "keybindings.json": _LOOK,
            "settings.json": _RIGHTS,
        },
    ),
    OtherAgent(
        name="codex",
        title="codex",
        base=".codex",
        base_variable="CODEX_HOME",
        in_home={
            FileKind.COMMANDS: ("prompts",),
            FileKind.AGENTS: ("agents",),
            FileKind.SKILLS: ("skills", f"~/{_SHARED_SKILLS}"),
            FileKind.SERVERS: ("config.toml",),
            FileKind.HOOKS: ("hooks.json",),
        },
        in_project={
            FileKind.AGENTS: (".codex/agents",),
            FileKind.SKILLS: (_SHARED_SKILLS,),
            FileKind.SERVERS: (".codex/config.toml",),
            FileKind.HOOKS: (".codex/hooks.json",),
        },
        unread={
            "AGENTS.md": _INSTRUCTIONS,
            "rules": _RIGHTS,
            "plugins": _CODE,
            "auth.json": N_("it is that program's"),
        },
    ),
    OtherAgent(
        name="opencode",
        title="opencode",
        base=".config",
        base_variable="XDG_CONFIG_HOME",
        folder="opencode",
        in_home={
            FileKind.COMMANDS: ("commands", "command"),
            FileKind.AGENTS: ("agents", "agent"),
            FileKind.SKILLS: ("skills", "skill", f"~/{_SHARED_SKILLS}"),
            FileKind.SERVERS: ("opencode.json", "opencode.jsonc"),
        },
        in_project={
            FileKind.COMMANDS: (".opencode/commands", ".opencode/command"),
            FileKind.AGENTS: (".opencode/agents", ".opencode/agent"),
            FileKind.SKILLS: (".opencode/skills", ".opencode/skill", _SHARED_SKILLS),
            FileKind.SERVERS: (
                "opencode.json",
                "opencode.jsonc",
                ".opencode/opencode.json",
                ".opencode/opencode.jsonc",
            ),
        },
        unread={
            "AGENTS.md": _INSTRUCTIONS,
            "plugin": _CODE,
            "plugins": _CODE,
            "tool": _CODE,
            "tools": _CODE,
            "themes": _LOOK,
            "modes": N_("describe them as agents"),
        },
        unread_keys={
            **dict.fromkeys(("agent", "agents", "command", "commands"), _OWN_FILES),
            **dict.fromkeys(("plugin", "plugins"), _CODE),
            **dict.fromkeys(("permission", "permissions"), _RIGHTS),
            "instructions": _INSTRUCTIONS,
        },
    ),
)
"""The agents that are known, in the order in which their names count."""


class AgentPlace(Struct, frozen=True):
    """A folder or file of another agent that exists."""

    agent: OtherAgent
    kind: FileKind
    path: str
    is_project: bool
    """Whether it belongs to the project, and not to the person's home."""


def find_agent(name: str) -> OtherAgent | None:
    """Return the agent of that name, or None."""
    return next((one for one in OTHER_AGENTS if one.name == name), None)


def list_present_agents(environ: Mapping[str, str]) -> list[OtherAgent]:
    """Return the agents that have a folder in the person's home."""
    found = ((one, one.locate_root(environ)) for one in OTHER_AGENTS)
    return [one for one, root in found if root and os.path.isdir(root)]


def list_home_places(agent: OtherAgent, kind: FileKind, environ: Mapping[str, str]) -> list[AgentPlace]:
    """Return the places of a kind that an agent has in the person's home."""
    root, home = agent.locate_root(environ), environ.get("HOME", "")
    named = agent.in_home.get(kind, ()) if root else ()
    paths = [os.path.join(home, one[2:]) if one.startswith("~/") else os.path.join(root, one) for one in named]
    return [AgentPlace(agent, kind, path, False) for path in dict.fromkeys(paths) if path and os.path.exists(path)]


def list_project_places(agent: OtherAgent, kind: FileKind, folder: str) -> list[AgentPlace]:
    """Return the places of a kind that an agent has in a project's folder, by where they really lie."""
    paths = (os.path.join(folder, one) for one in agent.in_project.get(kind, ()))
    found = dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path))
    return [AgentPlace(agent, kind, path, True) for path in found]


def find_project_file(kind: FileKind, folder: str, name: str) -> tuple[OtherAgent, str] | None:
    """Return the agent in whose folder of a project a file of this name lies, and its path below the project."""
    for agent in OTHER_AGENTS:
        for place in agent.in_project.get(kind, ()):
            if os.path.lexists(os.path.join(folder, place, name)):
                return agent, f"{place}/{name}"
    return None


def agree_to_agent(home: HermesHome, agent: OtherAgent) -> None:
    """Keep that the person has agreed to an agent's files. Raises ConfigError."""
    PluginConsents(home.consent_file).enable(agent.consent_key, _CONSENT)


def withdraw_agent(home: HermesHome, agent: OtherAgent) -> bool:
    """Take that agreement back; return False where there was none. Raises ConfigError."""
    return PluginConsents(home.consent_file).disable(agent.consent_key)


def list_agreed_agents(home: HermesHome) -> list[OtherAgent]:
    """Return the agents whose files the person has agreed to. Raises ConfigError for a damaged file."""
    if not os.path.lexists(home.consent_file):
        return []
    consents = PluginConsents(home.consent_file).list_all()
    return [one for one in OTHER_AGENTS if one.consent_key in consents]


def list_agreed_places(
    kind: FileKind,
    home: HermesHome,
    environ: Mapping[str, str],
    folder: str = "",
    trusted_folders: Sequence[str] = (),
) -> list[AgentPlace]:
    """Return the places of a kind that may be read: those of the home before those of the project in `folder`, which
    count where they lie in a trusted folder. Raises ConfigError for a damaged file of agreements.
    """
    agents = list_agreed_agents(home)
    if not agents:
        return []
    found = [place for agent in agents for place in list_home_places(agent, kind, environ)]
    if folder:
        trust = TrustFile(home.trust_file, trusted_folders)
        places = (place for agent in agents for place in list_project_places(agent, kind, folder))
        found += [place for place in places if trust.is_trusted_folder(place.path)]
    return drop_repeated(found)


def drop_repeated(places: Sequence[AgentPlace]) -> list[AgentPlace]:
    """Return the places, each one once: a person may work in the very folder that is their home."""
    seen: dict[str, AgentPlace] = {}
    for place in places:
        seen.setdefault(os.path.realpath(place.path), place)
    return list(seen.values())


class HookFile(Struct, frozen=True):
    """A settings file of another agent that names hooks, and how many handlers it has."""

    agent: str
    is_project: bool
    path: Path
    count: int


class _HookGroup(Struct):
    hooks: list[msgspec.Raw] = []


class _HookDocument(Struct):
    hooks: dict[str, list[_HookGroup]] = {}


def list_hook_files(environ: Mapping[str, str], folder: str = "") -> list[HookFile]:
    """Return the settings files that name hooks, the home's before those of the project in `folder`. It says nothing of
    trust or agreement, and runs nothing. A file that cannot be read names none.
    """
    places = [place for agent in OTHER_AGENTS for place in list_home_places(agent, FileKind.HOOKS, environ)]
    if folder:
        places += [place for agent in OTHER_AGENTS for place in list_project_places(agent, FileKind.HOOKS, folder)]
    return list(_iter_hook_files(drop_repeated(places)))


def _iter_hook_files(places: Sequence[AgentPlace]) -> Iterator[HookFile]:
    for place in places:
        try:
            with open(open_read(place.path), "rb") as file:
                raw = file.read(_MAX_HOOK_FILE)
            groups = msgspec.json.decode(raw, type=_HookDocument).hooks.values()
        except (OSError, RefusedPathError, msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        count = sum(len(one.hooks) for group in groups for one in group)
        if count:
            yield HookFile(place.agent.name, place.is_project, Path(place.path), count)
