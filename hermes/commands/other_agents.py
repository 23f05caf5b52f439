"""`hermes import`: what Claude Code, codex and opencode left on this machine, read where it lies or taken over."""

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hermes.commands.verb import JSON_OPTION, SHORT_YES_OPTION, Verb, VerbCall, VerbResult, argument
from hermes.config.load import has_literal_key
from hermes.config.other_agents import OTHER_AGENTS, FileKind, OtherAgent, find_agent
from hermes.core.encoding import Plain, to_plain
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.safety.environment import is_secret_variable
from hermes.util.text import escape_confusable_characters, shorten_command, to_one_line

if TYPE_CHECKING:
    from hermes.admin.migrate.agent_files import AgentItem, AgentSurvey, TakenOver
    from hermes.config.agent_servers import AgentServer

_TITLES = {
    FileKind.COMMANDS: N_("commands"),
    FileKind.AGENTS: N_("agents"),
    FileKind.SKILLS: N_("skills"),
}
IMPORT = Verb(
    "import",
    description="What another agent left on this machine: its commands, agents, skills and MCP servers, in your home"
    " and in the project of this folder. Without an option it is copied into Hermes' home after a yes. The homes of"
    " OpenClaw and hermes-agent are imported by `hermes setup --import PATH`.",
    example="hermes import claude --dry-run\nhermes import codex --read-in-place",
)


@IMPORT.action(
    "",
    "",
    argument(
        "agent",
        nargs="?",
        default="",
        choices=["", *(one.name for one in OTHER_AGENTS)],
        help="claude, codex or opencode; without it what there is of each",
    ),
    argument(
        "--dry-run",
        action="store_true",
        exclusive="way",
        help="only show what there is, what carries over and what does not",
    ),
    argument(
        "--read-in-place",
        action="store_true",
        exclusive="way",
        help="copy nothing: have the files read where they lie, in your home and in folders that you trust",
    ),
    argument("--stop", action="store_true", exclusive="way", help="read them there no longer"),
    SHORT_YES_OPTION,
    JSON_OPTION,
)
async def import_agent(call: VerbCall) -> VerbResult:
    """Show what there is of an agent, and take it over or have it read where it lies."""
    from hermes.admin.migrate.agent_files import stop_reading

    args = call.args
    agent = find_agent(args.agent)
    if agent is None:
        if args.read_in_place or args.stop:
            call.reject_arguments(N_("name the agent: claude, codex or opencode"))
        return _list_agents(call)
    survey = _look_at(call, agent)
    if args.stop:
        was_agreed = stop_reading(call.environ, survey)
        said = tr("The files of {title} are read no longer.", title=agent.title)
        return VerbResult({"stopped": was_agreed}, [said if was_agreed else tr("They were not read before.")])
    lines = list(_format_survey(survey))
    if args.dry_run or (survey.is_empty and not args.read_in_place):
        return VerbResult(survey.to_plain(), [*lines, *_format_next_steps(survey)])
    call.show([*lines, ""])
    return _agree(call, survey) if args.read_in_place else await _take_over(call, survey)


def _look_at(call: VerbCall, agent: OtherAgent) -> "AgentSurvey":
    from hermes.admin.migrate.agent_files import survey_agent
    from hermes.commands.registry import builtin_command_names

    return survey_agent(call.environ, agent, os.path.realpath(os.getcwd()), builtin_command_names())


def _list_agents(call: VerbCall) -> VerbResult:
    """Show in a line for each agent what there is."""
    rows: list[Plain] = []
    lines: list[str] = []
    untrusted = 0
    for agent in OTHER_AGENTS:
        survey = _look_at(call, agent)
        untrusted += len(survey.untrusted)
        if survey.is_empty and not survey.hooks and not survey.is_agreed:
            continue
        rows.append(survey.to_plain())
        lines.append(f"{agent.title:<12} {_count_items(survey)}  {_describe_use(survey)}")
    lines = lines or [tr("No files of Claude Code, codex or opencode are there.")]
    return VerbResult(rows, [*lines, *_format_untrusted(untrusted)])


