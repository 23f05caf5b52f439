"""The streams of a program that speaks a protocol on its standard input and output."""

import os


def take_standard_streams() -> tuple[int, int]:
    """Return descriptors of what standard input and output are now: for reading and for writing.

    What anything else prints goes to standard error from then on, so that it cannot come between messages.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return incoming, outgoing
