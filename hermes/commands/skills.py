"""`hermes skills`, `/skills`: show and install skills, decide on the agent's proposed changes, and undo changes."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.commands.verb import (
    JSON_OPTION,
    AdminVerb,
    DeclinedError,
    JsonLayout,
    VerbCall,
    VerbResult,
    argument,
    rows_result,
    slash_command,
)
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.skills import SkillAdmin, SkillSwitch


@asynccontextmanager
async def _open_skills(call: VerbCall) -> "AsyncIterator[SkillAdmin]":
    from hermes.admin.skills import open_skill_admin, skill_admin

    if call.context is not None:
        yield skill_admin(call.context.app)
        return
    async with open_skill_admin(call.environ) as admin:
        yield admin


_NAME = argument("name", help="the skill")
_NUMBER = argument("number", type=int, help="the change, as `pending` numbers it")
SKILLS = AdminVerb(
    "skills",
    _open_skills,
    description="Look at skills, install them, and decide on the changes that the agent proposes.",
    example="hermes skills diff water-plants",
    json_layout=JsonLayout.LINE,
)


@SKILLS.admin_action(
    "list",
    "every skill, where it comes from, what is wrong with it, its use (also without a verb)",
    JSON_OPTION,
    in_chats=True,
)
async def list_skills(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """List every skill."""
    del call
    return rows_result(await admin.list_skills(), format_skill, tr("There are no skills."))


@SKILLS.admin_action("view", "a skill's text and files", JSON_OPTION, _NAME, in_chats=True)
async def view_skill(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Show a skill's files and text."""
    found = await admin.view_skill(call.args.name)
    lines = [f"{found['name']} ({found['tier']}, {found['folder']})", *(f"  {path}" for path in _texts(found["files"]))]
    return VerbResult(found, [escape_unseen_characters(line) for line in lines], markdown=str(found["text"]))


