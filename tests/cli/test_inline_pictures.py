"""Pictures drawn in a terminal: which terminals, what they are handed, and where nothing is drawn."""

import base64
import re
from pathlib import Path

import pytest

from hermes.cli.plain.renderer import PlainRenderer
from hermes.cli.render.inline_pictures import PictureProtocol, choose_protocol, draw_result, fit_area
from hermes.config.display import DisplaySettings
from hermes.core.events import ToolEnded
from hermes.core.messages import ToolStatus
from tests.tools.sample_pictures import make_png

KITTY, ITERM = {"TERM": "xterm-kitty"}, {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        (KITTY, PictureProtocol.KITTY),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, PictureProtocol.KITTY),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, PictureProtocol.KITTY),
        (ITERM, PictureProtocol.ITERM),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, PictureProtocol.ITERM),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, PictureProtocol.ITERM),
        ({"TERM": "xterm-256color"}, None),
        ({**KITTY, "TMUX": "/tmp/tmux"}, None),
        ({"TERM": "screen-256color", "LC_TERMINAL": "iTerm2"}, None),
        ({}, None),
    ],
)
def test_which_terminals_show_pictures(environ: dict[str, str], protocol: PictureProtocol | None) -> None:
    assert choose_protocol(environ) is protocol


def test_kitty_is_handed_the_file_in_pieces(tmp_path: Path) -> None:
    data = make_png(90, 60) + bytes(9_000)
    (tmp_path / "a b.png").write_bytes(data)
    drawn = draw_result(f"MEDIA:{tmp_path}/a b.png\nMade by X", KITTY, 80, "\r\n")
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", drawn)
    assert base64.b64decode("".join(body for _, body in pieces)) == data
    assert all(len(body) <= 4_096 for _, body in pieces) and len(pieces) > 2
    assert pieces[0][0] == "a=T,f=100,q=2,C=1,c=48,r=16,m=1" and pieces[-1][0] == "m=0"
    assert drawn.startswith("\r\n" * 16 + "\x1b[16A\x1b7") and drawn.endswith("\x1b8\x1b[16B")


def test_iterm_is_handed_the_file_whole(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    drawn = draw_result(f"MEDIA:{tmp_path}/a.png", ITERM, 80, "\n")
    shape, body = re.findall(r"\x1b\]1337;File=([^:]*):([^\x07]*)\x07", drawn)[0]
    assert base64.b64decode(body) == make_png() and "inline=1" in shape and "width=40;height=20" in shape


@pytest.mark.parametrize(
    "preview", ["", "made", "MEDIA:relative.png", "MEDIA:/nowhere/a.png", "MEDIA:{0}/a.txt", "MEDIA:{0}"]
)
def test_what_is_no_png_is_not_drawn(preview: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no picture at all, but long enough")
    assert draw_result(preview.format(tmp_path), KITTY, 80, "\n") == ""


def test_a_picture_keeps_its_proportion() -> None:
    assert [
        (one.columns, one.rows) for one in (fit_area(100, 100, 200), fit_area(400, 100, 30), fit_area(10, 900, 80))
    ] == [
        (40, 20),
        (28, 4),
        (1, 20),
    ]


def test_nothing_is_drawn_where_output_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.png").write_bytes(make_png())
    renderer = PlainRenderer()
    renderer.render_markdown(DisplaySettings(), KITTY)
    renderer(ToolEnded("c1", "image_generate", ToolStatus.OK, 1.0, f"MEDIA:{tmp_path}/a.png\nMade by X"))
    assert "\x1b" not in capsys.readouterr().out
