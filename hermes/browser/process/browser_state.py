"""The browser of a home: which one it is, whether it could be confined here, and its kept profile."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes.browser.process.profile import BrowserProfileFolder
from hermes.browser.process.programs import BOX_HINT, INSTALL_HINT, PROGRAM_HINT, choose_program
from hermes.browser.process.remote import ADDRESS_HINT, describe_address
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.config.tool_settings import BrowserProfile
from hermes.core.errors import BrowserError
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.sandbox.program_box import explain_missing_box
from hermes.i18n.messages import N_

_DISPLAYS = ("WAYLAND_DISPLAY", "DISPLAY")
_WINDOW_FLAGS = ("--no-first-run", "--no-default-browser-check", "--password-store=basic")


class BrowserState(Struct, frozen=True, kw_only=True):
    """What the agent's browser is on this machine. `problem` is why it cannot be started; empty where it can."""

    program: str
    remote: str = ""
    """The address of a remote browser, which is used in place of the program; empty: none is set."""
    profile: BrowserProfile
    profile_folder: str
    has_profile: bool
    is_in_use: bool
    problem: str = ""
    advice: str = ""


def open_profile(home: HermesHome) -> BrowserProfileFolder:
    """Return the kept profile of a home."""
    return BrowserProfileFolder(home.browser)


async def read_browser_state(environ: Mapping[str, str], home: HermesHome) -> BrowserState:
    """Return which browser the agent would use, and what is in its way. Nothing is started."""
    settings = load_settings(home).settings.browser
    program = choose_program(settings.program, environ)
    remote, problem, advice = "", "", ""
    if settings.cdp_url:
        try:
            remote = describe_address(settings.cdp_url)
        except BrowserError as error:
            problem, advice = error.message, ADDRESS_HINT
    elif program is None:
        problem, advice = N_("There is no browser on this machine."), INSTALL_HINT
        if settings.program:
            problem = N_("There is no browser at {path}, which `browser.program` names.", path=settings.program)
            advice = PROGRAM_HINT
    else:
        support = await SandboxProbe(environ).find_support()
        if why := explain_missing_box(support, has_network=True, confines_itself=True):
            problem = N_("The browser does not start, since it could not be confined: {reason}.", reason=why)
            advice = BOX_HINT
    profile = open_profile(home)
    return BrowserState(
        program=program.path if program is not None and not settings.cdp_url else "",
        remote=remote,
        profile=settings.profile,
        profile_folder=str(profile.path),
        has_profile=profile.path.exists(),
        is_in_use=profile.is_in_use,
        problem=problem,
        advice=advice,
    )


async def sign_in_by_window(environ: Mapping[str, str], home: HermesHome, url: str = "") -> BrowserState:
    """Open the kept profile in a window of the person's own, and return when they have closed it.

    It is their browser there, not the agent's: outside of the sandbox, with the whole network. Raises BrowserError with
    what is missing.
    """
    settings = load_settings(home).settings.browser
    if not any(environ.get(name) for name in _DISPLAYS):
        raise BrowserError(
            N_("There is no display here, so no window can be opened."),
            N_("Run it in a desktop session of this machine, or over ssh with -X."),
        )
    program = choose_program(settings.program, environ, needs_window=True)
    if program is None:
        raise BrowserError(
            N_("Signing in needs a browser with a window, and there is none on this machine."),
            N_("On Debian and Ubuntu: apt install chromium."),
        )
    if url and not url.startswith(("http://", "https://")):
        url = f"https://{url}"
    with open_profile(home).hold() as folder:
        await _run_window((program.path, *_WINDOW_FLAGS, f"--user-data-dir={folder}", *([url] if url else [])), environ)
    return await read_browser_state(environ, home)


async def _run_window(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    try:
        window = await asyncio.create_subprocess_exec(
            *arguments,
            env=environ,
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise BrowserError(N_("{path} did not start: {error}.", path=arguments[0], error=error)) from None
    try:
        code = await window.wait()
    finally:
        if window.returncode is None:
            window.terminate()
            await window.wait()
    if code:
        raise BrowserError(
            N_("{path} ended with exit code {code}.", path=arguments[0], code=code),
            N_("Chromium does not run as the superuser: sign in as an ordinary user.") if not os.geteuid() else "",
        )
