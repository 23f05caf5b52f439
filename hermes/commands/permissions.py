"""What may happen: pending approvals, trusted folders, and in a chat the sandbox and whether questions are asked.

`hermes approvals`, `/approvals`, `hermes trust`, `/trust`, `/sandbox`, `/yolo`.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

from hermes.admin.home_services import open_existing_store
from hermes.commands.command import CommandCall, CommandGroup, CommandList, RunCommand, SlashCommand
from hermes.commands.context import CommandContext, MenuOption, Surface
from hermes.commands.verb import JsonLayout, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.config.home import HermesHome, locate_home
from hermes.config.trusted_folders import check_trust_scope, is_trusted, read_trusted_folders, set_trust
from hermes.core.encoding import Plain
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.events import Level
from hermes.core.outcomes import AnswerScope
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import find_mode, set_mode
from hermes.sessions.session_lookup import row_to_dict
from hermes.store.approvals import ApprovalRow, StoredApprovalAnswer
from hermes.tools.permissions.gate import describe_once
from hermes.util.text import (
    escape_confusable_characters,
    escape_unseen_characters,
    shorten_command,
    to_one_line,
)

_INSIST_PHRASE = "all of it"
APPROVALS = Verb(
    "approvals",
    description="Questions that wait for your answer. What is not answered in time is a no.",
    example="hermes approvals approve approval_3f2a --session",
    json_layout=JsonLayout.LINES,
)
TRUST = Verb(
    "trust",
    description="Trust a project's folder: its files count as yours, and its contents may take effect.",
    example="hermes trust .\nhermes trust --remove ~/old\nhermes trust --list",
)


@APPROVALS.action(
    "",
    "",
    argument("action", nargs="?", choices=["list", "show", "approve", "deny"], default="list"),
    argument("id", nargs="?", default="", help="the question's id, or its beginning"),
    argument("--session", action="store_true", help="also allow what the question shows for the session"),
    argument("--always", action="store_true", help="also allow what the question shows from now on"),
    argument("--json", action="store_true", dest="as_json", help="list as JSON, one object a line"),
)
async def manage_approvals(call: VerbCall) -> VerbResult:
    """List the pending approvals, show one in full, or answer it."""
    args = call.args
    _check_approval_arguments(call)
    if args.action == "list":
        rows = await list_pending_approvals(call.environ)
        return rows_result(
            rows, lambda row: _format_question(row, shorten_command), tr("No question waits for an answer.")
        )
    if args.action == "show":
        row = await find_pending_approval(call.environ, args.id)
        return VerbResult([row], _format_question(row, str))
    scope = AnswerScope.ALWAYS if args.always else AnswerScope.SESSION if args.session else AnswerScope.ONCE
    scope = AnswerScope.DENY if args.action == "deny" else scope
    await answer_approval(call.environ, args.id, scope)
    return VerbResult(lines=[tr("Denied.") if scope is AnswerScope.DENY else tr("Allowed.")])


def _check_approval_arguments(call: VerbCall) -> None:
    args = call.args
    if args.action in ("list", "show") and (args.session or args.always):
        call.reject_arguments("--session and --always belong to approve")
    if args.action == "list" and args.id:
        call.reject_arguments("list takes no id; one question as a whole: hermes approvals show ID")
    if args.action != "list" and not args.id:
        call.reject_arguments(
            N_("{action} needs the id of a question; `hermes approvals` lists them", action=args.action)
        )


def _format_question(row: Plain, shorten: Callable[[str], str]) -> list[str]:
    fields = {name: escape_confusable_characters(str(value)) for name, value in row.items()}
    subject = shorten(fields["subject"])
    lines = [
        tr("{id}  session {session_id}", id=fields["id"], session_id=fields["session_id"]),
        f"  {fields['tool']}: {subject}",
        f"  {localize(fields['reason'])}",
    ]
    details = {
        "cwd": N_("in {cwd}"),
        "once_covers": N_("approve allows: {once_covers}"),
        "session_covers": N_("--session also allows: {session_covers}"),
        "always_covers": N_("--always also allows: {always_covers}"),
    }
    lines += ["  " + tr(text, **{name: fields[name]}) for name, text in details.items() if fields[name]]
    if subject != fields["subject"]:
        lines.append("  " + tr("all of it: hermes approvals show {id}", id=fields["id"]))
    return lines


async def list_pending_approvals(environ: Mapping[str, str]) -> list[Plain]:
    """List the pending approval requests, the oldest first."""
    async with open_existing_store(locate_home(environ)) as store:
        rows = await store.approvals.list_pending() if store is not None else []
        return [{**row_to_dict(row), "once_covers": describe_once(row.rule, row.subject)} for row in rows]


async def find_pending_approval(environ: Mapping[str, str], id_prefix: str) -> Plain:
    """Return the one pending approval whose id begins with `id_prefix`. Raises NotFoundError."""
    rows = await list_pending_approvals(environ)
    name = _match_id([str(one["id"]) for one in rows], id_prefix)
    return next(row for row in rows if row["id"] == name)


async def answer_approval(environ: Mapping[str, str], id_prefix: str, scope: AnswerScope) -> None:
    """Answer the one pending approval whose id begins with `id_prefix`.

    Raises NotFoundError or UsageError with what is wrong.
    """
    async with open_existing_store(locate_home(environ)) as store:
        rows = await store.approvals.list_pending() if store is not None else []
        name = _match_id([row.id for row in rows], id_prefix)
        assert store is not None  # a question was found in it
        if not _offers_scope(next(row for row in rows if row.id == name), scope):
            raise UsageError(
                N_("This question has no answer `{scope}`.", scope=scope), "`hermes approvals` shows which it has."
            )
        if not await store.approvals.answer(name, StoredApprovalAnswer(scope, "person")):
            raise NotFoundError("It was answered, withdrawn, or ran out of time, just now.")


def _match_id(ids: Sequence[str], id_prefix: str) -> str:
    """Return the one id that equals or begins with `id_prefix`. Raises NotFoundError."""
    found = [one for one in ids if one == id_prefix] or [one for one in ids if one.startswith(id_prefix)]
    if len(found) != 1:
        none, many = (
            "No question of this id waits for an answer.",
            N_("{found} questions of this id wait for an answer.", found=len(found)),
        )
        raise NotFoundError(many if found else none, "`hermes approvals` lists them.")
    return found[0]


def _offers_scope(row: ApprovalRow, scope: AnswerScope) -> bool:
    wider = {AnswerScope.SESSION: row.session_covers, AnswerScope.ALWAYS: row.always_covers}
    return bool(wider.get(scope, "this call"))


@TRUST.action(
    "",
    "",
    argument("folder", nargs="?", default=".", help="the folder, with all below it (default: this one)"),
    argument("--remove", action="store_true", help="stop trusting it"),
    argument("--list", action="store_true", dest="listed", help="show the trusted folders"),
    argument("--json", action="store_true", dest="as_json", help="list as JSON"),
    argument("--all-of-it", action="store_true", help="also your home as a whole, or what contains it"),
)
def trust_folder(call: VerbCall) -> VerbResult:
    """Trust a folder, take trust back, or list what is trusted."""
    args, home = call.args, locate_home(call.environ)
    asks_list = args.folder in ("list", "ls") and not (args.remove or os.path.isdir(args.folder))
    if args.listed or args.as_json or asks_list:
        none = tr("No folder is trusted yet. `hermes trust FOLDER` trusts one.")
        return rows_result(read_trusted_folders(home.trust_file), escape_confusable_characters, none)
    if not args.remove and not os.path.isdir(os.path.expanduser(args.folder)):
        raise UsageError(
            N_("{folder} is not a folder.", folder=escape_confusable_characters(args.folder)),
            "Name the project's folder.",
        )
    if not args.remove:
        _check_scope(call)
    home.ensure_exists()
    return VerbResult(lines=[_change_trust(home, args.folder, trusted=not args.remove)])


def _change_trust(home: HermesHome, folder: str, *, trusted: bool) -> str:
    """Trust a folder or no longer trust it, and return the message for the person."""
    changed = set_trust(home.trust_file, folder, trusted=trusted)
    path = os.path.realpath(os.path.expanduser(folder))
    real = escape_confusable_characters(path)
    if not trusted:
        inside = is_trusted(path, read_trusted_folders(home.trust_file))
        note = (" " + tr("It is in a folder that is still trusted.")) if inside else ""
        return tr(
            "{real} is {changed}.{note}",
            real=real,
            changed=tr("no longer trusted") if changed else tr("not among the trusted folders"),
            note=note,
        )
    files = asyncio.run(trust_files(home, path))
    note = (
        (
            " "
            + tr("Files in it that were written alongside untrusted content count as yours now: {files}.", files=files)
        )
        if files
        else ""
    )
    now = tr("{real} is trusted, with all below it.", real=real)
    before = tr("{real} is trusted already, with all below it.", real=real)
    return (now if changed else before) + note


def _check_scope(call: VerbCall) -> None:
    """Refuse trust for system folders, and for the whole home folder unless the person insists. Raises UsageError."""
    folder = call.args.folder
    why, may_insist = check_trust_scope(folder, call.environ.get("HOME") or os.path.expanduser("~"))
    if not why or (may_insist and call.args.all_of_it):
        return
    real = escape_confusable_characters(os.path.realpath(os.path.expanduser(folder)))
    if may_insist:
        message = tr("Type `{words}` to trust it anyway:", words=_INSIST_PHRASE)
        if call.ask_line(f"{real}: {localize(why)}.\n{message} ") == _INSIST_PHRASE:
            return
    option = _INSIST_PHRASE.replace(" ", "-")
    insist = N_("Name the project's folder, or insist with --{option}.", option=option)
    raise UsageError(
        N_("{real} is not trusted: {why}.", real=real, why=why), insist if may_insist else "Name the project's folder."
    )


async def trust_files(home: HermesHome, folder: str) -> int:
    """Remove the untrusted marks of files below a resolved folder; return how many there were."""
    async with open_existing_store(home) as store:
        return 0 if store is None else await store.tainted_files.trust(folder)


COMMANDS = CommandList(CommandGroup.WORK)


@COMMANDS.command("approvals", N_("list the approval requests of all sessions, and answer them"))
async def answer_in_menu(call: CommandCall) -> None:
    """List the pending approvals of every session, and answer one."""
    call.require_no_arguments()
    environ = call.context.app.services.environ
    rows = await list_pending_approvals(environ)
    if not rows:
        call.context.tell(tr("No question waits for an answer."))
        return
    options = [
        MenuOption(
            to_one_line(_visible_field(row, "subject"), 120), f"{_visible_field(row, 'tool')} · {row['session_id']}"
        )
        for row in rows
    ]
    taken = await call.context.choose(tr("Which question?"), options)
    if taken is None:
        return
    row = rows[taken]
    lines = [
        _visible_field(row, "subject"),
        _visible_field(row, "reason"),
        *([tr("in {folder}", folder=_visible_field(row, "cwd"))] if row["cwd"] else []),
    ]
    call.context.tell("\n".join(lines))
    offered = [
        (AnswerScope.DENY, MenuOption(tr("No"))),
        (AnswerScope.ONCE, MenuOption(tr("Yes, this once"), _visible_field(row, "once_covers"))),
    ]
    if row["session_covers"]:
        offered.append(
            (AnswerScope.SESSION, MenuOption(tr("Yes, for its session"), _visible_field(row, "session_covers")))
        )
    if row["always_covers"]:
        offered.append((AnswerScope.ALWAYS, MenuOption(tr("Yes, always"), _visible_field(row, "always_covers"))))
    answer = await call.context.choose(tr("Your answer?"), [option for _, option in offered])
    if answer is None:
        return
    await answer_approval(environ, str(row["id"]), offered[answer][0])
    call.context.tell(tr("Denied.") if answer == 0 else tr("Allowed."))


def _visible_field(row: dict[str, object], name: str) -> str:
    return escape_confusable_characters(str(row[name]))


@COMMANDS.command("sandbox", N_("what confines commands, and how to change it"))
async def describe_sandbox(call: CommandCall) -> None:
    """Describe what confines commands, and how to change it."""
    call.require_no_arguments()
    context, on = call.context, call.context.app.services
    lines = [localize(await context.app.live_session(context.actor).tools.context.backend.describe(detailed=True))]
    terminal = on.settings.terminal
    if context.app.live_session(context.actor).tools.context.backend_handle.name == "sandbox":
        more = ", ".join(terminal.sandbox.writable)
        lines.append(tr("Network: {mode}", mode=str(terminal.sandbox.network)))
        lines += [tr("Also writable: {folders}", folders=more)] if more else []
    hosts = ", ".join(on.settings.security.allowed_hosts)
    lines += [tr("Hosts without a question: {hosts}", hosts=hosts)] if hosts else []
    if context.app.is_yolo(context.actor):
        lines.append(tr("NO QUESTIONS are asked in this session (/yolo ends that)."))
    lines.append(tr("`hermes config set terminal.backend NAME` changes it for chats that begin later."))
    context.tell("\n".join(escape_unseen_characters(line) for line in lines))


async def complete_trust(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only subcommand."""
    return [MenuOption("list", tr("what is trusted"))]


