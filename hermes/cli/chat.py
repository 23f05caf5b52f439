"""`hermes`, `hermes chat` and `hermes -z`: the commands that start a conversation."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs

from hermes.admin.models.local_servers import KNOWN_SERVERS, LocalModelServer
from hermes.cli.chat_options import build_app_options, build_chat_parser
from hermes.cli.output import print_error, report_failure
from hermes.config.environment import copy_environment
from hermes.config.home import locate_home
from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr


def run(arguments: list[str], *, servers: tuple[LocalModelServer, ...] = KNOWN_SERVERS) -> int:
    """Parse the options and start the conversation; `servers` are looked for when no model is configured."""
    args = build_chat_parser("hermes" if not arguments else "hermes chat").parse_arguments(arguments)
    text = args.oneshot if args.oneshot is not None else args.query
    environ = copy_environment()
    try:
        if args.worktree is not None:
            return _run_in_worktree(args, environ, lambda: _start_conversation(args, text, environ, servers))
        return _start_conversation(args, text, environ, servers)
    except HermesError as error:
        return report_failure(error)


def _start_conversation(
    args: argparse.Namespace, text: str | None, environ: Mapping[str, str], servers: tuple[LocalModelServer, ...]
) -> int:
    if text is None and (settings := load_full_chat_settings(args, environ)) is not None:
        return _run_full_chat(args, environ, settings)
    from hermes.cli.plain import chat

    asked = text is None and not args.no_input and sys.stdin.isatty() and sys.stdout.isatty()
    if asked and (code := _offer_setup(args, environ, servers)) is not None:
        return code
    return chat.run_once(args, text) if text is not None else chat.run_plain_chat(args, servers)


def _offer_setup(
    args: argparse.Namespace, environ: Mapping[str, str], servers: tuple[LocalModelServer, ...]
) -> int | None:
    """Offer to set up a model when none is configured and no local server runs, which is offered instead.

    Return an exit code when there is to be no chat. A person who would rather look around is not told a
    second time that no model is set up.
    """
    from hermes.admin.models.local_servers import find_local_servers
    from hermes.cli.first_setup import offer_first_setup
    from hermes.cli.plain.readline import tolerate_invalid_input
    from hermes.sessions.model.endpoint import is_nothing_configured

    tolerate_invalid_input()
    if not is_nothing_configured(build_app_options(args), environ) or asyncio.run(find_local_servers(servers)):
        return None
    return _use_builtin_model(args, environ, offer_first_setup(build_app_options(args), environ))


def _use_builtin_model(args: argparse.Namespace, environ: Mapping[str, str], code: int | None) -> int | None:
    from hermes.sessions.model.endpoint import is_nothing_configured

    if code is None and is_nothing_configured(build_app_options(args), environ):
        args.provider = "local"
        print(tr("`hermes setup` sets a model up at any time."))
    return code


def load_full_chat_settings(args: argparse.Namespace, environ: Mapping[str, str]) -> Settings | None:
    """Load the settings for the full-screen chat; None where the plain one is wanted, or all that this
    terminal can do.
    """
    if args.plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    if environ.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    from hermes.config.load import load_settings

    settings = load_settings(locate_home(environ)).settings
    return None if settings.display.plain else settings


def _run_full_chat(args: argparse.Namespace, environ: Mapping[str, str], settings: Settings) -> int:
    """Run the full-screen chat: the banner first, then the input line, then what sessions need."""
    from hermes import __version__
    from hermes.cli.tui.banner import show_banner

    options = structs.replace(build_app_options(args), reviews=True)
    show_banner(__version__, options.cwd, environ.get("HOME", ""), colours=not environ.get("NO_COLOR"))
    model = settings.model
    if not (model.default or model.provider or model.base_url or args.model or args.provider or args.base_url):
        from hermes.cli.first_setup import offer_first_setup

        if (code := _use_builtin_model(args, environ, offer_first_setup(options, environ))) is not None:
            return code
        options = structs.replace(options, provider=args.provider or options.provider)
    from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
    from hermes.cli.tui.startup import TuiStartOptions, run_chat

    home = locate_home(environ)
    log = install_fault_log(home.logs, build_lazy_redactor(environ, home))
    wanted = TuiStartOptions(options=options, resume=args.resume, latest=args.latest, no_input=args.no_input)
    return run_chat(wanted, environ, home, log, settings.display)


def _run_in_worktree(args: argparse.Namespace, environ: Mapping[str, str], work: Callable[[], int]) -> int:
    """Run the work of a command line with `-w` in a git worktree, and print afterwards what became of the worktree.

    The process stands in the worktree from then on; files that were given as relative paths are found all the same.
    """
    from hermes.admin.worktrees import Worktrees

    args.image = [os.path.abspath(name) for name in args.image]
    args.usage_file = args.usage_file and os.path.abspath(args.usage_file)
    lines: list[str] = []
    try:
        with Worktrees(environ).open_worktree(Path.cwd(), args.worktree) as (made, lines):
            print_error(tr("Working in {folder}, on the branch {branch}.", folder=made.folder, branch=made.branch))
            os.chdir(made.folder)
            return work()
    finally:
        for line in lines:
            print_error(line)
