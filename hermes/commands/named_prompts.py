"""Prompts that a person calls by `/NAME`: skills, prompts of MCP servers, and commands of their own, which are Markdown
files in `commands/` of the home and in `.hermes/commands/` of a trusted project, and those of other agents that the
person has agreed to (`docs/other-agents.md`).

A file may begin with a head between two lines of `---` with `description` and `argument-hint`; other keys permit and
change nothing. `$ARGUMENTS` and `$1` to `$9` stand for what is typed behind the name. A name of Hermes' own is never
taken.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.commands.context import PromptScope
from hermes.config.trusted_folders import TrustFile
from hermes.context.described_files import is_usable_name, read_described_files
from hermes.context.foreign_prompts import format_foreign_prompt, split_words
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.skills.catalog import normalize_skill_name
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.sessions.app import App

COMMANDS_FOLDER = "commands"
PROJECT_FOLDER = ".hermes/commands"
CODEX_PREFIX = "prompts:"
"""What stands before the name of a command in codex."""
_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])(?!\w)")


class NamedPrompt(Struct, frozen=True, kw_only=True):
    """A skill, a prompt of an MCP server, or a command of a person's own."""

    name: str
    about: str = ""
    usage: str = ""
    body: str = ""
    """The text of an own command; empty for a skill or a server's prompt, whose text its session attaches."""
    project: bool = False
    """Whether it belongs to the project."""
    agent: str = ""
    """The other agent whose file it is, by the name that people know it by."""
    server: str = ""
    """The MCP server that it belongs to."""

    @property
    def is_listed(self) -> bool:
        """Whether help lists it by its name; of skills there can be many."""
        return bool(self.body or self.server)

    def format_prompt(self, arguments: str) -> str:
        """Return the message that it stands for."""
        if not self.body:
            return f"/{self.name} {arguments}".rstrip()
        if self.agent:
            return format_foreign_prompt(self.body, arguments)
        words = split_words(arguments)

        def fill(match: re.Match[str]) -> str:
            if match[1] == "ARGUMENTS":
                return arguments
            number = int(match[1]) - 1
            return words[number] if number < len(words) else ""

        text = _PLACE.sub(fill, self.body)
        return text if _PLACE.search(self.body) or not arguments else f"{text}\n\n{arguments}"


async def list_named_prompts(app: "App", scope: PromptScope) -> list[NamedPrompt]:
    """List the named prompts, own commands first; a name stands for one of them."""
    found: dict[str, NamedPrompt] = {}
    if scope.own:
        marked = [path for path, _, _ in await app.services.store.tainted_files.list_all()]
        for one in await asyncio.to_thread(_read_own_commands, app, scope, marked):
            found.setdefault(one.name, one)
    if scope.own:
        for one in _list_server_prompts(app, scope.taken):
            found.setdefault(one.name, one)
    if scope.skills:
        from hermes.sessions.features.skills import build_catalogue

        services, folder = app.services, scope.folder if scope.own else ""
        catalogue = build_catalogue(
            services.home, services.settings, services.environ, folder, app.options.trusted_folders
        )
        for skill in await asyncio.to_thread(catalogue.list_all):
            if skill.is_usable and skill.name not in scope.taken:
                found.setdefault(skill.name, NamedPrompt(name=skill.name, about=skill.head.description))
    return list(found.values())


async def find_named_prompt(app: "App", name: str, scope: PromptScope) -> NamedPrompt | None:
    """Return the prompt of that name, or None. `_` stands for `-`, as some platforms know no other. Raises UsageError
    for a file that is there and not to be used.
    """
    prompts = {one.name: one for one in await list_named_prompts(app, scope)}
    low = name.lower().removeprefix(CODEX_PREFIX)
    found = prompts.get(low) or prompts.get(low.replace("_", "-")) or prompts.get(normalize_skill_name(name))
    if found is None and scope.own:
        await asyncio.to_thread(_refuse_unused_file, low, scope.folder)
    return found


