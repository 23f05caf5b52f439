"""What tests of plug-ins need beside a temporary home: packages as installers leave them, enabling, recording hooks."""

import base64
import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hermes.admin.plugins import PluginAdmin
from hermes.core.messages import ToolResultPart
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import NO_OUTCOME, HookCall, HookOutcome, HookSource
from hermes.plugins import GROUPS
from hermes.sessions.options import SessionOptions
from hermes.sessions.python_library.tool_session import ToolSession
from hermes.testing.home import TempHome
from hermes.tools.tool import Tool


def enable_plugin(environ: Mapping[str, str], name: str, folder: str = "") -> None:
    """Enable hooks, a package or a folder plug-in in a home, as it is now and as a session in `folder` would use it.

    Raises NotFoundError for a name that there is not, and ConfigError where it cannot be used.
    """
    admin = PluginAdmin(environ, folder)
    admin.enable(admin.find(name))


def write_package(
    folder: Path, name: str, files: Mapping[str, str], offers: Mapping[str, Mapping[str, str]], *, version: str = "1.0"
) -> None:
    """Lay a package out as an installer does, in a folder that is on `sys.path` or in `PYTHONPATH`.

    `files` are texts by path; `offers` are entry points, for instance `{"tools": {"dice": "my_dice:roll_dice"}}`, under
    the kinds of `hermes.plugins.KINDS`. Raises ValueError for another kind.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    lines: list[str] = []
    for kind, entries in offers.items():
        if f"hermes.{kind}" not in GROUPS:
            raise ValueError(f"there is no kind {kind}")
        lines += [f"[hermes.{kind}]", *(f"{entry} = {target}" for entry, target in entries.items())]
    whole = {
        **files,
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info.name}/entry_points.txt": "\n".join(lines) + "\n",
    }
    record = []
    for path, text in whole.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(text.encode())}\n")
    (info / "RECORD").write_text("".join(record), encoding="utf-8")


async def call_tool(
    home: TempHome,
    name: str,
    arguments: Mapping[str, object],
    *,
    tools: Sequence[Tool] = (),
    hooks: Sequence[HookSource] = (),
) -> ToolResultPart:
    """Call one tool in a fresh session of a home, as a model's call is made: through hooks, the permission gate and the
    executor. Nobody is there to ask, so what needs an answer is refused.

    Tools and hooks of what is enabled in the home are there by themselves; `tools` and `hooks` stand beside them.
    """
    options = SessionOptions(cwd=str(home.cwd), extra_tools=tuple(tools))
    async with ToolSession(home.environ, options, hooks=hooks) as session:
        return await session.call(name, arguments)


class RecordingHooks:
    """A source of hooks that notes what it is told in `calls`, in order, and answers what `answers` hold for an event.

    Without `events` it wants to be told of everything.
    """

    def __init__(
        self,
        events: Collection[HookEvent] = (),
        answers: Mapping[HookEvent, HookOutcome] | None = None,
        *,
        name: str = "recording",
    ) -> None:
        self.name = name
        self.calls: list[HookCall] = []
        self.is_closed = False
        self._events = frozenset(events)
        self._answers = dict(answers or {})

    def handles(self, call: HookCall) -> bool:
        """Return whether it wants to be told of this moment."""
        return not self._events or call.event in self._events

    async def run_hook(self, call: HookCall) -> HookOutcome:
        """Note the call and return the answer for its event."""
        self.calls.append(call)
        return self._answers.get(call.event, NO_OUTCOME)

    async def close(self) -> None:
        """Note that the session has ended."""
        self.is_closed = True
