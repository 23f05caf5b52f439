"""Starts a browser of this machine in a box of its own, and speaks with it over a pair of pipes.

No port is opened. The box shows programs of the system, fonts and one profile, in memory or in a folder; its network is
a proxy of ours. The browser's own sandbox, which keeps pages from one another and from the profile, works inside of it.
"""

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Sequence

from msgspec import Struct

from hermes.browser.cdp import CdpConnection
from hermes.browser.process.programs import BOX_HINT, BrowserProgram
from hermes.browser.transport import PipeTransport
from hermes.core.errors import BrowserError, BrowserGoneError, ToolError
from hermes.execution.local import ProcessTree
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.sandbox.program_box import (
    PROXY_URL,
    SYSTEM_PATH,
    SYSTEM_PATHS,
    ProgramBox,
    explain_missing_box,
    make_boxed_call,
)
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.execution.supervisor import LaunchRequest, Supervisors
from hermes.i18n.messages import N_
from hermes.safety.paths import is_or_below
from hermes.util.text import to_one_line

_MEMORY_MB = 3_072
"""Megabytes that one process of the browser may write to; a page that wants more crashes, and nothing else does."""
_SCRIPT_MEMORY_MB = 1_024
_MAX_OPEN_FILES = 4_096
_TEMPORARY_BYTES = 512 << 20
"""Bytes that its temporary files may take, and as many those of a profile in memory."""
_MEMORY_PROFILE = "/profile"
_END_SECONDS = 1.0
_MAX_ERRORS, _MAX_REASON = 65_536, 300
_START_SECONDS = 20.0
_SETTINGS = (
    "/etc/fonts",
    "/var/cache/fontconfig",
    "/etc/chromium",
    "/etc/chromium.d",
    "/etc/opt/chrome",
    "/etc/opt/edge",
)
"""Fonts, what is known of them, and what the owner of the machine rules for browsers."""
_UNUSED = (
    "Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,GlobalMediaControls,AutofillServerCommunication,"
    "Reporting,NetworkErrorLogging,CertificateTransparencyComponentUpdater,PrivacySandboxSettings4,HttpsUpgrades,WebUSB,WebBluetooth,"
    "FedCm"  # its requests are shown to no watch
)
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-client-side-phishing-detection",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-notifications",
    "--disable-speech-api",
    "--metrics-recording-only",
    "--log-level=3",
    "--blink-settings=hyperlinkAuditingEnabled=false",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--deny-permission-prompts",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    f"--js-flags=--max-old-space-size={_SCRIPT_MEMORY_MB}",
    f"--proxy-server={PROXY_URL}",
    # Without this names of this machine would not be asked of the proxy.
    "--proxy-bypass-list=<-loopback>",
    f"--disable-features={_UNUSED}",
    "--window-size=1280,800",
)


class BrowserStarter(Struct, frozen=True, kw_only=True):
    """What browsers are started with."""

    supervisors: Supervisors
    probe: SandboxProbe


class LaunchedBrowser:
    """A browser that runs; `close` ends it with all of its processes. A death of Hermes does, too."""

    def __init__(self, connection: CdpConnection, tree: ProcessTree) -> None:
        self.connection = connection
        self._tree = tree

    @property
    def is_running(self) -> bool:
        """Whether it is there to be asked."""
        return self._tree.is_alive() and not self.connection.is_gone

    async def close(self) -> None:
        """End it: it is asked to first, so that its profile is whole; cancelling this kills at once."""
        try:
            if self.is_running:
                self.connection.post("Browser.close")
                await self._tree.wait_until_gone(_END_SECONDS)
        finally:
            if self._tree.is_alive():
                self._tree.kill()
            await self.connection.close()
        await self._tree.wait_until_gone(_END_SECONDS)


class BrowserFolders(Struct, frozen=True, kw_only=True):
    """The folders of this machine that a browser may write; no other browser has its profile open.

    Without a profile it has one in memory, which is gone when it ends; without `downloads` it can store none.
    """

    profile: str = ""
    downloads: str = ""