@COMMANDS.command(
    "trust", N_("trust a folder's files, after you confirm"), usage=N_("[folder|list]"), complete=complete_trust
)
async def trust_after_question(call: CommandCall) -> None:
    """Trust a folder after confirmation, as `hermes trust` does, or list the trusted folders."""
    on = call.context.app.services
    if call.text == "list":
        folders = await asyncio.to_thread(read_trusted_folders, on.home.trust_file)
        call.context.tell(
            "\n".join(escape_confusable_characters(one) for one in folders) or tr("No folder is trusted yet.")
        )
        return
    folder = await asyncio.to_thread(_resolve_folder, call)
    shown = escape_confusable_characters(folder)
    if is_trusted(folder, read_trusted_folders(on.home.trust_file)):
        call.context.tell(tr("{folder} is trusted already.", folder=shown))
        return
    question = tr("Trust {folder}? Its files count as yours, and its contents may take effect.", folder=shown)
    if not await call.context.confirm(question):
        call.context.tell(tr("Nothing was changed."))
        return
    await asyncio.to_thread(lambda: set_trust(on.home.trust_file, folder, trusted=True))
    files = await trust_files(on.home, folder)
    call.context.tell(
        tr("{folder} is trusted, with all below it. It counts for sessions that begin now.", folder=shown)
    )
    if files:
        call.context.tell(
            tr_plural("{n} marked file in it counts as yours.", "{n} marked files in it count as yours.", files)
        )


