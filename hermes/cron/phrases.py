"""Schedules in words, in English and Chinese: `every weekday at 8`, `tomorrow 9am`, `每周一早上9点`.

Pure. A phrase becomes five fields of cron, one moment by the clock of a zone, or a delay. An hour without `am`, `pm` or
a part of the day is of the 24-hour clock.
"""

import unicodedata
from datetime import datetime

from hermes.core.errors import UsageError
from hermes.cron.chinese_phrases import (
    TRADITIONAL,
    is_chinese,
    read_chinese_delay,
    read_chinese_interval,
    read_chinese_phrase,
)
from hermes.cron.english_phrases import (
    read_english_delay,
    read_english_interval,
    read_english_phrase,
    write_digits,
)
from hermes.cron.phrase_parts import EXAMPLES, join_days_and_times
from hermes.i18n.messages import N_

MAX_PHRASE = 120
"""Characters of the longest phrase: a longer text is none."""


def read_phrase(text: str, here: datetime) -> str | datetime | None:
    """Return the five fields of cron, or the moment (in the zone of `here`, which is now), that a phrase means; None
    for a text that is no phrase.

    Raises UsageError, with what to write instead, for a phrase without a time, and for a time that does not exist or
    has passed.
    """
    if not 0 < len(text) <= MAX_PHRASE:
        return None
    words = _normalize_words(text)
    read = read_chinese_phrase if is_chinese(words) else read_english_phrase
    readings = list(read(words, here.date()))
    for reading in readings:
        if reading.times:
            return join_days_and_times(reading, here, text)
    if readings:
        raise UsageError(N_("{text!r} does not say at what time.", text=text[:80]), EXAMPLES)
    return None


def read_delay(text: str) -> int | None:
    """Return the seconds of `in half an hour` or `两个半小时后`; None for anything else."""
    words = _normalize_words(text)
    return read_chinese_delay(words) if is_chinese(words) else read_english_delay(words)


def read_interval(text: str) -> int | None:
    """Return the seconds of `every half hour` or `每2小时`; None for anything else."""
    words = _normalize_words(text)
    return read_chinese_interval(words) if is_chinese(words) else read_english_interval(words)


def _normalize_words(text: str) -> str:
    """Return the text in small letters of one width, with digits and single blanks, and without a mark at its end."""
    return write_digits(
        " ".join(unicodedata.normalize("NFKC", text).lower().split()).rstrip(".。!").translate(TRADITIONAL)
    )