def _describe_use(survey: "AgentSurvey") -> str:
    """Return whether the files of an agent are used: where they lie, or as copies."""
    name, count, whole = survey.agent.name, len(survey.own), survey.copyable
    if survey.is_agreed:
        return tr("read where they lie")
    if not count:
        return tr("not used; `hermes import {name}`", name=name)
    if count == whole and survey.has_project:
        return tr("copied into Hermes' home; those of this folder: `hermes import {name} --read-in-place`", name=name)
    if count == whole:
        return tr("copied into Hermes' home")
    return tr("{n} of {all} are in Hermes' home; `hermes import {name}`", n=count, all=whole, name=name)


def _count_items(survey: "AgentSurvey") -> str:
    counts = {tr(title): sum(one.kind is kind for one in survey.items) for kind, title in _TITLES.items()}
    counts[tr("MCP servers")] = len(survey.servers)
    counts[tr("hooks")] = sum(one.count for one in survey.hooks)
    return ", ".join(f"{title}: {count}" for title, count in counts.items() if count) or tr("nothing")


def _format_survey(survey: "AgentSurvey") -> Iterator[str]:
    """Yield the lines that say what there is, what carries over, and what does not and why."""
    yield _clean(tr("{title}: {root}", title=survey.agent.title, root=survey.root))
    if survey.is_empty:
        yield "  " + tr("There is nothing that Hermes could use.")
    for kind, title in _TITLES.items():
        items = [one for one in survey.items if one.kind is kind]
        if items:
            yield f"  {tr(title)}:"
        for item in items:
            yield from _format_item(item)
    if survey.servers:
        yield "  " + tr("MCP servers:")
    for server in survey.servers:
        yield _clean(f"    {_describe_server(survey, server)}")
    yield from _format_unused(survey)


def _format_unused(survey: "AgentSurvey") -> Iterator[str]:
    """Yield the lines about hooks, about what is not read, and about a project that is not trusted."""
    for hook in survey.hooks:
        yield _clean(
            "  " + tr("hooks: {n} in {file}; `hermes plugins list` shows them", n=hook.count, file=str(hook.path))
        )
    if survey.left:
        yield "  " + tr("not read:")
    for row in survey.left:
        yield _clean(f"    {row.what}: {localize(row.why)}")
    for line in _format_untrusted(len(survey.untrusted)):
        yield f"  {line}"


def _format_untrusted(count: int) -> list[str]:
    if not count:
        return []
    said = tr_plural(
        "{n} place of this folder is not looked at, since you do not trust it: `hermes trust .`",
        "{n} places of this folder are not looked at, since you do not trust it: `hermes trust .`",
        count,
    )
    return [said]


def _format_item(item: "AgentItem") -> Iterator[str]:
    name = f"/{item.name}" if item.kind is FileKind.COMMANDS else item.name
    where = f" ({tr('of the project')})" if item.is_project else ""
    problem = f"  {tr('not used: {why}', why=localize(item.problem))}" if item.problem else ""
    yield _clean(f"    {name}{where}{problem}")
    if not item.problem:
        yield from (
            _clean(f"      {tr('without {what}: {why}', what=row.what, why=localize(row.why))}") for row in item.left
        )


def _describe_server(survey: "AgentSurvey", server: "AgentServer") -> str:
    where = f" ({tr('of the project')})" if server.is_project else ""
    left = f"  {tr('without {what}', what=', '.join(server.left))}" if server.left else ""
    if server.problem:
        state = tr("not used: {why}", why=localize(server.problem))
    elif not server.settings.enabled:
        state = tr("switched off there")
    else:
        state = tr("used") if survey.is_agreed and server.consent_key in survey.agreed_servers else tr("asks for a yes")
    return f"{server.name}{where}: {_show_target(server)}  {state}{left}"


def _show_target(server: "AgentServer") -> str:
    """Return what a server runs or where it is, without values that may be keys."""
    given = server.settings
    return shorten_command(" ".join((given.command, *given.args)) if given.command else given.url)


def _format_next_steps(survey: "AgentSurvey") -> list[str]:
    if survey.is_empty:
        return []
    name = survey.agent.name
    return [
        "",
        tr(
            "`hermes import {name}` copies it; `hermes import {name} --read-in-place` uses it where it lies.", name=name
        ),
    ]


