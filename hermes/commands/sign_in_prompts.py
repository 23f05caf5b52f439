"""What a person at a terminal sees and does while they sign in: the address to open, and the one to paste over ssh."""

import asyncio
import os
import sys
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from hermes.commands.verb import VerbCall
from hermes.i18n.messages import localize, tr
from hermes.util.text import escape_unseen_characters

_MAX_PASTED = 64 * 1024
_STANDARD_INPUT = 0


class TerminalSignIn:
    """The person who signs in at a terminal, as `SignInPerson` has them."""

    def __init__(self, call: VerbCall, *, opens_browser: bool) -> None:
        self.was_asked = False
        """Whether there was anything to sign in to."""
        self._call = call
        self._opens_browser = opens_browser and can_open_browser(call.environ)

    async def show_address(self, url: str) -> None:
        """Show the address, and open it in the person's browser where there is one."""
        self.was_asked = True
        lines = [
            tr("Sign in at this address, within 5 minutes:"),
            escape_unseen_characters(url),
            tr(
                "If your browser is on another machine, it ends at an address that begins with {start} and cannot be "
                "opened: paste that address here.",
                start=_find_redirect_start(url),
            ),
        ]
        self._tell(lines)
        if self._opens_browser:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, url)

    async def show_code(self, url: str, code: str, seconds: float) -> None:
        """Show the page to open on any machine, and the code to type there; open it where there is a browser."""
        self.was_asked = True
        minutes = max(round(seconds / 60), 1)
        self._tell(
            [
                tr("Open this page on any machine, within {n} minutes:", n=minutes),
                escape_unseen_characters(url),
                tr("and type this code there: {code}", code=escape_unseen_characters(code)),
                tr("Type it only if you have begun this sign-in yourself."),
            ]
        )
        if self._opens_browser:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, url)

    async def read_pasted_address(self) -> str:
        """Return the next line of standard input that is not empty; wait for good where there is none."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()
        typed = bytearray()

        def take_input() -> None:
            data = os.read(_STANDARD_INPUT, 4_096)
            typed.extend(data)
            done, newline, _ = bytes(typed).partition(b"\n")
            if not data or len(typed) > _MAX_PASTED:
                loop.remove_reader(_STANDARD_INPUT)
            elif newline and done.strip():
                loop.remove_reader(_STANDARD_INPUT)
                line.set_result(done.decode("utf-8", "replace").strip())
            elif newline:
                typed.clear()

        try:
            loop.add_reader(_STANDARD_INPUT, take_input)
        except (OSError, ValueError):  # a file, or no standard input: nothing can be pasted
            return await line
        try:
            return await line
        finally:
            loop.remove_reader(_STANDARD_INPUT)

    async def ask_client_id(self, issuer: str) -> str:
        """Ask for the id of a client of the person's own."""
        self.was_asked = True
        self._tell([tr("{issuer} registers no clients by itself.", issuer=escape_unseen_characters(issuer))])
        return await asyncio.to_thread(
            self._call.ask_line, tr("The id of a client that you have registered there:") + " "
        )

    def _tell(self, lines: list[str]) -> None:
        if self._call.as_json:
            sys.stderr.write("\n".join([*lines, ""]))
            sys.stderr.flush()
        else:
            self._call.show(lines)


def describe_fallback(why: str) -> str:
    """Return the line that says why tokens are not in the keyring."""
    return tr("The tokens are in a private file, and not in the keyring: {why}", why=localize(why))


def _find_redirect_start(url: str) -> str:
    """Return how the address begins that the browser will be sent back to."""
    redirect = parse_qs(urlsplit(url).query).get("redirect_uri", [""])[0]
    host = urlsplit(redirect).hostname or "127.0.0.1"
    return f"http://{escape_unseen_characters(host)}"


def can_open_browser(environ: Mapping[str, str]) -> bool:
    """Return whether there is a screen here on which a browser would be seen: not over ssh."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    return sys.platform == "darwin" or any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
