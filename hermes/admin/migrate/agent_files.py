"""What other agents' files hold that Hermes can use, what of it does not carry over and why, and taking it over.

Looking changes nothing and runs nothing. Of a project only what lies in a trusted folder is looked at.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.admin.home_services import open_home_services
from hermes.admin.mcp import NewServer, add_server
from hermes.admin.migrate.foreign_home import HomeContents, SkippedItem, find_skill_folders, is_link, read_small_text
from hermes.admin.migrate.importer import import_skills
from hermes.config.agent_servers import (
    AgentServer,
    agree_to_server,
    forget_server,
    is_agreed_server,
    list_agent_servers,
    list_unread_keys,
    refuse_server,
)
from hermes.config.environment import merge_dotenv
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.config.other_agents import (
    AgentPlace,
    FileKind,
    HookFile,
    OtherAgent,
    agree_to_agent,
    drop_repeated,
    list_agreed_agents,
    list_home_places,
    list_hook_files,
    list_project_places,
    withdraw_agent,
)
from hermes.config.trusted_folders import TrustFile
from hermes.context.described_files import DescribedFile, list_described_paths, read_described_files
from hermes.context.foreign_prompts import has_command_lines, has_named_places, translate_foreign_prompt
from hermes.core.encoding import Plain
from hermes.core.errors import HermesError
from hermes.i18n.messages import N_, localize, tr
from hermes.mcp.definitions import to_server_name
from hermes.sessions.features.described_agents import AGENTS_FOLDER, read_foreign_agent, read_foreign_agents
from hermes.sessions.features.skills import build_skills
from hermes.skills.catalog import read_head
from hermes.util.atomic_write import write_atomic

_OWN_COMMANDS = "commands"
_MODEL_LINE = re.compile(r"(?m)^model[ \t]*:.*\n?")
_HEAD = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_LEFT_OF_COMMANDS = ("model", "agent", "subtask", "context", "hooks", "effort", "shell", "variant")
_LEFT_OF_AGENTS = (
    "skills", "mcpServers", "hooks", "memory", "background", "isolation", "maxTurns", "effort",
    "temperature", "top_p", "steps", "maxSteps", "model_reasoning_effort", "web_search", "initialPrompt",
)  # fmt: skip
_NAMED_NOTE = "For a name that begins with $, the value is given below as NAME=VALUE."
_NO_COUNTERPART = N_("there is nothing like it here")
_NOT_TEXT = N_("it is empty, or it cannot be read")
_SHARED = ".agents"
"""A folder of the person's home that is not hidden from tools, as those of other programs are."""
_IS_LINK = N_("links are not followed")


class AgentItem(Struct, frozen=True, kw_only=True):
    """One thing that was found: a command, an agent, a skill or a server."""

    kind: FileKind
    name: str
    path: str
    is_project: bool
    problem: str = ""
    """Why it does not carry over; empty where it does."""
    left: tuple[SkippedItem, ...] = ()
    """What of it does not carry over."""


class AgentSurvey(Struct, frozen=True, kw_only=True):
    """What was found of an agent."""

    agent: OtherAgent
    root: str
    is_agreed: bool
    """Whether the person has agreed to have its files read where they lie."""
    items: tuple[AgentItem, ...] = ()
    servers: tuple[AgentServer, ...] = ()
    agreed_servers: frozenset[str] = frozenset()
    """The servers, by their keys, that the person has said yes to as they are."""
    hooks: tuple[HookFile, ...] = ()
    left: tuple[SkippedItem, ...] = ()
    """Files that are not read, and why."""
    untrusted: tuple[str, ...] = ()
    """What of the agent lies in the project's folder, which is not trusted: it was not looked at."""
    own: tuple[str, ...] = ()
    """Names of what a copy could hold and Hermes' home has: copied before, or the person's own."""
    copyable: int = 0
    """How many things of the agent's home a copy could hold."""

    @property
    def has_project(self) -> bool:
        """Whether something of the project's folder could be used; it is never copied."""
        items = any(one.is_project and not one.problem for one in self.items)
        return items or any(one.is_project and not one.problem for one in self.servers)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could carry over."""
        return not self.items and not self.servers

    def to_plain(self) -> Plain:
        """Return the survey as plain values, without values that may be keys."""
        servers = [
            {
                "kind": str(FileKind.SERVERS),
                "name": one.name,
                "path": one.file,
                "project": one.is_project,
                "problem": localize(one.problem),
                "agreed": one.consent_key in self.agreed_servers,
            }
            for one in self.servers
        ]
        items = [
            {
                "kind": str(one.kind),
                "name": one.name,
                "path": one.path,
                "project": one.is_project,
                "problem": localize(one.problem),
                "left": {row.what: localize(row.why) for row in one.left},
            }
            for one in self.items
        ]
        return {
            "agent": self.agent.name,
            "root": self.root,
            "read_in_place": self.is_agreed,
            "items": [*items, *servers],
            "hooks": sum(one.count for one in self.hooks),
            "left": {row.what: localize(row.why) for row in self.left},
            "untrusted": list(self.untrusted),
        }


class TakenOver(Struct, kw_only=True):
    """What was taken over, by name, and what was not."""

    commands: list[str] = []
    agents: list[str] = []
    skills: int = 0
    waiting: int = 0
    """Skills that wait for a person's approval."""
    servers: list[str] = []
    skipped: list[SkippedItem] = []


