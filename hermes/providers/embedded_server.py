"""The process that loads the embedded model and serves it. Only `hermes.providers.embedded` starts it.

It reads one line of JSON from its standard input, answers with one line of JSON when the model is loaded or cannot be,
and ends when its standard input ends: also when the process that started it was killed.
"""

import contextlib
import os
import sys

from msgspec import DecodeError, Struct
from msgspec.json import decode

from hermes.core.encoding import to_json


class EmbeddedServerOrder(Struct, frozen=True):
    """What is to be served, and where."""

    file: str
    socket: str
    key: str
    context_length: int
    """Tokens."""


class EmbeddedServerReply(Struct, frozen=True):
    """Whether the model is loaded. All is well where neither text is set."""

    missing: str = ""
    """The library of the system that is not there."""
    error: str = ""


def main() -> None:
    """Serve until standard input ends."""
    try:
        order = decode(sys.stdin.buffer.readline(), type=EmbeddedServerOrder)
    except DecodeError:
        return
    try:
        server = _start_server(order)
        reply = EmbeddedServerReply()
    except ImportError as error:
        # The package of llama.cpp brings everything but the runtime of OpenMP, which small systems lack.
        reply, server = EmbeddedServerReply(missing=str(error).partition(":")[0]), None
    except (RuntimeError, OSError) as error:
        reply, server = EmbeddedServerReply(error=str(error)), None
    with contextlib.suppress(OSError):  # whoever started this process is gone
        sys.stdout.buffer.write(to_json(reply) + b"\n")
        sys.stdout.buffer.flush()
        if server is not None:
            sys.stdin.buffer.read()
    # The library's own end waits for a thread that at times never ends.
    os._exit(0)


def _start_server(order: EmbeddedServerOrder) -> object:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order.file
    params.hostnames = [order.socket]
    params.api_keys = [order.key]
    params.n_ctx = order.context_length
    params.n_parallel = 1
    # One thread: two threads of this library wait for each other by spinning, and lose to any other load.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 0
    server: object = xllamacpp.Server(params)
    return server


if __name__ == "__main__":
    main()
