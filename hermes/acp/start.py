"""The start of the program that an editor runs: an event loop is imported once `initialize` is answered."""

from collections.abc import Callable, Mapping

from hermes.acp.greeting import EditorStreams, answer_first
from hermes.acp.options import AcpOptions
from hermes.util.standard_streams import take_standard_streams


def serve(
    environ: Mapping[str, str], options: AcpOptions, version: str, prepare: Callable[[], None] = lambda: None
) -> int:
    """Serve the editor at standard input and output until it goes away; return the exit code. `prepare` runs behind the
    first answer.
    """
    incoming, outgoing = take_standard_streams()
    streams = EditorStreams(incoming=incoming, outgoing=outgoing)
    if not answer_first(streams, version):
        return 0
    prepare()
    from hermes.acp.server import run_server

    return run_server(environ, options, version, streams)
