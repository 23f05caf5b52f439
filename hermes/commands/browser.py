"""`hermes browser`: show the browser that the agent uses, sign in to sites with it, and forget what it keeps."""

from typing import TYPE_CHECKING

from hermes.commands.verb import JSON_OPTION, YES_OPTION, Verb, VerbCall, VerbResult, argument
from hermes.config.home import locate_home
from hermes.i18n.messages import localize, tr
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.browser.process.browser_state import BrowserState

BROWSER = Verb(
    "browser",
    description="The agent uses a browser of this machine, in a sandbox of its own. With `browser.profile: kept` it "
    "has a profile of the home, in which you sign in to sites here.",
    example="hermes browser login https://example.com",
)


@BROWSER.action("status", "which browser it is, and what its profile is (also without a verb)", JSON_OPTION)
async def show_browser(call: VerbCall) -> VerbResult:
    """Show the browser."""
    from hermes.browser.process.browser_state import read_browser_state

    state = await read_browser_state(call.environ, locate_home(call.environ))
    return VerbResult(state, _describe_state(state), exit_code=1 if state.problem else 0)


@BROWSER.action(
    "login",
    "open the kept profile in a window, to sign in to sites",
    argument("url", nargs="?", default="", help="the page to begin with"),
)
async def sign_in(call: VerbCall) -> VerbResult:
    """Open a window with the kept profile, until it is closed."""
    from hermes.admin.config import locate_writable_home
    from hermes.browser.process.browser_state import sign_in_by_window
    from hermes.config.tool_settings import BrowserProfile

    state = await sign_in_by_window(call.environ, locate_writable_home(call.environ), call.args.url)
    lines = [tr("What you have signed in to is kept in {folder}.", folder=state.profile_folder)]
    if state.profile is not BrowserProfile.KEPT:
        lines.append(tr("The agent uses it with: hermes config set browser.profile kept"))
    return VerbResult(state, [escape_unseen_characters(one) for one in lines])


@BROWSER.action("forget", "remove the kept profile, with all sign-ins in it", YES_OPTION)
async def forget_sign_ins(call: VerbCall) -> VerbResult:
    """Remove the kept profile."""
    from hermes.admin.config import locate_writable_home
    from hermes.browser.process.browser_state import open_profile

    if not call.args.yes:
        await call.require_yes(tr("Remove the browser's profile, with all sign-ins in it?"))
    was_there = open_profile(locate_writable_home(call.environ)).remove()
    return VerbResult(lines=[tr("The profile is removed.") if was_there else tr("There is no profile.")])


def _describe_state(state: "BrowserState") -> list[str]:
    from hermes.config.tool_settings import BrowserProfile

    lines = [tr("Browser: {path}", path=state.program)] if state.program else []
    if state.remote:
        lines.append(tr("Browser: the one at {address}, which `browser.cdp_url` names", address=state.remote))
        lines.append(tr("It is outside of the sandbox, and what it loads does not go through the proxy of Hermes."))
        return [escape_unseen_characters(one) for one in lines]
    if state.problem:
        lines += [localize(state.problem), *([localize(state.advice)] if state.advice else [])]
    if state.profile is BrowserProfile.MEMORY:
        lines.append(tr("Profile: in memory; nothing of it is left when a session's browser closes"))
    else:
        lines.append(tr("Profile: {folder}", folder=state.profile_folder))
    if state.has_profile and state.profile is BrowserProfile.MEMORY:
        lines.append(tr("A kept profile is there, and not used: {folder}", folder=state.profile_folder))
    if state.is_in_use:
        lines.append(tr("The kept profile is in use."))
    return [escape_unseen_characters(one) for one in lines]
