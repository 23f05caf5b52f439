"""The egress filter of answers that other programs show: files, and addresses that are fetched unasked."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.config.home import HermesHome
from hermes.i18n.messages import N_
from hermes.markup.links import defuse_links
from hermes.safety.paths import Places, is_home_entry, is_or_below, iter_guarded_files, read_refusal
from hermes.sessions.backend_factory import resolve_places
from hermes.tools.permissions.taint_checks import is_known_host
from hermes.tools.toolsets import ALL_TOOLSETS, TOOLSETS, resolve_toolset

if TYPE_CHECKING:
    from hermes.runtime.actor import SessionActor
    from hermes.sessions.app import App
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession


_READING_TOOLS = frozenset({"read_file", "terminal"})


class EgressFilter(Struct, frozen=True):
    """What one session may send out with its answers."""

    roots: tuple[str, ...]
    """Folders whose files may be sent: the workspace, and what was received and made here."""
    find_refusal: Callable[[str], str]
    """Returns why a file may not be sent, in English; empty when it may."""
    home: str
    tainted: bool
    """Whether the conversation holds untrusted content: then an address or a file may leak what was read."""
    is_host_allowed: Callable[[str], bool]
    """Returns whether a host may be reached even then."""


def build_egress_filter(services: "Services", live: "LiveSession") -> EgressFilter:
    """Build the egress filter of a session from its current state."""
    context = live.tools.context
    places, hosts = context.places, services.settings.security.allowed_hosts

    # What was received lies in one folder for the owner, and in each other person's own.
    received = () if places.foreign else (str(services.home.root / "media"),)
    roots = (*((places.workspace,) if _may_send_workspace(services, live) else ()), *received, *places.own)
    return EgressFilter(
        roots=roots,
        find_refusal=make_file_check(services.environ, services.home, places.workspace, roots),
        home=places.home,
        tainted=bool(context.state.taint.list_sources()),
        is_host_allowed=lambda host: is_known_host(host, context, hosts),
    )


def _may_send_workspace(services: "Services", live: "LiveSession") -> bool:
    """Return whether a session's person may have the files of its folder: their own, or their tools read it."""
    limit = live.options.toolset_limit
    if limit is None or live.tools.context.places.workspace.startswith(f"{services.home.people}/"):
        return True
    return any(
        _READING_TOOLS.intersection(resolve_toolset(one)) for one in limit if one in TOOLSETS or one in ALL_TOOLSETS
    )


def build_remote_egress_filter(services: "Services", cwd: str) -> EgressFilter:
    """Build the egress filter of a session in another process, as if it held untrusted content."""
    root, settings = services.home.root, services.settings
    roots = (cwd, str(root / "media"))
    return EgressFilter(
        roots=roots,
        find_refusal=make_file_check(services.environ, services.home, cwd, roots),
        home=services.environ.get("HOME", ""),
        tainted=True,
        is_host_allowed=lambda host: host in settings.security.allowed_hosts,
    )


def make_file_check(
    environ: Mapping[str, str], home: HermesHome, folder: str, own: tuple[str, ...] = ()
) -> Callable[[str], str]:
    """Return a check that says why a file (an absolute, resolved path) may not be sent to a chat, in English.

    It returns an empty text for a file that may be sent. Refused are keys, Hermes' own settings and state, devices,
    what belongs to the system, and hard links of files that hold keys. `folder` is where the session works; `own` are
    folders of the home whose files may be sent.
    """

    @cache
    def get_places() -> Places:  # links are resolved on disk: only an answer that names a file needs that
        return structs.replace(resolve_places(environ, home, folder), own=tuple(map(os.path.realpath, own)))

    def find_refusal(path: str) -> str:
        places = get_places()
        if reason := read_refusal(path, places):
            return reason
        if path.startswith(("/etc/", "/proc/", "/sys/", "/dev/", "/boot/")):
            return N_("it belongs to the system")
        if is_home_entry(path, places) and not is_or_below(path, places.hermes):
            return N_("it is what the home keeps for programs")
        try:
            found = os.stat(path)
        except OSError:
            return ""
        return N_("it is another name of a file that holds keys") if found.st_nlink > 1 and is_guarded(found) else ""

    def is_guarded(found: os.stat_result) -> bool:
        for one in iter_guarded_files(get_places()):
            try:
                other = os.stat(one)
            except OSError:
                continue
            if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino):
                return True
        return False

    return find_refusal


class EgressTextFilter:
    """Filters text on its way out, piece by piece. While untrusted content stands in the conversation, text
    goes by paragraphs, without anything that is fetched by being shown.
    """

    def __init__(self, app: "App", actor: "SessionActor") -> None:
        self._app = app
        self._actor = actor
        self._buffer = ""
        self.text = ""
        """All text that has gone out."""

    def feed_text(self, text: str) -> str:
        """Take more text, and return what can go out now."""
        if not self._buffer and not self._tainted:
            self.text += text
            return text
        self._buffer += text
        end = _last_paragraph_end(self._buffer)
        if not end:
            return ""
        ready, self._buffer = self._buffer[:end], self._buffer[end:]
        return self._emit_text(ready)

    def flush_text(self) -> str:
        """Return the text that was held back."""
        ready, self._buffer = self._buffer, ""
        return self._emit_text(ready) if ready else ""

    def filter_whole(self, text: str) -> str:
        """Return a text that goes out at once, filtered."""
        return self._emit_text(text)

    @property
    def _tainted(self) -> bool:
        return bool(self._app.live_session(self._actor).tools.context.state.taint.list_sources())

    def _emit_text(self, text: str) -> str:
        safe = self._filter_text(text)
        self.text += safe
        return safe

    def _filter_text(self, text: str) -> str:
        out = build_egress_filter(self._app.services, self._app.live_session(self._actor)) if self._tainted else None
        return defuse_links(text, out.is_host_allowed) if out is not None else text


def _last_paragraph_end(text: str) -> int:
    """Return the end of the last whole paragraph outside of code; 0 when there is none."""
    end = text.rfind("\n\n")
    while end >= 0:
        before = text[: end + 2]
        if before.count("```") % 2 == 0 and before.count("~~~") % 2 == 0:
            return end + 2
        end = text.rfind("\n\n", 0, end)
    return 0