def survey_agent(
    environ: Mapping[str, str], agent: OtherAgent, folder: str, taken: frozenset[str] = frozenset()
) -> AgentSurvey:
    """Look at an agent's files in the person's home, and in the project in `folder` where that is trusted. `taken` are
    the names of commands that none may have. Raises ConfigError for a damaged file of agreements.
    """
    home = locate_home(environ)
    whole = merge_dotenv(environ, home.env_file)
    places, untrusted = _list_places(home, whole, agent, folder)
    is_trusted = not untrusted and TrustFile(home.trust_file).is_trusted_folder(os.path.realpath(folder))
    servers = list_agent_servers(agent, whole, folder, has_project=is_trusted)
    hooks = [one for one in list_hook_files(whole, folder if is_trusted else "") if one.agent == agent.name]
    root = agent.locate_root(whole)
    unread = [(name, why) for name, why in agent.unread.items() if os.path.exists(f"{root}/{name}")]
    items = tuple(item for place in places for item in _READERS[place.kind](place, taken))
    own, copyable = _find_copies(home, items, servers)
    return AgentSurvey(
        agent=agent,
        root=root,
        is_agreed=agent in list_agreed_agents(home),
        items=items,
        servers=tuple(servers),
        agreed_servers=frozenset(one.consent_key for one in servers if is_agreed_server(home, one)),
        hooks=tuple(hooks),
        left=tuple(SkippedItem(name, why) for name, why in (*unread, *list_unread_keys(agent, whole))),
        untrusted=tuple(untrusted),
        own=own,
        copyable=copyable,
    )


def _list_places(
    home: HermesHome, environ: Mapping[str, str], agent: OtherAgent, folder: str
) -> tuple[list[AgentPlace], list[str]]:
    """Return the folders to look at, and those of a project that is not trusted."""
    trust = TrustFile(home.trust_file)
    places, untrusted = [], []
    for kind in FileKind:
        at_home = list_home_places(agent, kind, environ)
        every = drop_repeated([*at_home, *(list_project_places(agent, kind, folder) if folder else ())])
        mine = [place for place in every if place.is_project]
        untrusted += [place.path for place in mine if not trust.is_trusted_folder(place.path)]
        if kind in _READERS:
            places += at_home
            places += [place for place in mine if trust.is_trusted_folder(place.path)]
    return places, untrusted


def _list_commands(place: AgentPlace, taken: frozenset[str]) -> Iterator[AgentItem]:
    read = {one.name: one for one in read_described_files(Path(place.path), nested=True)}
    for name, path in list_described_paths(Path(place.path), nested=True):
        file = read.get(name)
        problem = _explain_unread(path) if file is None else N_("Hermes has a command of that name")
        yield AgentItem(
            kind=FileKind.COMMANDS,
            name=name,
            path=str(path),
            is_project=place.is_project,
            problem=problem if file is None or name in taken else "",
            left=tuple(_list_left_of_command(file)) if file is not None else (),
        )


def _list_left_of_command(file: DescribedFile) -> Iterator[SkippedItem]:
    if file.fields.get("allowed-tools"):
        yield SkippedItem("allowed-tools", N_("a file permits nothing: you are asked as always"))
    yield from (SkippedItem(name, _NO_COUNTERPART) for name in _LEFT_OF_COMMANDS if name in file.fields)
    if has_command_lines(file.body):
        yield SkippedItem("!`...`", N_("it is not run by itself: the model is asked to run it"))


