"""The start of the program that an editor runs: an event loop is imported once `initialize` is answered."""

import os
from collections.abc import Callable, Mapping

from hermes.acp.greeting import EditorStreams, answer_first
from hermes.acp.options import AcpOptions


def serve(
    environ: Mapping[str, str], options: AcpOptions, version: str, prepare: Callable[[], None] = lambda: None
) -> int:
    """Serve the editor at standard input and output until it goes away; return the exit code. `prepare` runs behind the
    first answer.

    What anything else prints goes to standard error, so that it cannot come between messages.
    """
    streams = EditorStreams(incoming=os.dup(0), outgoing=os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    if not answer_first(streams, version):
        return 0
    prepare()
    from hermes.acp.server import run_server

    return run_server(environ, options, version, streams)
