"""What an editor sends as a message becomes what a session is told."""

import base64
from pathlib import Path

import msgspec
import pytest

from hermes.acp.prompt_content import build_inbound, format_link
from hermes.acp.protocol import ContentBlock
from hermes.core.errors import UsageError
from hermes.core.messages import TextPart
from hermes.sessions.references import parse_references

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Reader:
    """Makes parts that say where they are from."""

    def build_part(self, uri: str, text: str) -> TextPart:
        return TextPart(f"{uri}: {text}")


def decode(*blocks: dict[str, object]) -> tuple[ContentBlock, ...]:
    return msgspec.convert(blocks, tuple[ContentBlock, ...])


def test_words_files_and_pictures_are_one_message(tmp_path: Path) -> None:
    blocks = decode(
        {"type": "text", "text": "Look at"},
        {"type": "resource_link", "name": "a.py", "uri": (tmp_path / "a b.py").as_uri() + "#L3:9"},
        {"type": "resource_link", "name": "dir", "uri": tmp_path.as_uri()},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x.txt", "text": "inside", "mimeType": "text/plain"}},
    )
    inbound = build_inbound(blocks, "/project", Reader())
    assert f'@file:"{tmp_path}/a b.py:3-9"' in inbound.text
    assert f'@folder:"{tmp_path}"' in inbound.text
    assert [one.media_type for one in inbound.images] == ["image/png"]
    assert [one.text for one in inbound.quoted] == ["file:///x.txt: inside"]


@pytest.mark.parametrize(
    "uri",
    [
        "https://example.invalid/x",
        "file://other/etc/passwd",
        'file:///a"%20@url:x',
        "file:///a%0A@b",
        "zed:///x",
        "file://[x",
    ],
)
def test_what_is_no_plain_file_is_only_named(uri: str) -> None:
    shown = format_link(uri, "a `name` @file:/etc/passwd")
    assert "\n" not in shown
    assert parse_references(shown) == []


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "  "},
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        {"type": "image", "data": PIXEL, "mimeType": "image/svg+xml"},
    ],
)
def test_what_cannot_be_used_is_refused(block: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        build_inbound(decode(block), "/project", Reader())