def _list_server_prompts(app: "App", taken: frozenset[str]) -> Iterator[NamedPrompt]:
    """Yield the prompts of the MCP servers that are connected; what servers say of them is untrusted."""
    started = app.services.started_mcp_servers
    for server in started.servers if started is not None else ():
        for one in server.prompts:
            if one.name not in taken:
                about = to_one_line(strip_control_characters(one.about), 100)
                yield NamedPrompt(name=one.name, about=about, usage=one.usage[:40], server=server.spec.name)


def _read_own_commands(app: "App", scope: PromptScope, marked: Sequence[str]) -> Iterator[NamedPrompt]:
    """Return the own commands of the home, and those of the project where its folder is trusted and no untrusted
    content stood beside when they were written.
    """
    home, taken = app.services.home, scope.taken
    trust = TrustFile(home.trust_file, app.options.trusted_folders)
    found = list(_read_folder(home.root / COMMANDS_FOLDER, taken))
    place = os.path.realpath(os.path.join(scope.folder, PROJECT_FOLDER))
    if trust.is_trusted_folder(place):
        found += _read_folder(Path(place), taken, project=True, marked=marked)
    if os.path.lexists(home.consent_file):
        found += _read_foreign_commands(app, scope, marked)
    return iter(found)


def _read_foreign_commands(app: "App", scope: PromptScope, marked: Sequence[str]) -> Iterator[NamedPrompt]:
    """Yield the commands of other agents that the person has agreed to, the home's before the project's."""
    from hermes.config.other_agents import FileKind, list_agreed_places

    services, trusted = app.services, app.options.trusted_folders
    for place in list_agreed_places(FileKind.COMMANDS, services.home, services.environ, scope.folder, trusted):
        yield from _read_folder(
            Path(place.path), scope.taken, project=place.is_project, marked=marked, agent=place.agent.title
        )


def _read_folder(
    folder: Path,
    taken: frozenset[str],
    *,
    project: bool = False,
    marked: Sequence[str] = (),
    agent: str = "",
) -> Iterator[NamedPrompt]:
    for one in read_described_files(folder, lambda path: _is_marked(path, marked), nested=bool(agent)):
        if one.name in taken:
            continue
        about = one.fields.get("description") or one.body.lstrip("# ").partition("\n")[0]
        yield NamedPrompt(
            name=one.name,
            about=to_one_line(strip_control_characters(about), 100),
            usage=to_one_line(strip_control_characters(one.fields.get("argument-hint", "")), 40),
            body=one.body,
            project=project,
            agent=agent,
        )


def _is_marked(path: str, marked: Sequence[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in marked)


def _refuse_unused_file(name: str, folder: str) -> None:
    """Raise UsageError where a file of that name lies in the project and is not used, and say what to do."""
    if not is_usable_name(name):
        return
    if os.path.lexists(os.path.join(folder, PROJECT_FOLDER, f"{name}.md")):
        raise UsageError(
            N_(
                "{file} is not used: its folder is not trusted, or it was written beside untrusted content.",
                file=f"{PROJECT_FOLDER}/{name}.md",
            ),
            N_("If its content is yours, run `hermes trust {folder}`.", folder=folder),
        )
    from hermes.config.other_agents import FileKind, find_project_file

    if (found := find_project_file(FileKind.COMMANDS, folder, f"{name}.md")) is not None:
        agent, file = found
        raise UsageError(
            N_("{file} belongs to another program.", file=file),
            N_(
                "`hermes import {agent} --read-in-place` has it read, in a trusted folder; moved to {place}/ it works"
                " without.",
                agent=agent.name,
                place=PROJECT_FOLDER,
            ),
        )


def describe_prompt(prompt: NamedPrompt) -> str:
    """Return what a list says of a named prompt."""
    if prompt.agent:
        return f"{prompt.about} ({tr('a command of {agent}', agent=prompt.agent)})"
    if prompt.server:
        return tr("{about} (a prompt of the MCP server {name})", about=prompt.about, name=prompt.server).lstrip()
    kind = tr("a skill") if not prompt.body else tr("the project's command") if prompt.project else tr("your command")
    return f"{prompt.about} ({kind})" if prompt.body and prompt.about else kind
