"""`/approvals`, `/sandbox`, `/trust`: what waits for your yes, what holds commands back, and whom you vouch for."""

import asyncio
import os
from collections.abc import Sequence

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import UsageError
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import phrase, say, say_many, translated
from hermes.util.text import escaped, one_line, visible


async def approvals(call: Call) -> None:
    """Show what waits for an answer, in whichever session, and answer it."""
    call.nothing_behind()
    from hermes.admin.approvals import answer_approval, pending_approvals

    environ = call.desk.app.premises.environ
    rows = await pending_approvals(environ)
    if not rows:
        call.desk.tell(say("No question waits for an answer."))
        return
    options = [
        Option(one_line(_said(row, "subject"), 120), f"{_said(row, 'tool')} · {row['session_id']}") for row in rows
    ]
    taken = await call.desk.choose(say("Which question?"), options)
    if taken is None:
        return
    row = rows[taken]
    lines = [
        _said(row, "subject"),
        _said(row, "reason"),
        *([say("in {folder}", folder=_said(row, "cwd"))] if row["cwd"] else []),
    ]
    call.desk.tell("\n".join(lines))
    offered = [
        (AnswerScope.DENY, Option(say("No"))),
        (AnswerScope.ONCE, Option(say("Yes, this once"), _said(row, "once_covers"))),
    ]
    if row["session_covers"]:
        offered.append((AnswerScope.SESSION, Option(say("Yes, for its session"), _said(row, "session_covers"))))
    if row["always_covers"]:
        offered.append((AnswerScope.ALWAYS, Option(say("Yes, from now on"), _said(row, "always_covers"))))
    answer = await call.desk.choose(say("Your answer?"), [option for _, option in offered])
    if answer is None:
        return
    await answer_approval(environ, str(row["id"]), offered[answer][0])
    call.desk.tell(say("Denied.") if answer == 0 else say("Allowed."))


def _said(row: dict[str, object], name: str) -> str:
    return visible(str(row[name]))


async def sandbox(call: Call) -> None:
    """What holds commands back, as a whole, and how to change it."""
    call.nothing_behind()
    desk, on = call.desk, call.desk.app.premises
    lines = [translated(await desk.app.live(desk.actor).tools.context.backend.line(whole=True))]
    terminal = on.settings.terminal
    if desk.app.live(desk.actor).tools.context.backend.name == "sandbox":
        more = ", ".join(terminal.sandbox.writable)
        lines.append(say("Network: {mode}", mode=str(terminal.sandbox.network)))
        lines += [say("Also writable: {folders}", folders=more)] if more else []
    hosts = ", ".join(on.settings.security.allowed_hosts)
    lines += [say("Hosts without a question: {hosts}", hosts=hosts)] if hosts else []
    if desk.app.unasked(desk.actor):
        lines.append(say("NO QUESTIONS are asked in this session (/yolo ends that)."))
    lines.append(say("`hermes config set terminal.backend NAME` changes it for chats that begin later."))
    desk.tell("\n".join(escaped(line) for line in lines))


async def trust(call: Call) -> None:
    """Vouch for a folder, after a yes, as `hermes trust` does; or say what is trusted."""
    from hermes.admin.trust import vouch_for
    from hermes.config.trusted import change_trust, is_trusted, trusted_folders

    on = call.desk.app.premises
    if call.text == "list":
        folders = await asyncio.to_thread(trusted_folders, on.home.trust_file)
        call.desk.tell("\n".join(visible(one) for one in folders) or say("No folder is trusted yet."))
        return
    folder = await asyncio.to_thread(_folder, call)
    shown = visible(folder)
    if is_trusted(folder, trusted_folders(on.home.trust_file)):
        call.desk.tell(say("{folder} is trusted already.", folder=shown))
        return
    question = say("Vouch for {folder}? Its files' text counts as yours, and what it brings may act.", folder=shown)
    if not await call.desk.confirm(question):
        call.desk.tell(say("Nothing was changed."))
        return
    await asyncio.to_thread(lambda: change_trust(on.home.trust_file, folder, trusted=True))
    files = await vouch_for(on.home, folder)
    call.desk.tell(say("{folder} is trusted, with all below it. It counts for sessions that begin now.", folder=shown))
    if files:
        call.desk.tell(
            say_many("{n} marked file in it counts as yours.", "{n} marked files in it count as yours.", files)
        )


def _folder(call: Call) -> str:
    """The folder that is meant, resolved. Raises UsageError for none, and for one that is too much at once."""
    from hermes.config.trusted import too_wide

    named = os.path.expanduser(call.text) if call.text else call.desk.app.options.cwd or os.getcwd()
    folder = os.path.realpath(named)
    if not os.path.isdir(folder):
        raise UsageError(phrase("{folder} is not a folder.", folder=visible(folder)))
    home = call.desk.app.premises.environ.get("HOME") or os.path.expanduser("~")
    why, _ = too_wide(folder, home)
    if why:
        raise UsageError(
            phrase("{folder} is not trusted: {why}.", folder=visible(folder), why=why),
            phrase("Name the project's folder."),
        )
    return folder


async def trusted(_call: Call) -> Sequence[Option]:
    """Its word."""
    return [Option("list", say("what is trusted"))]


COMMANDS = (
    Command(
        name="approvals",
        about=phrase("what waits for your yes, in whichever session; answer it"),
        group=Group.WORK,
        run=approvals,
    ),
    Command(
        name="sandbox",
        about=phrase("what holds commands back, and how to change it"),
        group=Group.WORK,
        run=sandbox,
    ),
    Command(
        name="trust",
        about=phrase("vouch for a folder's files, after a yes"),
        usage=phrase("[folder|list]"),
        group=Group.WORK,
        run=trust,
        complete=trusted,
    ),
)
