"""How the program shows itself (`display:`)."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class BusyMode(StrEnum):
    """What Enter does with a message while a turn runs."""

    STEER = "steer"
    """It joins the turn when its next tools are done; it is answered by a turn of its own when none follow."""
    QUEUE = "queue"
    """It waits for a turn of its own."""
    INTERRUPT = "interrupt"
    """The turn is stopped, and it is answered next."""


class ToolProgress(StrEnum):
    """How much is shown of the agent's work."""

    OFF = "off"
    """Only answers, questions and what went wrong."""
    SHORT = "short"
    """A line a call; calls of one kind in a row fold into one."""
    ALL = "all"
    """A line a call, and the last five lines of what commands say."""
    VERBOSE = "verbose"
    """Also the last dozen lines of every result."""


class NotifyMode(StrEnum):
    """How you are told that a turn has ended, or asks, while you look at another window."""

    OFF = "off"
    BELL = "bell"
    """The terminal's bell."""
    OSC = "osc"
    """Notifications of the desktop, by OSC 9 and OSC 777."""
    AUTO = "auto"
    """A notification of the desktop where the terminal is known to show it, else the bell."""


class EditingMode(StrEnum):
    """Whose keys edit the input line."""

    EMACS = "emacs"
    VI = "vi"


BUILTIN_SKINS = ("default", "light", "mono", "ocean", "ember", "forest")
"""The names of the skins that come with Hermes; `hermes.cli.render.theme` has their colours."""


class DisplaySettings(Struct, frozen=True):
    """How the terminal looks and behaves (`display:`)."""

    language: str = "auto"
    """`en`, `zh`, or `auto`: as the environment says (`LC_ALL`, `LC_MESSAGES`, `LANG`)."""
    skin: str = "default"
    """The colours: `hermes chat`'s `/skin` lists them. `default` fits itself to a dark or a light terminal."""
    skins: Mapping[str, Mapping[str, str]] = {}
    """Skins of your own, by name: parts and their styles, such as `heading: bold #87afff`."""
    busy_input_mode: BusyMode = BusyMode.STEER
    """What Enter does while a turn runs: `steer`, `queue` or `interrupt`."""
    tool_progress: ToolProgress = ToolProgress.ALL
    """How much is shown of the agent's work: `off`, `short`, `all` or `verbose`."""
    show_reasoning: bool = False
    """Whether the model's reasoning is shown as it comes, where the provider gives it."""
    status_bar: bool = True
    """Whether the line below the input tells folder, branch, model, context, cost, cache and sandbox."""
    timestamps: bool = False
    """Whether messages carry the time."""
    editing_mode: EditingMode = EditingMode.EMACS
    """Whose keys edit the input line: `emacs` or `vi`."""
    notify: NotifyMode = NotifyMode.AUTO
    """How you are told of the end of a turn or of a question while you are away: `auto`, `bell`, `osc` or `off`."""
    title: bool = True
    """Whether the terminal's title says what the chat does."""
    keys: Mapping[str, str] = {}
    """Keys of your own, such as `unfold: f2` or `edit: ctrl-x ctrl-e, f4`; `/help` lists the actions."""
    plain: bool = False
    """Whether the chat is lines only, without a fixed input area, colours and boxes: for screen readers."""
