"""Opus in Ogg is measured without a decoder."""

import io
import random

from hermes.speech.ogg_opus import MOST_POINTS, draw_waveform, read_voice_facts
from tests.vendors.opus_file import make_opus


def test_length_and_picture() -> None:
    facts = read_voice_facts(io.BytesIO(make_opus(4.0, loud=(1.0, 2.0))))
    assert facts is not None
    assert abs(facts.seconds - 4.0) < 0.03
    assert len(facts.waveform) == 40
    assert min(facts.waveform[11:19]) == 255
    assert max(facts.waveform[:9]) == max(facts.waveform[22:]) == 0


def test_a_long_one_has_256_points() -> None:
    facts = read_voice_facts(io.BytesIO(make_opus(600.0, loud=(300.0, 310.0))))
    assert facts is not None
    assert abs(facts.seconds - 600.0) < 0.03
    assert len(facts.waveform) == MOST_POINTS
    assert facts.waveform.index(255) == 128


def test_what_is_no_opus() -> None:
    good = make_opus(1.0)
    for wrong in (
        b"",
        b"RIFF",
        b"OggS",
        good[:20],
        good[:47],
        good.replace(b"OpusHead", b"\x01vorbis\0"),
        bytes(4_000),
    ):
        assert read_voice_facts(io.BytesIO(wrong)) is None
    luck = random.Random(7)
    for _ in range(300):
        broken = bytearray(good)
        for _ in range(luck.randrange(1, 20)):
            broken[luck.randrange(len(broken))] = luck.randrange(256)
        facts = read_voice_facts(io.BytesIO(bytes(broken[: luck.randrange(len(broken))])))
        assert facts is None or (facts.seconds >= 0 and 1 <= len(facts.waveform) <= MOST_POINTS)


def test_levels_of_one_height() -> None:
    assert draw_waveform([0.0, 0.0]) == b"\0\0"
    assert draw_waveform([5.0]) == b"\xff"
