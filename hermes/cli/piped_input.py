"""Read what is piped into a one-shot task. This module imports little: `hermes -z` through the gateway pays for it."""

import os
import select
import stat
import time
from functools import cache

MAX_PIPED_BYTES = 4 << 20
"""Bytes of piped input; more than this is refused before a model is asked."""
NOTICE_SECONDS = 3.0
"""Seconds after which the wait for the end of the input is explained."""
_MAX_REPLACED_SHARE = 0.1
"""Share of characters that may be undecodable in a text: a log in another encoding is a text, a picture is none."""


def is_input_piped() -> bool:
    """Return whether standard input is a pipe, a socket or a file, which may hold text for the task.

    A terminal and a device such as /dev/null hold none.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


@cache
def read_piped_input() -> str:
    """Return what is piped into this process, read to its end once; an empty text where nothing is piped.

    Raises UsageError for what is too large or no text.
    """
    if not is_input_piped():
        return ""
    return _decode_input(_read_to_end())


def _read_to_end() -> bytes:
    """Read standard input to its end. After a few seconds the wait is explained: whoever started this process may have
    left a pipe open that nobody will ever close.
    """
    found = bytearray()
    notice_at = time.monotonic() + NOTICE_SECONDS
    is_told = False
    while len(found) <= MAX_PIPED_BYTES:
        left = None if is_told else max(0.0, notice_at - time.monotonic())
        if not select.select([0], [], [], left)[0]:
            _explain_wait()
            is_told = True
            continue
        try:
            chunk = os.read(0, 1 << 16)
        except BlockingIOError:
            continue
        except OSError:  # open for writing only, or a socket that listens
            break
        if not chunk:
            break
        found += chunk
    return bytes(found)


def _explain_wait() -> None:
    from hermes.cli.output import print_error
    from hermes.config.language import use_detected_language
    from hermes.i18n.messages import tr

    use_detected_language()
    print_error(tr("Waiting for standard input to end; add `< /dev/null` where there is none."))


def _decode_input(data: bytes) -> str:
    from hermes.core.errors import UsageError
    from hermes.i18n.messages import N_

    if len(data) > MAX_PIPED_BYTES:
        raise UsageError(
            N_("Standard input has more than {n} MB.", n=MAX_PIPED_BYTES >> 20),
            N_("Save it as a file and name the file in the task."),
        )
    text = data.decode("utf-8", "replace")
    if b"\0" in data or text.count("\ufffd") > len(text) * _MAX_REPLACED_SHARE:
        raise UsageError(
            N_("Standard input is not text."), N_("Save it as a file and name the file in the task; pictures: --image.")
        )
    return text.removeprefix("\ufeff")
