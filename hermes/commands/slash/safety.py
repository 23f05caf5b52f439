"""`/approvals`, `/sandbox`, `/trust`: answer pending approvals, show the sandbox, and trust folders.

`/yolo`: approve everything in this session without asking.
"""

import asyncio
import os
from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption, Surface
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line


async def answer_approvals(call: CommandCall) -> None:
    """List the pending approvals of every session, and answer one."""
    call.require_no_arguments()
    from hermes.admin.approvals import answer_approval, list_pending_approvals

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
        offered.append((AnswerScope.ALWAYS, MenuOption(tr("Yes, from now on"), _visible_field(row, "always_covers"))))
    answer = await call.context.choose(tr("Your answer?"), [option for _, option in offered])
    if answer is None:
        return
    await answer_approval(environ, str(row["id"]), offered[answer][0])
    call.context.tell(tr("Denied.") if answer == 0 else tr("Allowed."))


def _visible_field(row: dict[str, object], name: str) -> str:
    return escape_confusable_characters(str(row[name]))


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


async def trust_folder(call: CommandCall) -> None:
    """Trust a folder after confirmation, as `hermes trust` does, or list the trusted folders."""
    from hermes.admin.trust import trust_files
    from hermes.config.trusted_folders import is_trusted, read_trusted_folders, set_trust

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
    from hermes.config.trusted_folders import check_trust_scope

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


async def complete_trust(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only subcommand."""
    return [MenuOption("list", tr("what is trusted"))]


_SAFETY_COMMANDS = (
    SlashCommand(
        name="approvals",
        about=N_("what waits for your yes, in whichever session; answer it"),
        group=CommandGroup.WORK,
        run=answer_approvals,
    ),
    SlashCommand(
        name="sandbox",
        about=N_("what holds commands back, and how to change it"),
        group=CommandGroup.WORK,
        run=describe_sandbox,
    ),
    SlashCommand(
        name="trust",
        about=N_("trust a folder's files, after a yes"),
        usage=N_("[folder|list]"),
        group=CommandGroup.WORK,
        run=trust_folder,
        complete=complete_trust,
    ),
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


_YOLO_COMMAND = SlashCommand(
    name="yolo",
    about=N_("ask nothing in this session (refusals stand); again: ask as before"),
    group=CommandGroup.WORK,
    run=toggle_yolo,
    surfaces=frozenset({Surface.TERMINAL}),
    risky=True,
)

COMMANDS = (*_SAFETY_COMMANDS, _YOLO_COMMAND)
