"""A message's pictures are made to fit before they join its session."""

import asyncio
import base64
import io

import pytest

from hermes.core.messages import PERSON, ImagePart, TextPart
from hermes.media.pictures import TAKEN_SIDE
from hermes.runtime.mailbox import AttachmentCollector
from tests.media.hostile_files import make_png

pytestmark = pytest.mark.needs("bubblewrap")


def picture(data: bytes, kind: str = "image/png") -> ImagePart:
    return ImagePart(media_type=kind, data=base64.b64encode(data).decode(), provenance=PERSON)


async def test_large_ones_become_smaller_broken_ones_words_and_unknown_ones_stay() -> None:
    pillow = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    pillow.new("RGB", (5_000, 500), "green").save(out, "JPEG")
    whole, address = picture(make_png(20, 10)), ImagePart(url="https://example.com/a.png")
    given = (picture(out.getvalue(), "image/jpeg"), whole, picture(make_png(90, 90)[:50]), address, picture(b"hello"))
    large, small, broken, *others = await AttachmentCollector().take_pictures(given)
    assert isinstance(large, ImagePart) and large.provenance is PERSON
    with pillow.open(io.BytesIO(base64.b64decode(large.data))) as found:
        assert found.size == (TAKEN_SIDE, TAKEN_SIDE // 10)
    assert small == whole and others == [address, picture(b"hello")]
    assert isinstance(broken, TextPart) and "cannot be shown: it is damaged" in broken.text


async def test_a_stop_leaves_them_as_they_came() -> None:
    collector = AttachmentCollector()
    given = (picture(make_png(3_000, 3_000)),)

    taking = asyncio.create_task(collector.take_pictures(given))
    await asyncio.sleep(0)
    collector.stop_collecting()
    assert await taking == given
