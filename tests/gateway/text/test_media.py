"""Files that answers name are taken out of them, and only what may leave leaves."""

import os
from pathlib import Path

import pytest

from hermes.config.home import HermesHome
from hermes.core.chats import MediaKind
from hermes.gateway.text.media import MediaRefusedError, MediaRules, SendableFile, extract_media, open_checked_file
from hermes.sessions.egress_filter import make_file_check


@pytest.fixture
def place(tmp_path: Path) -> Path:
    real = tmp_path.resolve()
    for name in ("ws", "home/.ssh", "home/.hermes/media", "other"):
        (real / name).mkdir(parents=True)
    for name in ("ws/a.png", "ws/b c.pdf", "ws/v.ogg", "ws/run.exe", "home/.ssh/id_rsa.txt", "other/o.png"):
        (real / name).write_bytes(b"content")
    (real / "home/.hermes/media/m.png").write_bytes(b"made")
    (real / "home/.hermes/auth.json").write_bytes(b"key")
    return real


@pytest.fixture
def rules(place: Path) -> MediaRules:
    media = str(place / "home/.hermes/media")
    refused = make_file_check(
        {"HOME": str(place / "home")}, HermesHome(place / "home/.hermes"), str(place / "ws"), (media,)
    )
    return MediaRules(
        roots=(str(place / "ws"), str(place / "home"), media), refusal_reason=refused, home=str(place / "home")
    )


def test_tags_are_taken_out(place: Path, rules: MediaRules) -> None:
    taken = extract_media(
        f'Here it is: MEDIA:{place}/ws/a.png.\n\nMEDIA:"{place}/ws/b c.pdf"\n\nand\nMEDIA:v.ogg\n\n'
        "`MEDIA:~/.hermes/media/m.png`",
        rules,
    )
    assert taken.text == "Here it is:\n\nand"
    assert taken.files == (
        SendableFile(f"{place}/ws/a.png", MediaKind.IMAGE),
        SendableFile(f"{place}/ws/b c.pdf", MediaKind.DOCUMENT),
        SendableFile(f"{place}/ws/v.ogg", MediaKind.VOICE),
        SendableFile(f"{place}/home/.hermes/media/m.png", MediaKind.IMAGE),
    )
    assert not taken.refused


def test_a_path_on_a_line_and_a_local_picture_are_files_too(place: Path, rules: MediaRules) -> None:
    taken = extract_media(f"Look:\n{place}/ws/a.png\n![the chart](file://{place}/ws/a.png) shows it", rules)
    assert taken.text == "Look:\n\nthe chart shows it"
    assert taken.files == (SendableFile(f"{place}/ws/a.png", MediaKind.IMAGE),)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Here MEDIA:{f} and MEDIA:{f} end", "Here and end"),
        ("See MEDIA:{f}. Next", "See. Next"),
        ("Here: MEDIA:{f}, as you asked", "Here: as you asked"),
        ("MEDIA:{f}, as you asked", "as you asked"),
        ("the chart (MEDIA:{f}) shows", "the chart shows"),
        ("the chart (MEDIA:{f} and words)", "the chart (and words)"),
        ("bold **MEDIA:{f}** and _`MEDIA:{f}`_ end", "bold and end"),
        ("([MEDIA:{f}]) x", "x"),
        ('a "MEDIA:{f}" b', "a b"),
        ("list:\n- one\n- MEDIA:{f}\n2. MEDIA:{f}\n- two", "list:\n- one\n- two"),
        ("![](file://{f}) and ![named]({f}) x", "and named x"),
        ("图在这里：MEDIA:{f} 。好", "图在这里：好"),
        ("no gap:MEDIA:{f}", "no gap:"),
        ("`code ( )` MEDIA:{f} `x  y`", "`code ( )` `x  y`"),
        ("a\0b MEDIA:{f}", "ab"),
        ("MEDIA:{f}", ""),
    ],
)
def test_what_is_taken_out_leaves_no_hole(place: Path, rules: MediaRules, said: str, left: str) -> None:
    taken = extract_media(said.replace("{f}", f"{place}/ws/a.png"), rules)
    assert taken.text == left and taken.files


