"""`hermes`, `hermes chat` and `hermes -z`: everything that starts a conversation."""

import argparse
import asyncio
import sys
from collections.abc import Mapping

from msgspec import structs

from hermes.admin.models.local_servers import KNOWN_SERVERS, LocalModelServer
from hermes.cli.errors import failed
from hermes.cli.options import app_options, parser
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.i18n.messages import say


def run(arguments: list[str], *, servers: tuple[LocalModelServer, ...] = KNOWN_SERVERS) -> int:
    """Parse the options and talk; `servers` are looked for when no model is configured."""
    given = parser("hermes" if not arguments else "hermes chat").read(arguments)
    text = given.oneshot if given.oneshot is not None else given.query
    environ = process_environment()
    try:
        if given.worktree is not None:
            from hermes.cli.commands.worktree import inside

            return inside(given, environ, lambda: _talk(given, text, environ, servers))
        return _talk(given, text, environ, servers)
    except HermesError as error:
        return failed(error)


def _talk(
    given: argparse.Namespace, text: str | None, environ: Mapping[str, str], servers: tuple[LocalModelServer, ...]
) -> int:
    if text is None and (settings := full_settings(given, environ)) is not None:
        return _full(given, environ, settings)
    from hermes.cli.plain import chat

    asked = text is None and not given.no_input and sys.stdin.isatty() and sys.stdout.isatty()
    if asked and (code := _first(given, environ, servers)) is not None:
        return code
    return chat.once(given, text) if text is not None else chat.chat(given, servers)


def _first(given: argparse.Namespace, environ: Mapping[str, str], servers: tuple[LocalModelServer, ...]) -> int | None:
    """What is offered when no model was chosen yet, unless a server runs here, which is offered in its place. An exit
    code when there is to be no chat; who would rather look around is not told a second time that no model is set up."""
    from hermes.admin.models.local_servers import find_local_servers
    from hermes.cli.first import first_start
    from hermes.cli.plain.readline import lenient
    from hermes.sessions.model.endpoint import is_nothing_configured

    lenient()
    if not is_nothing_configured(app_options(given), environ) or asyncio.run(find_local_servers(servers)):
        return None
    return _looking_around(given, environ, first_start(app_options(given), environ))


def _looking_around(given: argparse.Namespace, environ: Mapping[str, str], code: int | None) -> int | None:
    from hermes.sessions.model.endpoint import is_nothing_configured

    if code is None and is_nothing_configured(app_options(given), environ):
        given.provider = "local"
        print(say("`hermes setup` sets a model up at any time."))
    return code


def full_settings(given: argparse.Namespace, environ: Mapping[str, str]) -> Settings | None:
    """The settings for the full chat; None where the plain one is wanted, or all that this terminal can do."""
    if given.plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    if environ.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    from hermes.config.load import load_settings

    settings = load_settings(locate_home(environ)).settings
    return None if settings.display.plain else settings


def _full(given: argparse.Namespace, environ: Mapping[str, str], settings: Settings) -> int:
    """The full chat: the banner first, then the input line, then what sessions need."""
    from hermes import __version__
    from hermes.cli.tui.banner import show

    options = structs.replace(app_options(given), reviews=True)
    show(__version__, options.cwd, environ.get("HOME", ""), colours=not environ.get("NO_COLOR"))
    model = settings.model
    if not (model.default or model.provider or model.base_url or given.model or given.provider or given.base_url):
        from hermes.cli.first import first_start

        if (code := _looking_around(given, environ, first_start(options, environ))) is not None:
            return code
        options = structs.replace(options, provider=given.provider or options.provider)
    from hermes.cli.log import log_to, redaction
    from hermes.cli.tui.start import Wanted, serve

    home = locate_home(environ)
    log = log_to(home.logs, redaction(environ, home))
    wanted = Wanted(options=options, resume=given.resume, latest=given.latest, no_input=given.no_input)
    return serve(wanted, environ, home, log, settings.display)