@SKILLS.admin_action(
    "install",
    "a folder, .zip, .tar.gz, SKILL.md or https address; asks first",
    argument("source", help="where it is"),
    argument("--yes", action="store_true", help="do not ask; needs --sha256"),
    argument("--sha256", default="", help="the hash that it must have"),
)
async def install_skill(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Show what a package would bring, and install it after a yes to exactly that."""
    args = call.args
    if args.yes and not args.sha256:
        raise UsageError("--yes needs --sha256 HASH: it says yes to that very content.")
    package = await admin.load_package(args.source)
    offer = await admin.preview_package(package)
    if args.sha256 and args.sha256.lower() != offer["sha256"]:
        raise UsageError(
            N_("Its sha256 is {offer}, not the one given.", offer=offer["sha256"]), "Nothing was installed."
        )
    call.show(_format_package(offer))
    try:
        await call.require_yes(
            tr("Install it? The agent will follow what it says."),
            unasked=N_("Run it again with --yes and the --sha256 above to install."),
        )
    except DeclinedError as error:
        if error.exit_code == 1:
            call.show([tr("Nothing was installed.")])
        raise
    return _change_result(await admin.install_package(package))


@SKILLS.admin_action("pending", "the changes that wait for your approval", JSON_OPTION, in_chats=True)
async def list_pending(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """List the changes that wait for approval."""
    del call
    return rows_result(await admin.list_pending(), format_skill_change, tr("No change waits."))


@SKILLS.admin_action(
    "diff",
    "what a change would change, or did",
    JSON_OPTION,
    argument("which", help="a change's number, or a skill's name"),
    in_chats=True,
)
async def diff_change(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Show a change with all that a person needs to decide on it."""
    row, lines = await admin.diff_change(call.args.which)
    return VerbResult(row | {"diff": lines}, format_skill_diff(row, lines))


@SKILLS.admin_action("approve", "say yes to a change", _NUMBER, in_chats=True)
async def approve_change(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Approve a pending change."""
    return _change_result(await admin.approve_change(call.args.number))


@SKILLS.admin_action("reject", "say no to a change", _NUMBER, in_chats=True)
async def reject_change(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Reject a pending change."""
    return _change_result(await admin.reject_change(call.args.number))


@SKILLS.admin_action(
    "rollback",
    "put a skill back as it was before its last change, or as change N left it",
    _NAME,
    argument("number", type=int, nargs="?", help="a change, as `log` numbers it"),
    in_chats=True,
)
async def rollback_skill(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Restore an earlier version of a skill."""
    return _change_result(await admin.rollback_skill(call.args.name, call.args.number))


_NAMES = argument("names", nargs="+", metavar="name", help="the skills")


@SKILLS.admin_action("enable", "use skills that were disabled again", JSON_OPTION, _NAMES, in_chats=True)
async def enable_skills(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Use skills again that were disabled."""
    return _switch_result(await admin.switch_skills(call.args.names, on=True), tr("enabled"))


@SKILLS.admin_action("disable", "leave skills out, whoever brought them", JSON_OPTION, _NAMES, in_chats=True)
async def disable_skills(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Leave skills out without removing them."""
    return _switch_result(await admin.switch_skills(call.args.names, on=False), tr("disabled"))


def _switch_result(switch: "SkillSwitch", state: str) -> VerbResult:
    lines = [tr("{name} is {state} already.", name=name, state=state) for name in switch.unchanged]
    if switch.changed:
        names = ", ".join(switch.changed)
        said = tr("{names}: {state}, from the next start on ({file}).", names=names, state=state, file=switch.file)
        lines.insert(0, said)
    return VerbResult(to_plain(switch), [escape_unseen_characters(line) for line in lines])


@SKILLS.admin_action("remove", "remove a skill of your own; rollback restores it", _NAME)
async def remove_skill(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """Remove one of the person's own skills."""
    return _change_result(await admin.remove_skill(call.args.name))


@SKILLS.admin_action("log", "every change of a skill", JSON_OPTION, _NAME, in_chats=True)
async def list_log(admin: "SkillAdmin", call: VerbCall) -> VerbResult:
    """List every change of a skill."""
    rows = await admin.list_log(call.args.name)
    return rows_result(rows, format_skill_change, tr("No change of a skill of that name is known."))


async def _complete_name(call: CommandCall) -> Sequence[MenuOption]:
    from hermes.admin.skills import skill_admin

    admin = skill_admin(call.context.app)
    if call.text.split()[0] in ("approve", "reject", "diff"):
        return [MenuOption(str(row["id"]), str(row["name"])) for row in await admin.list_pending()]
    return [MenuOption(name) for name in await admin.usable_names()]


_STATE_MARKS = {"ok": " ", "lacking": "-", "hidden": "-", "broken": "!"}


def format_skill(row: Plain) -> str:
    """Format a skill on one line; an error replaces its description."""
    about = f"({localize(str(row['why']))})" if row["why"] else str(row["description"])
    counts = {name: row[name] for name in ("used", "helped", "failed")}
    use = "  " + tr("used {used}, helped {helped}, failed {failed}", **counts) if row["used"] else ""
    waits = "  " + tr("[a change waits]") if row["pending"] else ""
    mark = _STATE_MARKS[str(row["state"])]
    return escape_unseen_characters(f"{mark} {row['name']:<24} {row['tier']:<9} {to_one_line(about, 90)}{use}{waits}")


def format_skill_change(row: Plain) -> str:
    """Format a change on one line."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    state = format_decision(row)
    who = tr("{what} {name}, from {author}", what=row["what"], name=row["name"], author=tr(str(row["author"])))
    return escape_unseen_characters(f"{row['id']:>4}  {when}  {state}  {who}: {to_one_line(str(row['reason']), 100)}")


_STATE_NAMES = (
    N_("pending"),
    N_("applying"),
    N_("applied"),
    N_("rejected"),
    N_("undone"),
    N_("person"),
    N_("model"),
    N_("review"),
    N_("import"),
)
"""The names of the states of changes, and of their authors."""


def format_decision(row: Plain) -> str:
    """Describe the state of a change, and who decided on it."""
    state = tr(str(row["state"]))
    return tr("{state} by {who}", state=state, who=tr(str(row["decided_by"]))) if row["decided_by"] else state


def format_skill_diff(row: Plain, lines: list[str]) -> list[str]:
    """Format a change with all that a person needs to decide on it."""
    told = [format_skill_change(row)]
    told += [
        tr("Untrusted content was in the conversation: {text}", text=escape_unseen_characters(one))
        for one in _texts(row["sources"])
    ]
    waits = row["state"] == "pending"
    answer = (
        [tr("Decide with `hermes skills approve {id}` or `hermes skills reject {id}`.", id=row["id"])] if waits else []
    )
    return [*told, "", *lines, *answer]


def _change_result(row: Plain) -> VerbResult:
    """Tell what has become of a change."""
    what = f"{row['what']} {row['name']}"
    line = tr("Change {id} ({what}) is {state}.", id=row["id"], what=what, state=tr(str(row["state"])))
    return VerbResult(row, [escape_unseen_characters(line)])


def _format_package(offer: Plain) -> list[str]:
    files = offer["files"]
    assert isinstance(files, dict)
    state = tr("new") if offer["new"] else tr("replace what is there")
    lead = tr("{name} from {source} ({state})", name=offer["name"], source=offer["source"], state=state)
    sizes = ["  " + tr("{size:>9,} bytes  {path}", size=size, path=path) for path, size in files.items()]
    return [
        escape_unseen_characters(lead),
        f"sha256 {offer['sha256']}",
        *(escape_unseen_characters(line) for line in sizes),
        *(f"! {localize(line)}" for line in _texts(offer["findings"])),
        "",
        *_texts(offer["diff"]),
    ]


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(one) for one in value]


COMMANDS = CommandList(CommandGroup.KNOWLEDGE)
COMMANDS.append(
    slash_command(
        SKILLS,
        about=N_("what the agent can look up; decide on changes that wait"),
        usage=N_("[pending|diff|approve|reject|view|log|rollback|enable|disable] [which]"),
        group=CommandGroup.KNOWLEDGE,
        takes=N_(
            "/skills takes: pending, diff WHICH, approve N, reject N, view NAME, log NAME, rollback NAME, enable NAME,"
            " disable NAME."
        ),
        outside=N_("Skills are installed and removed outside of a chat."),
        complete=_complete_name,
    )
)


@COMMANDS.command("reload-skills", N_("look for new skills"), aliases=("reload_skills",))
async def reload_skills(call: CommandCall) -> None:
    """Report the skills that can be used. They are found on each look, so nothing needs to be reloaded."""
    call.require_no_arguments()
    from hermes.admin.skills import skill_admin

    rows = await skill_admin(call.context.app).list_skills()
    usable = sum(row["state"] == "ok" for row in rows)
    call.context.tell(
        tr_plural("{n} skill can be used.", "{n} skills can be used.", usable)
        + " "
        + tr("The agent hears of new ones after /new or /compress.")
    )