def _agree(call: VerbCall, survey: "AgentSurvey") -> VerbResult:
    """Ask whether the files may be read where they lie, and about each server."""
    from hermes.admin.migrate.agent_files import read_in_place

    title = survey.agent.title
    if not survey.is_agreed:
        call.require_yes_now(
            tr(
                "Use the commands, agents and skills of {title} where they lie, here and in folders you trust?",
                title=title,
            ),
            what=tr("Reading another agent's files"),
        )
    servers, refused = _choose_servers(call, survey)
    read_in_place(call.environ, survey.agent, servers, refused)
    lines = [tr("The files of {title} are read where they lie, from the next session on.", title=title)]
    lines += [tr("Servers that start: {names}.", names=_join_names(servers))] if servers else []
    value = {"read_in_place": survey.agent.name, "servers": [one.name for one in servers]}
    return VerbResult(value, lines)


def _choose_servers(
    call: VerbCall, survey: "AgentSurvey", *, is_copied: bool = False
) -> tuple[list["AgentServer"], list["AgentServer"]]:
    """Return the servers that the person says yes to, and those that they say no to, each by itself."""
    chosen, refused = list["AgentServer"](), list["AgentServer"]()
    for server in survey.servers:
        is_known = server.consent_key in survey.agreed_servers and not is_copied
        if server.problem or not server.settings.enabled or is_known or (is_copied and server.is_project):
            continue
        call.show([_clean(line) for line in _explain_server(server)])
        is_wanted = call.args.yes or call.ask_yes_or_no(tr("Start it as an MCP server?"))
        (chosen if is_wanted else refused).append(server)
    return chosen, refused


def _explain_server(server: "AgentServer") -> Iterator[str]:
    """Yield what a person must have seen of a server before it is started."""
    given = server.settings
    yield f"{server.name}  ({server.file})"
    if given.command:
        yield "  " + tr("runs with your rights, outside of the sandbox: {command}", command=_join_command(server))
        yield "  " + tr("in the folder {folder}", folder=given.cwd or "~")
    else:
        yield "  " + tr("is sent what the model asks of it: {url}", url=given.url)
    values = [_show_value(name, value) for name, value in (*given.env.items(), *given.headers.items())]
    if values:
        yield "  " + tr("gets: {names}", names=", ".join(values))
    if server.variables:
        yield "  " + tr("gets the values of your variables: {names}", names=", ".join(server.variables))


def _show_value(name: str, value: str) -> str:
    """Return a variable with its value, which may lead elsewhere (`PATH`); of a key only the name."""
    is_key = is_secret_variable(name) or has_literal_key({name: value})
    return name if is_key else f"{name}={to_one_line(value, 100)}"


def _join_command(server: "AgentServer") -> str:
    return to_one_line(shlex.join((server.settings.command, *server.settings.args)), 600)


async def _take_over(call: VerbCall, survey: "AgentSurvey") -> VerbResult:
    """Ask, and copy what carries over of the agent's home."""
    from hermes.admin.migrate.agent_files import take_over

    await call.require_yes(tr("Copy what carries over of your home into Hermes?"), what=tr("Copying it"))
    servers, _ = _choose_servers(call, survey, is_copied=True)
    done = await take_over(call.environ, survey, servers, lambda name: call.ask_secret(f"{name}: "))
    return VerbResult(to_plain(done), list(_format_taken_over(done)))


def _format_taken_over(done: "TakenOver") -> Iterator[str]:
    if not (done.commands or done.agents or done.skills or done.waiting or done.servers):
        yield tr("Nothing new was taken over.")
    if done.commands:
        yield tr("Commands: {names}.", names=", ".join(f"/{name}" for name in done.commands))
    if done.agents:
        yield tr("Agents: {names}.", names=", ".join(done.agents))
    if done.servers:
        yield tr("MCP servers: {names}; `hermes mcp list` tries them.", names=", ".join(done.servers))
    yield from _format_skills(done)
    for row in done.skipped:
        yield _clean(tr("not taken over: {what}: {why}", what=row.what, why=row.why))


def _format_skills(done: "TakenOver") -> Iterator[str]:
    if done.skills:
        yield tr_plural("{n} skill.", "{n} skills.", done.skills)
    if done.waiting:
        yield tr_plural(
            "{n} skill waits for your approval: `hermes skills pending`.",
            "{n} skills wait for your approval: `hermes skills pending`.",
            done.waiting,
        )


def _join_names(servers: Sequence["AgentServer"]) -> str:
    return _clean(", ".join(one.name for one in servers))


def _clean(text: str) -> str:
    return escape_confusable_characters(text)
