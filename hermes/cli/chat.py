"""`hermes`, `hermes chat` and `hermes -z`: the commands that start a conversation."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.cli.chat_options import (
    apply_prompt,
    build_app_options,
    build_chat_parser,
    build_message,
    build_resume_parser,
    enter_folder,
    has_terminal,
)
from hermes.cli.output import EXIT_INTERRUPTED, print_error, report_failure
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.admin.models.local_servers import LocalModelServer
    from hermes.cli.plain.run_report import RunReport


def run(arguments: list[str], *, servers: "tuple[LocalModelServer, ...] | None" = None) -> int:
    """Parse the options of `hermes chat` and start the conversation; `servers` (the known ones) are looked for when no
    model is configured.
    """
    return _run_command_line(arguments, servers, is_bare=False)


def run_bare(arguments: list[str]) -> int:
    """Do the same for `hermes` without a command, where a word must be told from a mistyped command."""
    return _run_command_line(arguments, None, is_bare=True)


def run_resume(arguments: list[str]) -> int:
    """Parse the options of `hermes resume` and go on with a session."""
    parser = build_resume_parser()
    args = parser.parse_arguments(arguments)
    if not args.latest:
        args.resume = args.resume or args.session or ""
    apply_prompt(args, is_bare=False, parser=parser)
    return _run_parsed(args, None)


def _run_command_line(arguments: list[str], servers: "tuple[LocalModelServer, ...] | None", *, is_bare: bool) -> int:
    parser = build_chat_parser("hermes" if not arguments else "hermes chat")
    if is_bare:
        parser.options_taken_before = ("--version",)
    args = parser.parse_arguments(arguments)
    apply_prompt(args, is_bare=is_bare, parser=parser)
    return _run_parsed(args, servers)


def _run_parsed(args: argparse.Namespace, servers: "tuple[LocalModelServer, ...] | None") -> int:
    environ = copy_environment()

    def start() -> int:
        enter_folder(args)
        if args.worktree is not None:
            return _run_in_worktree(args, environ, lambda: _start_conversation(args, environ, servers, report))
        return _start_conversation(args, environ, servers, report)

    report = None
    try:
        if args.report is None:
            return start()
        from hermes.cli.plain.run_report import ReportMode, RunReport, run_reported

        report = RunReport(ReportMode(args.report))
        return run_reported(report, start)
    except HermesError as error:
        return report_failure(error)


def _start_conversation(
    args: argparse.Namespace,
    environ: Mapping[str, str],
    servers: "tuple[LocalModelServer, ...] | None",
    report: "RunReport | None",
) -> int:
    if args.resume == "":
        from hermes.cli.plain.menu import PromptAbortedError
        from hermes.cli.session_choice import choose_session

        try:
            args.resume = choose_session(environ, can_ask=has_terminal() and not args.no_input)
        except (PromptAbortedError, KeyboardInterrupt):
            print(tr("No session was chosen."))
            return EXIT_INTERRUPTED
    text = args.oneshot if args.oneshot is not None else args.query
    if text is not None:
        return _run_once(args, text, report)
    if (settings := load_full_chat_settings(args, environ)) is not None:
        return _run_full_chat(args, environ, settings)
    from hermes.cli.plain import chat

    if servers is None:
        from hermes.admin.models.local_servers import KNOWN_SERVERS

        servers = KNOWN_SERVERS
    asked = not args.no_input and has_terminal()
    if asked and (code := _offer_setup(args, environ, servers)) is not None:
        return code
    return chat.run_plain_chat(args, build_app_options(args), servers)


def _run_once(args: argparse.Namespace, text: str, report: "RunReport | None") -> int:
    """Send one message. What cannot be used (a schema, piped input) is told before a model is asked."""
    options = build_app_options(args)
    schema = None
    if args.output_schema:
        from hermes.sessions.answer_schema import AnswerSchema

        schema = AnswerSchema.load(Path(args.output_schema))
    inbound = build_message(text, options.cwd or "")
    from hermes.cli.plain.one_message import OneMessage

    return OneMessage(args, inbound, options, report=report, schema=schema).run()


def _offer_setup(
    args: argparse.Namespace, environ: Mapping[str, str], servers: "tuple[LocalModelServer, ...]"
) -> int | None:
    """Offer to set up a model when none is configured and no local server runs, which is offered instead. Return an
    exit code when there is to be no chat.
    """
    from hermes.admin.models.local_servers import find_local_servers
    from hermes.cli.plain.readline import tolerate_invalid_input
    from hermes.sessions.model.model_route import is_nothing_configured

    tolerate_invalid_input()
    if not is_nothing_configured(build_app_options(args), environ) or asyncio.run(find_local_servers(servers)):
        return None
    return _offer_first_setup(args, environ)


def load_full_chat_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> Settings | None:
    """Load the settings for the full-screen chat; None where the plain one is wanted, or all that this
    terminal can do.
    """
    if args.plain or not has_terminal():
        return None
    if environ.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    from hermes.config.load import load_settings

    ignored = args.safe_mode or args.ignore_user_config
    settings = load_settings(locate_home(environ), ignored=ignored).settings
    return None if settings.display.plain else settings


def _run_full_chat(args: argparse.Namespace, environ: Mapping[str, str], settings: Settings) -> int:
    """Run the full-screen chat: the banner first, then the input line, then what sessions need."""
    from hermes import __version__

    options = build_app_options(args)
    options = structs.replace(options, reviews=options.remembers, goes_on=True)
    _print_banner(__version__, options.cwd, environ.get("HOME", ""), colours=not environ.get("NO_COLOR"))
    model = settings.model
    if not (model.default or model.provider or model.base_url or args.model or args.provider or args.base_url):
        if (code := _offer_first_setup(args, environ)) is not None:
            return code
        options = structs.replace(options, provider=args.provider or options.provider)
    from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
    from hermes.cli.tui.chat import run_chat

    home = locate_home(environ)
    log = install_fault_log(home.logs, build_lazy_redactor(environ, home))
    return asyncio.run(run_chat(args, options, environ, log, settings.display))


def _print_banner(version: str, folder: str, home: str, *, colours: bool) -> None:
    """Print the version, the working folder, and the three keys to know, before anything heavy is imported."""
    place = f"~{folder.removeprefix(home)}" if home and (folder == home or folder.startswith(f"{home}/")) else folder
    bold, dim, end = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if colours else ("", "", "")
    hint = tr("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves")
    lines = "".join(f"  {dim}{line}{end}\n" for line in _wrap_hint(hint, _read_width() - 3))
    sys.stdout.write(f"\n  {bold}☤ Hermes {version}{end}  {escape_unseen_characters(place)}\n{lines}\n")
    sys.stdout.flush()


def _read_width() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _wrap_hint(hint: str, width: int) -> list[str]:
    """Wrap a line at words; nothing is imported where it surely fits."""
    if len(hint) * (1 if hint.isascii() else 2) <= width:
        return [hint]
    from hermes.markup.cells import wrap_text

    return [hint[start:end].rstrip() for start, end in wrap_text(hint, max(width, 10), whole=True)]


def _offer_first_setup(args: argparse.Namespace, environ: Mapping[str, str]) -> int | None:
    """Offer to set up a model where none is configured. Return an exit code when there is to be no chat.

    A person who would rather look around gets the small model, where it is installed, and is not told a second time
    that none is set up.
    """
    from hermes.cli.plain.menu import PromptAbortedError, choose_option
    from hermes.sessions.model.model_route import has_embedded_model, is_nothing_configured

    options = build_app_options(args)
    if not is_nothing_configured(options, environ):
        return None
    ways = [tr("Set a model up now: it takes a minute"), tr("Leave")]
    if has_embedded_model():
        ways.insert(1, tr("Just look around, with the small model that comes along (English only, no tools)"))
    try:
        taken = choose_option(tr("No model is set up yet. What now?"), ways)
    except (PromptAbortedError, KeyboardInterrupt):
        print()
        return EXIT_INTERRUPTED
    if taken == len(ways) - 1:
        return 0
    if taken == 0:
        from hermes.cli.commands.setup import run

        if code := run([]):
            return code
    if is_nothing_configured(options, environ):
        if not has_embedded_model():
            return 0
        args.provider = "local"
        print(tr("`hermes setup` sets a model up at any time."))
    return None


def _run_in_worktree(args: argparse.Namespace, environ: Mapping[str, str], work: Callable[[], int]) -> int:
    """Run the work of a command line with `-w` in a git worktree, and print afterwards what became of the worktree.

    The process stands in the worktree from then on; files that were given as relative paths are found all the same.
    """
    from hermes.execution.worktrees import Worktrees

    args.image = [os.path.abspath(name) for name in args.image]
    for name in ("usage_file", "output", "output_schema"):
        if getattr(args, name):
            setattr(args, name, os.path.abspath(getattr(args, name)))
    lines: list[str] = []
    try:
        with Worktrees(environ).open_worktree(Path.cwd(), args.worktree) as (made, lines):
            print_error(tr("Working in {folder}, on the branch {branch}.", folder=made.folder, branch=made.branch))
            os.chdir(made.folder)
            return work()
    finally:
        for line in lines:
            print_error(line)
