"""Named styles, and the colors that a terminal can show.

The built-in skins: the styles of each part of what is shown. A skin names the parts in which it differs
from the default one, whose colors are the terminal's own and so fit dark and light.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr

DEFAULT_SKIN = "default"


SKINS: Mapping[str, Mapping[str, str]] = {
    DEFAULT_SKIN: {
        "text": "",
        "reasoning": "dim italic",
        "heading": "bold ansicyan",
        "heading.minor": "bold",
        "strong": "bold",
        "emphasis": "italic",
        "strike": "strike",
        "code": "ansicyan",
        "link": "underline",
        "address": "dim",
        "quote": "dim",
        "rule": "dim",
        "bullet": "ansicyan",
        "label": "dim",
        "table.head": "bold",
        "table.rule": "dim",
        "code.block": "",
        "code.keyword": "ansimagenta",
        "code.string": "ansigreen",
        "code.comment": "dim italic",
        "code.number": "ansiyellow",
        "code.name": "ansiblue",
        "diff.add": "ansigreen",
        "diff.remove": "ansired",
        "diff.hunk": "ansicyan",
        "diff.number": "dim",
        "diff.file": "bold",
        "diff.add.band": "",
        "diff.add.word": "bold underline",
        "diff.remove.band": "",
        "diff.remove.word": "bold underline",
        "person": "bold",
        "notice": "dim",
        "warning": "ansiyellow",
        "error": "ansired",
        "question": "bold",
        "question.subject": "ansicyan",
        "question.reason": "",
        "question.detail": "dim",
        "question.asks": "bold ansiyellow",
        "question.danger": "bold ansired",
        "plan.done": "dim",
        "plan.now": "bold ansicyan",
        "plan.open": "",
        "result": "dim",
        "failed": "ansired",
        "tool": "",
        "tool.mark": "ansigreen",
        "tool.failed": "ansired",
        "tool.time": "dim",
        "working": "ansicyan",
        "queued": "dim",
        "menu.option": "",
        "menu.chosen": "reverse",
        "menu.hint": "dim",
        "prompt": "bold",
        "status": "noreverse dim",
        "status.model": "",
        "status.alarm": "ansired bold",
        "status.waiting": "ansiyellow",
        "status.session": "",
        "completion-menu": "bg:default default",
        "completion-menu.completion": "bg:default default",
        "completion-menu.completion.current": "bg:default default reverse",
        "completion-menu.meta.completion": "bg:default default dim",
        "completion-menu.meta.completion.current": "bg:default default nodim reverse",
        "auto-suggestion": "dim",
    },
    "light": {
        "heading": "bold #005f87",
        "code": "nodim #875f00",
        "bullet": "#005f87",
        "code.keyword": "#8700af",
        "code.string": "#006700",
        "code.comment": "italic #6c6c6c",
        "code.number": "#af5f00",
        "code.name": "#0000af",
        "diff.add": "#006700",
        "diff.remove": "#af0000",
        "diff.hunk": "#005f87",
        "warning": "#875f00",
        "error": "#af0000",
        "failed": "#af0000",
        "tool.mark": "#006700",
        "tool.failed": "#af0000",
        "working": "#005f87",
        "question.subject": "#005f87",
        "question.asks": "bold #875f00",
        "question.danger": "bold #af0000",
        "plan.now": "bold #005f87",
        "status.alarm": "bold #af0000",
        "status.waiting": "#875f00",
    },
    "mono": {
        "heading": "bold underline",
        "code": "bold",
        "bullet": "",
        "code.keyword": "bold",
        "code.string": "",
        "code.comment": "dim",
        "code.number": "",
        "code.name": "",
        "diff.add": "bold",
        "diff.remove": "dim",
        "diff.hunk": "underline",
        "warning": "bold",
        "error": "bold reverse",
        "failed": "bold",
        "tool.mark": "",
        "tool.failed": "bold",
        "working": "bold",
        "question.subject": "underline",
        "question.asks": "bold",
        "question.danger": "bold reverse",
        "plan.now": "bold",
        "status.alarm": "bold reverse",
        "status.waiting": "bold",
    },
    "ocean": {
        "heading": "bold #5fd7ff",
        "code": "#87d7d7",
        "bullet": "#5fafd7",
        "code.keyword": "#87afff",
        "code.string": "#87d7af",
        "code.comment": "italic #6c8794",
        "code.number": "#d7d787",
        "code.name": "#5fd7ff",
        "diff.add": "#87d7af",
        "diff.remove": "#ff8787",
        "diff.hunk": "#5fafd7",
        "person": "bold #afd7ff",
        "working": "#5fd7ff",
        "tool.mark": "#87d7af",
        "tool.failed": "#ff8787",
        "question.subject": "#87d7d7",
        "prompt": "bold #5fd7ff",
    },
    "ember": {
        "heading": "bold #ffaf5f",
        "code": "#ffd787",
        "bullet": "#ff875f",
        "code.keyword": "#ff875f",
        "code.string": "#d7d787",
        "code.comment": "italic #87786a",
        "code.number": "#ffaf87",
        "code.name": "#ffd7af",
        "person": "bold #ffd7af",
        "working": "#ffaf5f",
        "question.subject": "#ffd787",
        "prompt": "bold #ff875f",
    },
    "forest": {
        "heading": "bold #87d787",
        "code": "#afd7af",
        "bullet": "#5faf5f",
        "code.keyword": "#87d7af",
        "code.string": "#d7d7af",
        "code.comment": "italic #6c8767",
        "code.number": "#d7af87",
        "code.name": "#87d787",
        "person": "bold #d7ffd7",
        "working": "#87d787",
        "question.subject": "#afd7af",
        "prompt": "bold #87d787",
    },
}


class Background(Enum):
    """What is known of the terminal's background."""

    UNKNOWN = "unknown"
    DARK = "dark"
    LIGHT = "light"