async def launch_browser(
    starter: BrowserStarter, program: BrowserProgram, folders: BrowserFolders, proxy_end: socket.socket
) -> LaunchedBrowser:
    """Start a browser. `proxy_end` leads to its proxy, and is the caller's to close.

    Raises BrowserError with what is missing or failed.
    """
    support = await starter.probe.find_support()
    why = explain_missing_box(support, has_network=True, confines_itself=True)
    if why:
        problem = N_("The browser does not start, since it could not be confined: {reason}.", reason=why)
        raise BrowserError(problem, BOX_HINT)
    box = build_box(program, folders)
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        pipes = [os.pipe(), os.pipe()]
        for near, far in ((pipes[0][1], pipes[0][0]), (pipes[1][0], pipes[1][1])):
            ours.callback(os.close, near)
            theirs.callback(os.close, far)
            os.set_blocking(near, False)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        theirs.callback(os.close, null)
        errors = create_memory_file("errors")
        ours.callback(os.close, errors)
        try:
            call = theirs.enter_context(make_boxed_call(box, support, proxy_end, (pipes[0][0], pipes[1][1])))
            request = LaunchRequest(
                folder="/",
                arguments=call.arguments,
                environment={},
                source=null,
                output=null,
                extra_handles=(errors, *call.handles),
            )
            async with asyncio.timeout(_START_SECONDS):
                tree = await starter.supervisors.start(request)
        except (ToolError, OSError, ValueError, TimeoutError) as error:
            reason = error.message if isinstance(error, ToolError) else str(error) or "it takes too long"
            raise BrowserError(
                N_("The browser {path} did not start: {reason}.", path=program.path, reason=reason)
            ) from None
        if tree is None:
            raise BrowserError(N_("The browser does not start: there is no supervisor for its processes here."))
        ours.pop_all()
    connection = CdpConnection(PipeTransport(pipes[1][0], pipes[0][1]))
    connection.start()
    launched = LaunchedBrowser(connection, tree)
    try:
        await connection.call("Browser.getVersion", timeout=_START_SECONDS)
    except BrowserGoneError:
        await launched.close()
        said = N_("The browser {path} ended at once: {reason}", path=program.path, reason=_read_last_line(errors))
        raise BrowserError(said) from None
    except BaseException:
        await launched.close()
        raise
    finally:
        os.close(errors)
    return launched


def _read_last_line(errors: int) -> str:
    """Return the last that a program has said of errors."""
    lines = os.pread(errors, _MAX_ERRORS, 0).decode("utf-8", "replace").strip().splitlines()
    return to_one_line(lines[-1], _MAX_REASON) if lines else N_("it has not said why")


def build_box(program: BrowserProgram, folders: BrowserFolders, flags: Sequence[str] = _FLAGS) -> ProgramBox:
    """Return the box of a browser with these folders."""
    own = () if any(is_or_below(program.folder, one) for one in SYSTEM_PATHS) else (program.folder,)
    settings = tuple(one for one in _SETTINGS if os.path.isdir(one))
    profile = folders.profile or _MEMORY_PROFILE
    temporary = ("/tmp", *(() if folders.profile else (profile,)))  # noqa: S108
    mounts = [word for one in temporary for word in ("--size", str(_TEMPORARY_BYTES), "--tmpfs", one)]
    if folders.downloads:
        mounts += ["--bind", folders.downloads, folders.downloads]
    return ProgramBox(
        program=(os.path.realpath(program.path), *flags, f"--user-data-dir={profile}", "about:blank"),
        folder=profile,
        variables={"HOME": profile, "PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "TZ": "UTC"},  # noqa: S108
        shown=(*own, *settings),
        data=folders.profile,
        mounts=tuple(mounts),
        limits=((resource.RLIMIT_DATA, _MEMORY_MB << 20), (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)),
        has_network=True,
        can_start_processes=True,
        confines_itself=True,
        moved=((0, 3), (1, 4)),
    )