def _resolve_folder(call: CommandCall) -> str:
    """Return the folder to trust, resolved. Raises UsageError for none, and for one that is too wide."""
    named = os.path.expanduser(call.text) if call.text else call.context.app.options.cwd or os.getcwd()
    folder = os.path.realpath(named)
    if not os.path.isdir(folder):
        raise UsageError(N_("{folder} is not a folder.", folder=escape_confusable_characters(folder)))
    home = call.context.app.services.environ.get("HOME") or os.path.expanduser("~")
    why, _ = check_trust_scope(folder, home)
    if why:
        raise UsageError(
            N_("{folder} is not trusted: {why}.", folder=escape_confusable_characters(folder), why=why),
            N_("Name the project's folder."),
        )
    return folder


@COMMANDS.command(
    "yolo",
    N_("ask nothing in this session (what is refused stays refused); again: ask as before"),
    surfaces=frozenset({Surface.TERMINAL}),
    risky=True,
)
async def toggle_yolo(call: CommandCall) -> None:
    """Turn approvals off after a warning, or on again."""
    call.require_no_arguments()
    context = call.context
    on = not context.app.is_yolo(context.actor)
    if on:
        warning = tr(
            "NO QUESTIONS: until this session is closed everything that would need your yes runs without it: deleting, "
            "sending, running what was downloaded. Only what is never allowed stays refused. /yolo ends it."
        )
        context.tell(warning, Level.WARNING)
    context.app.set_yolo(context.actor, on=on)
    if not on:
        context.tell(tr("Questions are asked again."))
    await context.refresh_view()