def test_code_and_mere_words_stay(place: Path, rules: MediaRules) -> None:
    for text in (
        "```\nMEDIA:/etc/passwd\n```",
        f"see {place}/ws/a.png for it",
        "/nowhere/x.png",
        "MULTIMEDIA:/x.png",
        "no file at all",
        "`/usr/bin`",
    ):
        assert extract_media(text, rules).text == text
        assert not extract_media(text, rules).files


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "outside"),
        ("~/.ssh/id_rsa.txt", "keys"),
        ("~/.hermes/auth.json", "Hermes' own"),
        ("{place}/other/o.png", "outside"),
        ("{place}/ws/../other/o.png", "outside"),
        ("{place}/ws/run.exe", "of this kind"),
        ("{place}/ws/gone.png", "no such file"),
        ("{place}/ws/folder.png", "regular"),
        ("{place}/ws/pipe.png", "regular"),
        ("{place}/ws/link.png", "outside"),
        ("{place}/ws/link.txt", "keys"),
        ("{place}/ws/large.png", "larger than 50 MB"),
    ],
)
def test_what_may_not_be_sent_is_named(place: Path, rules: MediaRules, path: str, why: str) -> None:
    (place / "ws/folder.png").mkdir()
    os.mkfifo(place / "ws/pipe.png")
    (place / "ws/link.png").symlink_to("/etc/passwd")
    (place / "ws/link.txt").symlink_to(place / "home/.ssh/id_rsa.txt")
    with open(place / "ws/large.png", "wb") as file:
        file.truncate(50_000_001)
    path = path.format(place=place)
    taken = extract_media(f"Take this: MEDIA:{path}", rules)
    assert not taken.files
    assert taken.text == f"Take this:\n\n{taken.refused[0]}"
    assert why in taken.refused[0]
    assert os.path.basename(path) in taken.refused[0]


def test_another_name_of_a_key_is_refused(place: Path, rules: MediaRules) -> None:
    (place / "home/.netrc").write_text("machine x")
    os.link(place / "home/.netrc", place / "ws/notes.txt")
    assert "another name" in extract_media(f"MEDIA:{place}/ws/notes.txt", rules).text


def test_a_link_put_in_its_place_later_is_not_followed(place: Path, rules: MediaRules) -> None:
    path = extract_media("MEDIA:a.png", rules).files[0].path
    with open_checked_file(path, rules.limit) as file:
        assert file.read() == b"content"
    os.remove(path)
    os.symlink(place / "home/.ssh/id_rsa.txt", path)
    with pytest.raises(MediaRefusedError, match="a link took"):
        open_checked_file(path, rules.limit)
    os.remove(path)
    with pytest.raises(MediaRefusedError, match="no such file"):
        open_checked_file(path, rules.limit)


def test_a_folder_swapped_for_a_link_is_noticed(place: Path, rules: MediaRules) -> None:
    (place / "ws/sub").mkdir()
    (place / "ws/sub/o.png").write_bytes(b"fine")
    path = extract_media("MEDIA:sub/o.png", rules).files[0].path
    (place / "ws/sub").rename(place / "ws/old")
    (place / "ws/sub").symlink_to(place / "other")
    with pytest.raises(MediaRefusedError, match="a link took"):
        open_checked_file(path, rules.limit)


def test_names_cannot_break_out_of_the_line(place: Path, rules: MediaRules) -> None:
    taken = extract_media('MEDIA:"/x/`**a\x1b[2J\u202egnp.exe"', rules)
    assert "\x1b" not in taken.text
    assert "\u202e" not in taken.text
    assert taken.text.count("`") == 2


def test_an_answer_has_a_limit_of_files(place: Path, rules: MediaRules) -> None:
    for number in range(22):
        (place / f"ws/{number}.png").write_bytes(b"x")
    taken = extract_media("\n".join(f"MEDIA:{number}.png" for number in range(22)), rules)
    assert len(taken.files) == 20
    assert len(taken.refused) == 2
