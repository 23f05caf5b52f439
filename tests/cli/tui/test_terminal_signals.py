"""What the terminal tells among the keys, and what it is told: nothing of it reaches the line, and nothing is eaten."""

import os
from collections.abc import Iterator, Mapping

import pytest

from hermes.cli.render.theme import Background
from hermes.cli.tui.terminal_signals import TerminalInput, TerminalSignals, judge_color
from hermes.config.display import DisplaySettings, NotifyMode

ANSWER = "\x1b]11;rgb:ffff/ffff/ffff"


class Typed:
    """The keys of a terminal, which are written into a pipe's place: a pseudo-terminal."""

    def __init__(self) -> None:
        self.master, slave = os.openpty()
        self.slave = os.fdopen(slave, "r", encoding="utf-8")
        self.focus: list[bool] = []
        self.colors: list[Background] = []
        os.set_blocking(slave, False)
        import tty

        tty.setraw(slave)
        self.input = TerminalInput(self.slave, self.focus.append, self.colors.append)

    def read(self, *pieces: str) -> str:
        found = []
        for piece in pieces:
            os.write(self.master, piece.encode())
            found += self.input.read_keys()
        return "".join(press.data for press in [*found, *self.input.flush_keys()])


@pytest.fixture
def typed() -> Iterator[Typed]:
    made = Typed()
    yield made
    made.slave.close()
    os.close(made.master)


@pytest.mark.parametrize("end", ["\x07", "\x1b\\"])
@pytest.mark.parametrize("cut", range(len(ANSWER) + 2))
def test_an_answer_about_the_color_is_taken_out_wherever_it_is_cut(typed: Typed, end: str, cut: int) -> None:
    typed.input.expects_color = True
    whole = f"a{ANSWER}{end}b"
    assert typed.read(whole[:cut], whole[cut:]) == "ab"
    assert typed.colors == [Background.LIGHT] and not typed.input.expects_color


def test_reports_of_focus_are_taken_out_and_keys_are_not(typed: Typed) -> None:
    assert typed.read("x\x1b[Oy\x1b[Iz", "\x1b[", "I") == "xyz"
    assert typed.focus == [False, True, True]
    assert typed.read("\x1b") == "\x1b" and typed.read("\x1b[A") == "\x1b[A" and typed.read("\x1b]") == "\x1b]"


@pytest.mark.parametrize(
    ("color", "background"),
    [
        ("rgb:ffff/ffff/ffff", Background.LIGHT),
        ("rgb:1616/1818/1d1d", Background.DARK),
        ("rgb:ff/ff/e0", Background.LIGHT),
        ("rgba:0000/0000/0000/ffff", Background.UNKNOWN),
        ("nonsense", Background.UNKNOWN),
    ],
)
def test_a_color_is_dark_or_light(color: str, background: Background) -> None:
    assert judge_color(color) is background


def speak(environ: Mapping[str, str], mode: NotifyMode) -> str:
    written: list[str] = []
    TerminalSignals({"TERM": "xterm-256color", **environ}, written.append, "/tmp/work").notify("a;b\x1b[2J done", mode)
    return "".join(written)


def test_a_person_who_is_away_is_told_in_the_way_of_the_terminal() -> None:
    words = "a,b[2J done"
    assert speak({}, NotifyMode.OFF) == "" and speak({}, NotifyMode.BELL) == speak({}, NotifyMode.AUTO) == "\x07"
    assert speak({}, NotifyMode.OSC) == f"\x1b]9;{words}\x07\x1b]777;notify;Hermes;{words}\x07"
    assert speak({"TERM_PROGRAM": "WezTerm"}, NotifyMode.AUTO) == f"\x1b]9;{words}\x07"
    assert speak({"VTE_VERSION": "7200"}, NotifyMode.AUTO) == f"\x1b]777;notify;Hermes;{words}\x07"
    within = {"TMUX": "x", "TERM": "tmux-256color"}
    assert speak(within, NotifyMode.AUTO) == "\x07"
    assert speak(within, NotifyMode.OSC).startswith(f"\x1bPtmux;\x1b\x1b]9;{words}\x07\x1b\\\x1bPtmux;")


def test_a_terminal_that_knows_none_of_it_is_left_alone() -> None:
    for term in ("linux", "dumb", ""):
        written: list[str] = []
        signals = TerminalSignals({"TERM": term}, written.append, "/tmp/work")
        signals.open_terminal(DisplaySettings())
        signals.set_title("*", DisplaySettings())
        assert not signals.ask_background()
        signals.close_terminal()
        assert written == []


def test_what_was_switched_on_is_switched_off_again() -> None:
    written: list[str] = []
    signals = TerminalSignals({"TERM": "xterm"}, written.append, "/tmp/a\x1b]0;x")
    signals.open_terminal(DisplaySettings())
    signals.set_title("?", DisplaySettings())
    signals.close_terminal()
    signals.close_terminal()
    told = "".join(written)
    assert told.startswith("\x1b[?1004h\x1b[22;2t\x1b]2;? Hermes · a]0,x\x07".replace(",", ";"))
    assert told.endswith("\x1b[?1004l\x1b]2;\x07\x1b[23;2t") and told.count("\x1b[?1004l") == 1