_MODE_TEXTS = {
    WorkMode.ASK: N_("you are asked as your settings say"),
    WorkMode.PLAN: N_("nothing is changed; it ends with a plan that you approve"),
    WorkMode.AUTO: N_("what the sandbox holds is not asked about; hosts, untrusted content and other places are"),
}

_MODE_COMMANDS = {
    WorkMode.ASK: N_("the mode ask, as /mode ask; a message behind it is sent"),
    WorkMode.PLAN: N_("the mode plan, as /mode plan; a message behind it is sent"),
    WorkMode.AUTO: N_("the mode auto, as /mode auto; a message behind it is sent"),
}


async def complete_mode(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the modes."""
    return [MenuOption(mode.value, tr(what)) for mode, what in _MODE_TEXTS.items()]


@COMMANDS.command(
    "mode",
    N_("how freely it works in this session"),
    usage=N_("[ask|plan|auto]"),
    complete=complete_mode,
    surfaces=frozenset({Surface.TERMINAL}),
)
async def choose_mode(call: CommandCall) -> None:
    """Choose the session's mode by name or from a menu."""
    context, modes, name = call.context, list(WorkMode), call.text
    if not name:
        options = await complete_mode(call)
        taken = await context.choose(
            tr("Which mode?"), options, chosen=modes.index(find_mode(context.app, context.actor))
        )
        if taken is None:
            return
        name = modes[taken].value
    if name not in tuple(WorkMode):
        raise UsageError(N_("There is no mode {name!r}.", name=name), ", ".join(modes))
    await _use_mode(context, WorkMode(name))


async def _use_mode(context: CommandContext, mode: WorkMode) -> None:
    """Set the session's mode and say what it means. Raises UsageError where it is not safe."""
    set_mode(context.app, context.actor, mode)
    context.tell(tr("Mode {mode}: {what}.", mode=mode.value, what=tr(_MODE_TEXTS[mode])))
    await context.refresh_view()


def _begin_in_mode(mode: WorkMode) -> RunCommand:
    async def set_mode_and_send(call: CommandCall) -> None:
        await _use_mode(call.context, mode)
        if call.text:
            call.context.post_message(InboundMessage(text=call.text, cwd=call.context.app.options.cwd))

    return set_mode_and_send


COMMANDS.extend(
    SlashCommand(
        name=mode.value,
        about=about,
        group=CommandGroup.WORK,
        run=_begin_in_mode(mode),
        usage=N_("[message]"),
        surfaces=frozenset({Surface.TERMINAL}),
        risky=mode is WorkMode.AUTO,
    )
    for mode, about in _MODE_COMMANDS.items()
)