def _list_agents(place: AgentPlace, _taken: frozenset[str]) -> Iterator[AgentItem]:
    read = {one.name: one for one in read_foreign_agents(place.path)}
    paths = dict(list_described_paths(Path(place.path)))
    paths |= {path.stem: path for path in sorted(Path(place.path).glob("*.toml"))}
    for name, path in paths.items():
        file = read.get(name)
        if file is None:
            why = _explain_unread(path)
            yield AgentItem(kind=FileKind.AGENTS, name=name, path=str(path), is_project=place.is_project, problem=why)
            continue
        agent, problem = read_foreign_agent(file, is_project=place.is_project)
        yield AgentItem(
            kind=FileKind.AGENTS,
            name=agent.name,
            path=str(path),
            is_project=place.is_project,
            problem=problem,
            left=tuple(_list_left_of_agent(file, agent.model)),
        )


def _list_left_of_agent(file: DescribedFile, model: str) -> Iterator[SkippedItem]:
    yield from (SkippedItem(key, _NO_COUNTERPART) for key in _LEFT_OF_AGENTS if key in file.fields)
    if file.fields.get("permissionMode", "plan") != "plan":
        yield SkippedItem("permissionMode", N_("it works in the mode of the session that delegates"))
    if model:
        yield SkippedItem(f"model: {model}", N_("it counts where that model is set up here"))


def _list_skills(place: AgentPlace, _taken: frozenset[str]) -> Iterator[AgentItem]:
    root = Path(place.path)
    for folder in find_skill_folders(root):
        head = read_head(read_small_text(folder / "SKILL.md"), folder.name, is_foreign=True)
        problem = _IS_LINK if is_link(root, folder) else next(iter(head.wrong), "")
        left = [SkippedItem("SKILL.md", one) for one in head.odd]
        if not place.is_project and _SHARED not in folder.parts and any(one.is_dir() for one in folder.iterdir()):
            left.append(SkippedItem("scripts", N_("where it lies they can be read and not run; copied they can")))
        yield AgentItem(
            kind=FileKind.SKILLS,
            name=folder.name,
            path=str(folder),
            is_project=place.is_project,
            problem=problem,
            left=tuple(left),
        )


def _explain_unread(path: Path) -> str:
    if path.is_symlink():
        return _IS_LINK
    is_plain = re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", path.stem)
    return _NOT_TEXT if is_plain else N_("its name is not made of 32 small letters, digits, `-` and `_` at most")


_READERS: Mapping[FileKind, Callable[[AgentPlace, frozenset[str]], Iterable[AgentItem]]] = {
    FileKind.COMMANDS: _list_commands,
    FileKind.AGENTS: _list_agents,
    FileKind.SKILLS: _list_skills,
}
"""How what lies in a folder of each kind is listed."""


def read_in_place(
    environ: Mapping[str, str], agent: OtherAgent, servers: Sequence[AgentServer], refused: Sequence[AgentServer]
) -> None:
    """Have an agent's files read where they lie, and these servers started, the others not: the person was asked about
    each. Raises ConfigError.
    """
    home = locate_home(environ)
    home.ensure_exists()
    agree_to_agent(home, agent)
    for server in servers:
        agree_to_server(home, server)
    for server in refused:
        refuse_server(home, server)


def stop_reading(environ: Mapping[str, str], survey: AgentSurvey) -> bool:
    """Read an agent's files no longer, and forget the yes to its servers; return False where nothing was agreed to.
    Raises ConfigError.
    """
    home = locate_home(environ)
    for server in survey.servers:
        forget_server(home, server)
    return withdraw_agent(home, survey.agent)


async def take_over(
    environ: Mapping[str, str],
    survey: AgentSurvey,
    servers: Sequence[AgentServer],
    ask_secret: Callable[[str], str],
) -> TakenOver:
    """Copy what carries over of an agent's home into ours, and write these servers into config.yaml. The person has
    said yes to that. What is there already stays. Raises ConfigError, StoreError.
    """
    home = locate_home(environ)
    home.ensure_exists()
    done = TakenOver()
    for item in survey.items:
        if item.problem or item.is_project or item.kind is FileKind.SKILLS:
            continue
        _copy_item(home, item, done)
    for server in servers:
        try:
            done.servers.append(_add_server(environ, server, ask_secret))
        except HermesError as error:
            done.skipped.append(SkippedItem(server.name, str(error)))
    await _take_over_skills(environ, survey, done)
    return done


def _find_target(home: HermesHome, item: AgentItem) -> Path:
    """Return where a copy of a command, an agent or a skill lies in the home."""
    if item.kind is FileKind.SKILLS:
        return home.skills / item.name
    folder = _OWN_COMMANDS if item.kind is FileKind.COMMANDS else AGENTS_FOLDER
    return home.root / folder / f"{item.name.replace(':', '-')}.md"