BACKGROUND_PARTS: Mapping[Background, Mapping[str, str]] = {
    Background.UNKNOWN: {},
    Background.DARK: {
        "diff.add.band": "bg:#12281d",
        "diff.add.word": "bg:#1f5f3a",
        "diff.remove.band": "bg:#33181b",
        "diff.remove.word": "bg:#7d2b34",
    },
    Background.LIGHT: {
        "diff.add.band": "bg:#e6ffec",
        "diff.add.word": "bg:#abf2bc",
        "diff.remove.band": "bg:#ffebe9",
        "diff.remove.word": "bg:#ffc1ba",
    },
}
"""What a skin shows on a background that is known. On an unknown one nothing is given a background of its own, since
the terminal's own colors could not be read on it.
"""
_EXACT_INDEXED = {
    "#12281d": 22,
    "#1f5f3a": 28,
    "#33181b": 52,
    "#7d2b34": 88,
    "#e6ffec": 194,
    "#abf2bc": 157,
    "#ffebe9": 224,
    "#ffc1ba": 217,
}
"""Colors of ours whose nearest ones of 256 would lose their tint."""
_DARK_SKINS = frozenset({"ocean", "ember", "forest"})


def read_background(environ: Mapping[str, str]) -> Background:
    """Read the background's color from COLORFGBG (`15;0`), which some terminals set."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isascii() or not last.isdigit():
        return Background.UNKNOWN
    return Background.LIGHT if int(last) == 7 or 9 <= int(last) <= 15 else Background.DARK


def choose_background(skin: str, detected: Background) -> Background:
    """Return the background that a skin is made for; what was detected, where it is made for both."""
    if skin == "light":
        return Background.LIGHT
    if skin == "mono":
        return Background.UNKNOWN
    return Background.DARK if skin in _DARK_SKINS else detected


_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_BASIC = {f"ansi{name}": number for number, name in enumerate(_NAMES)}
_BASIC |= {f"ansibright{name}": number + 8 for number, name in enumerate(_NAMES[1:-1], 1)}
_BASIC |= {"ansibrightblack": 8, "ansiwhite": 15}
_ATTRIBUTES = {"bold": 1, "dim": 2, "italic": 3, "underline": 4, "reverse": 7, "strike": 9}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_BASIC_VALUES = (
    (0, 0, 0), (170, 0, 0), (0, 170, 0), (170, 85, 0), (0, 0, 170), (170, 0, 170), (0, 170, 170), (170, 170, 170),
    (85, 85, 85), (255, 85, 85), (85, 255, 85), (255, 255, 85), (85, 85, 255), (255, 85, 255), (85, 255, 255),
    (255, 255, 255),
)  # fmt: skip
_STEPS = (0, 95, 135, 175, 215, 255)

RESET_SEQUENCE = "\x1b[0m"


class ColorDepth(IntEnum):
    """How many colors the terminal shows."""

    PLAIN = 0
    """No colours, and no bold, underlined or reversed text."""
    NONE = 1
    BASIC = 2
    """16."""
    INDEXED = 3
    """256."""
    TRUE = 4


def detect_color_depth(environ: Mapping[str, str]) -> ColorDepth:
    """Read the color depth from TERM, COLORTERM, NO_COLOR and FORCE_COLOR (https://no-color.org,
    https://force-color.org).
    """
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR"):
        return ColorDepth.PLAIN if term in ("", "dumb") else ColorDepth.NONE
    forced = {"1": ColorDepth.BASIC, "true": ColorDepth.BASIC, "2": ColorDepth.INDEXED, "3": ColorDepth.TRUE}
    if (forced_depth := environ.get("FORCE_COLOR", "")) in forced:
        return forced[forced_depth]
    if term in ("", "dumb"):
        return ColorDepth.PLAIN
    if environ.get("COLORTERM", "") in ("truecolor", "24bit") or term.endswith(("-direct", "-truecolor")):
        return ColorDepth.TRUE
    if "256" in term or term.startswith(("xterm-kitty", "alacritty", "foot", "wezterm", "ghostty")):
        return ColorDepth.INDEXED
    return ColorDepth.BASIC


class Theme:
    """The styles of a skin at a color depth. A style is named by one or several parts, the later ones on top."""

    def __init__(
        self, skin: Mapping[str, str], depth: ColorDepth, *, plain: bool = False, unicode: bool = True
    ) -> None:
        self.depth = ColorDepth.PLAIN if plain else depth
        self.plain = plain
        """Words instead of boxes and marks, for screen readers."""
        self.unicode = unicode and not plain
        self._skin = {**SKINS[DEFAULT_SKIN], **skin}
        self._known: dict[str, str] = {}

    @property
    def has_bands(self) -> bool:
        """Whether changed lines have a background of their own."""
        return self.depth >= ColorDepth.INDEXED and "bg:" in self._skin["diff.add.band"]

    def begin_style(self, style: str) -> str:
        """Return the sequence that turns the style on; empty when it shows as nothing."""
        known = self._known.get(style)
        if known is None:
            known = self._known[style] = self._build_sequence(style)
        return known

    def paint(self, style: str, text: str) -> str:
        """Return the text in that style."""
        begin = self.begin_style(style)
        return f"{begin}{text}{RESET_SEQUENCE}" if begin and text else text

    def resolve_styles(self) -> dict[str, str]:
        """Return all parts and their styles, as far as this terminal can show them, as prompt_toolkit writes styles."""
        return {name: self._reduce_style(spec) for name, spec in self._skin.items()}

    def _reduce_style(self, spec: str) -> str:
        if self.depth is ColorDepth.PLAIN:
            return ""
        if self.depth > ColorDepth.NONE:
            return spec
        return " ".join(word for word in spec.split() if word.removeprefix("no") in _ATTRIBUTES)

    def _build_sequence(self, style: str) -> str:
        if self.depth is ColorDepth.PLAIN:
            return ""
        attributes: dict[str, None] = {}
        colours: dict[str, str] = {}
        for name in style.split():
            for word in self._skin.get(name, "").split():
                if word in _ATTRIBUTES:
                    attributes[word] = None
                elif word.startswith("no"):
                    attributes.pop(word[2:], None)
                else:
                    ground, _, colour = word.rpartition(":")
                    colours[ground] = colour
        codes = [str(_ATTRIBUTES[word]) for word in attributes]
        if self.depth > ColorDepth.NONE:
            codes += [
                code
                for ground, colour in colours.items()
                if (code := format_color_code(colour, self.depth, ground == "bg"))
            ]
        return f"\x1b[{';'.join(codes)}m" if codes else ""


def format_color_code(colour: str, depth: ColorDepth, ground: bool) -> str:
    """Return the numbers of an SGR sequence for a color: `#rrggbb`, a name such as `ansired`, or `default`."""
    if colour in ("default", "ansidefault", ""):
        return ""
    if colour in _BASIC:
        return _format_basic_color(_BASIC[colour], ground)
    value = (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))
    if depth is ColorDepth.TRUE:
        return f"{48 if ground else 38};2;{value[0]};{value[1]};{value[2]}"
    if depth is ColorDepth.INDEXED:
        return f"{48 if ground else 38};5;{_find_indexed_color(value)}"
    return _format_basic_color(min(range(16), key=lambda one: _color_distance(_BASIC_VALUES[one], value)), ground)


def _format_basic_color(number: int, ground: bool) -> str:
    return str((30 if number < 8 else 82) + number + (10 if ground else 0))


def _find_indexed_color(value: tuple[int, int, int]) -> int:
    """Find the nearest of the 216 colors and 24 grays of a terminal with 256."""
    if (exact := _EXACT_INDEXED.get("#{:02x}{:02x}{:02x}".format(*value))) is not None:
        return exact
    near = [min(range(6), key=lambda one: abs(_STEPS[one] - part)) for part in value]
    cube = (_STEPS[near[0]], _STEPS[near[1]], _STEPS[near[2]])
    grey = min(max(round((sum(value) / 3 - 8) / 10), 0), 23)
    level = 8 + 10 * grey
    if _color_distance((level, level, level), value) < _color_distance(cube, value):
        return 232 + grey
    return 16 + 36 * near[0] + 6 * near[1] + near[2]


def _color_distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def find_skin(name: str, own: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """Return the parts of a skin: one of the person's own, or a built-in one. Raises UsageError for an unknown
    name, part or style.
    """
    if name in own:
        for part, spec in own[name].items():
            _check_part(name, part, spec)
        return own[name]
    if name not in SKINS:
        known = ", ".join([*SKINS, *own])
        raise UsageError(N_("There is no skin {name!r}.", name=name), N_("Skins: {known}.", known=known))
    return SKINS[name]


def _check_part(skin: str, part: str, spec: str) -> None:
    if part not in SKINS[DEFAULT_SKIN]:
        message = tr("The skin {skin!r} names a part that does not exist: {part!r}.", skin=skin, part=part)
        raise UsageError(message, N_("Parts: {known}.", known=", ".join(SKINS[DEFAULT_SKIN])))
    for word in spec.split():
        colour = word.removeprefix("bg:").removeprefix("fg:")
        fits = word.removeprefix("no") in _ATTRIBUTES or colour in _BASIC or colour in ("default", "ansidefault")
        if not fits and not (len(colour) == 7 and colour[0] == "#" and _HEX_DIGITS.issuperset(colour[1:])):
            message = tr("{word!r} is not a style ({part} of the skin {skin!r}).", word=word, part=part, skin=skin)
            raise UsageError(message, N_("Styles: bold, italic, underline, dim, reverse, strike, #rrggbb, bg:#rrggbb."))
