"""`hermes backup`, `/snapshot`: put the home into one file, or list the backups.

`hermes restore`: replace the home's data by a backup's.
"""

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.commands.verb import JSON_OPTION, SHORT_YES_OPTION, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.core.encoding import Plain
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.i18n.formats import format_bytes, format_compact, format_time
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.markup.cells import pad_text
from hermes.util.text import escape_unseen_characters, shorten_command

BACKUP = Verb(
    "backup",
    description="Put the home into one file: the database, settings, keys, webhooks, scripts, skills, memories and "
    "people's own files up to a limit; not caches and logs. "
    "Sessions may be open meanwhile. `hermes backup list` shows those in the folder `backups`.",
    example="hermes backup --quick",
)
RESTORE = Verb(
    "restore",
    description="Restore a backup. The home is backed up first; no session may be open. What the "
    "backup does not hold stays as it is.",
    example="hermes restore hermes-20261101-120000.zip --dry-run",
)


_NO_NAMES = ("create", "new", "make", "now")
"""Words that people type in the place of the file, and that are no file."""


@BACKUP.action(
    "",
    "",
    argument("file", nargs="?", default="", help="a new file (default: one in the folder `backups`)"),
    argument("--quick", action="store_true", help="without skills, large results, trajectories and people's own files"),
    argument("--no-keys", action="store_true", help="without .env, auth.json and webhooks.json"),
    argument(
        "--limit",
        type=int,
        default=1000,
        metavar="MB",
        help="how much of people's own files (workspace, people, media, cron), 1000 by default",
    ),
    argument(
        "--commands-may-read", action="store_true", help="also with keys where the agent's commands can read the file"
    ),
    JSON_OPTION,
)
async def make_backup(call: VerbCall) -> VerbResult:
    """Make a backup, or list the backups."""
    from hermes.admin.backup import create_backup, list_backups

    args = call.args
    if args.file in ("list", "ls"):
        none = tr("There is no backup yet. `hermes backup` makes one.")
        return rows_result(list_backups(call.environ), _format_backup, none)
    if args.file == "restore":
        raise UsageError(
            N_("`hermes restore FILE` restores a backup."), N_("`hermes backup list` shows those there are.")
        )
    is_named = args.file not in ("", *_NO_NAMES)
    target = Path(os.path.expanduser(args.file)) if is_named else None  # noqa: ASYNC240 - it reads one variable
    if not (args.no_keys or args.commands_may_read):
        await _require_closed_place(call.environ, target)
    if args.limit < 0:
        raise UsageError(N_("--limit is a number of megabytes, from 0 on."))
    made = create_backup(
        call.environ,
        target,
        quick=args.quick,
        keys=not args.no_keys,
        limit=args.limit * 1_000_000,
        report=call.report_progress,
    )
    lines = [_format_made(made), _format_restore_command(call.environ, str(made["file"]))]
    return VerbResult(made, lines, () if call.as_json else _backup_notices(made))


def _format_made(made: Plain) -> str:
    files = tr_plural("{n} file", "{n} files", int(str(made["files"])))
    return escape_unseen_characters(f"{made['file']}  {format_bytes(_size_bytes(made))}, {files}")


def _format_restore_command(environ: Mapping[str, str], file: str) -> str:
    """Return the line that names the command by which a backup is restored."""
    from hermes.config.home import locate_home

    path = Path(file)
    name = path.name if path.parent == locate_home(environ).backups else file
    command = f"hermes restore {shlex.quote(name)}"
    return escape_unseen_characters(tr("To restore it: {command}", command=command))


def _backup_notices(made: Plain) -> list[str]:
    """Return lines about the keys in a backup, and about what is not in it."""
    keys, settings, left_out, skipped = (made[name] for name in ("keys", "key_settings", "left_out", "skipped"))
    assert isinstance(keys, list) and isinstance(left_out, list) and isinstance(skipped, list)
    assert isinstance(settings, list)
    notices = []
    if keys:
        notices.append(tr("Keys are in it ({files}): keep it as you keep them.", files=", ".join(keys)))
    if settings:
        names = escape_unseen_characters(", ".join(settings[:20]))
        notices.append(tr("Keys that stand in config.yaml are in it: {names}.", names=names))
    if left_out:
        notices.append(tr("Not in it: {names}.", names=", ".join(left_out[:20])))
    return notices + [escape_unseen_characters(tr("Left out: {what}", what=line)) for line in skipped]


async def _require_closed_place(environ: Mapping[str, str], file: Path | None) -> None:
    """Raise UsageError for a place where the agent's commands would read the keys and conversations.

    The folder `backups`, which None stands for, may be a link that leads to one.
    """
    from hermes.admin.status import can_commands_read
    from hermes.config.home import locate_home

    target = file or locate_home(environ).backups / f".{os.urandom(4).hex()}"
    try:
        is_open = await can_commands_read(environ, target)
    except OSError:
        return  # whoever writes the file says what is wrong with its place
    if is_open:
        raise UsageError(
            N_(
                "{file} is where the agent's commands can read it, with your keys and every conversation.",
                file=file or target.parent,
            ),
            N_(
                "Without a file, it goes where they cannot. Else leave the keys out (--no-keys), or say that "
                "they may read it (--commands-may-read)."
            ),
        )