def _is_copyable(found: AgentItem | AgentServer) -> bool:
    return not found.problem and not found.is_project


def _find_copies(
    home: HermesHome, items: Iterable[AgentItem], servers: Iterable[AgentServer]
) -> tuple[tuple[str, ...], int]:
    """Return the names of what a copy could hold and the home has, and how much a copy could hold."""
    targets = [(one.name, _find_target(home, one)) for one in items if _is_copyable(one)]
    names = [one.name for one in servers if _is_copyable(one) and one.settings.enabled]
    found = [name for name, target in targets if os.path.lexists(target)]
    if names:
        known = load_settings(home).settings.mcp_servers
        found += [name for name in names if to_server_name(name) in known]
    return tuple(found), len(targets) + len(names)


def _copy_item(home: HermesHome, item: AgentItem, done: TakenOver) -> None:
    """Write a command or an agent as a file of the home."""
    is_command = item.kind is FileKind.COMMANDS
    target = _find_target(home, item)
    name = target.stem
    if os.path.lexists(target):
        done.skipped.append(SkippedItem(f"{target.parent.name}/{name}", tr("there is one already, and it stays")))
        return
    text = _translate_command(item) if is_command else _translate_agent(item)
    if not text:
        done.skipped.append(SkippedItem(item.path, localize(_NOT_TEXT)))
        return
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(target, text.encode(), mode=0o600)
    except OSError as error:
        done.skipped.append(SkippedItem(str(target), error.strerror or str(error)))
        return
    (done.commands if is_command else done.agents).append(name)


def _find_file(item: AgentItem, files: Iterable[DescribedFile]) -> DescribedFile | None:
    stem = Path(item.path).stem
    return next((one for one in files if one.name.rpartition(":")[2] == stem), None)


def _translate_command(item: AgentItem) -> str:
    """Return a command as one of the person's own: with what its head says of it, its words counted from 1."""
    file = _find_file(item, read_described_files(Path(item.path).parent))
    if file is None:
        return ""
    kept = {key: file.fields[key] for key in ("description", "argument-hint") if file.fields.get(key)}
    note = f"{_NAMED_NOTE}\n\n" if has_named_places(file.body) else ""
    return _format_head(kept) + note + translate_foreign_prompt(file.body) + "\n"


def _translate_agent(item: AgentItem) -> str:
    """Return an agent as one of the person's own: as it stands there, without its model."""
    if not item.path.endswith(".toml"):
        text = read_small_text(Path(item.path))
        head = _HEAD.match(text)
        return _MODEL_LINE.sub("", head[0]) + text[head.end() :] if head is not None else text
    file = _find_file(item, read_foreign_agents(str(Path(item.path).parent)))
    if file is None:
        return ""
    kept = {key: file.fields[key] for key in ("description", "sandbox_mode") if file.fields.get(key)}
    return _format_head(kept) + file.body + "\n"


def _format_head(fields: Mapping[str, str]) -> str:
    lines = [f"{key}: {' '.join(value.split())}" for key, value in fields.items()]
    return "\n".join(["---", *lines, "---", ""]) if lines else ""


def _add_server(environ: Mapping[str, str], server: AgentServer, ask_secret: Callable[[str], str]) -> str:
    """Write a server into config.yaml; return its name there. Raises HermesError."""
    given = server.settings
    new = NewServer(
        name=to_server_name(server.name),
        command=[given.command, *given.args] if given.command else (),
        url=given.url,
        env=[f"{name}={value}" for name, value in given.env.items() if value],
        headers=[f"{name}: {value}" for name, value in given.headers.items() if value],
        cwd=given.cwd,
        include=given.tools.include,
        exclude=given.tools.exclude,
    )
    return add_server(environ, new, ask_secret).name


async def _take_over_skills(environ: Mapping[str, str], survey: AgentSurvey, done: TakenOver) -> None:
    chosen = [one for one in survey.items if one.kind is FileKind.SKILLS and not one.problem and not one.is_project]
    if not chosen:
        return
    contents = HomeContents(
        title=survey.agent.title, root=Path(survey.root), skills=tuple(Path(one.path) for one in chosen)
    )
    async with open_home_services(environ) as on:
        skills = build_skills(on.home, on.settings, merge_dotenv(environ, on.home.env_file), on.store)
        done.skills, done.waiting = await import_skills(skills, contents, done.skipped)