@RESTORE.action(
    "",
    "",
    argument("file", help="a backup: a path, or a name that `hermes backup list` shows"),
    argument("--dry-run", action="store_true", help="only say what it would replace"),
    SHORT_YES_OPTION,
    JSON_OPTION,
)
def restore_home(call: VerbCall) -> VerbResult:
    """Show what a backup would replace, and do it after a yes."""
    from hermes.admin.backup import plan_restore, require_unused_home, resolve_backup_path, restore_backup

    file = resolve_backup_path(call.environ, call.args.file)
    if not call.args.dry_run:
        require_unused_home(call.environ)
    plan = plan_restore(call.environ, file)
    if call.args.dry_run:
        return VerbResult(plan, _format_plan(plan))
    call.show(_format_plan(plan))
    call.require_yes_now(tr("Restore it?"), what=tr("Restoring"))
    done = restore_backup(call.environ, file, planned=plan, report=call.report_progress)
    lines = [tr("Restored.")]
    if done["before"]:
        lines.append(escape_unseen_characters(tr("What was there before is in {file}.", file=done["before"])))
    if done["kept_in"]:
        said = tr("People's own files from before are in {folder}.", folder=done["kept_in"])
        lines.append(escape_unseen_characters(said))
    notices = [tr("Keys were restored, too.")] if plan["keys"] and not call.as_json else []
    return VerbResult(done, lines, notices)


def _format_backup(row: Plain) -> str:
    marks = [
        *([tr("automatic")] if row["automatic"] else []),
        *([tr("quick")] if row.get("quick") else []),
        *([tr("with keys")] if row.get("keys") else []),
        *([str(row["wrong"])] if row["wrong"] else []),
    ]
    when = format_time(float(str(row["made_at"])))
    size = format_bytes(int(str(row["bytes"])))
    line = f"{row['name']:<36} {pad_text(when, 14)} {size:>8}  {', '.join(marks)}"
    return escape_unseen_characters(line.rstrip())


def _format_plan(plan: Plain) -> list[str]:
    when = format_time(float(str(plan["made_at"])))
    lines = [
        tr(
            "{file}: backup of {when}, made by Hermes {version}, into {home}:",
            file=plan["file"],
            when=when,
            version=plan["version"],
            home=plan["home"],
        )
    ]
    for title, key in ((tr("replaced"), "replaced"), (tr("added"), "added")):
        parts = plan[key]
        assert isinstance(parts, list)
        for part in parts:
            files = tr_plural("{n} file", "{n} files", part["files"])
            lines.append(f"  {title}: {part['name']} ({files}, {format_bytes(part['bytes'])})")
    unchanged = plan["kept"]
    assert isinstance(unchanged, list)
    if unchanged:
        lines.append("  " + tr("stays as it is: {names}", names=", ".join(unchanged)))
    effects = plan["effects"]
    assert isinstance(effects, list)
    if effects:
        lines.append(tr("With it comes what starts programs, lets somebody in, or changes what is asked:"))
        lines += [f"  {shorten_command(' '.join(localize(line).split()))}" for line in effects]
    return [escape_unseen_characters(line) for line in lines]


COMMANDS = CommandList(CommandGroup.ABOUT)


async def complete_snapshot(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands."""
    return [MenuOption("create"), MenuOption("list")]


@COMMANDS.command(
    "snapshot",
    N_("back up all that Hermes keeps, or list backups"),
    usage=N_("[create|list]"),
    aliases=("snap",),
    complete=complete_snapshot,
)
async def manage_backups(call: CommandCall) -> None:
    """Create a backup of the home, or list the backups."""
    from hermes.admin.backup import create_backup, list_backups

    on = call.context.app.services
    match call.words:
        case [] | ["list"]:
            rows = await asyncio.to_thread(list_backups, on.environ)
            lines = [
                f"  {row['name']}  {format_time(float(str(row['made_at'])))}  {format_compact(_size_bytes(row))}B"
                for row in rows
            ]
            call.context.tell(
                "\n".join(escape_unseen_characters(line) for line in lines) or tr("There is no backup yet.")
            )
            call.context.tell(tr("/snapshot create makes one; `hermes restore FILE` restores one."))
        case ["create"]:
            await _require_closed_place(on.environ, None)
            made = await asyncio.to_thread(create_backup, on.environ)
            call.context.tell(
                tr(
                    "Made: {file} ({size}B)",
                    file=escape_unseen_characters(str(made["file"])),
                    size=format_compact(_size_bytes(made)),
                )
            )
            call.context.tell(_format_restore_command(on.environ, str(made["file"])))
            if made["keys"] or made["key_settings"]:
                call.context.tell(tr("Keys are in it: keep it as you keep them."), Level.WARNING)
        case ["restore" | "prune", *_]:
            raise UsageError(
                N_("Close every chat before you restore a home."),
                N_("`hermes restore FILE`; /snapshot list names them."),
            )
        case _:
            raise UsageError(N_("/snapshot takes `create`, `list` or nothing."))


def _size_bytes(row: dict[str, object]) -> int:
    return int(str(row["bytes"]))
