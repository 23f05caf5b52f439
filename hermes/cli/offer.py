"""Offers a model server that was found on this machine, when nothing is configured. Only a plain yes takes it."""

import os
from collections.abc import Mapping
from dataclasses import replace

from hermes.app.endpoint import nothing_configured
from hermes.app.options import Options
from hermes.app.servers import find_servers
from hermes.cli.terminal import Lines


async def offer_server(options: Options, environ: Mapping[str, str], terminal: int) -> Options:
    """The options, with the server's address in them when the person took the offer."""
    if not nothing_configured(options, environ):
        return options
    for server in await find_servers():
        question = f"{server.title} seems to run at {server.base_url}. Use it for this chat? [y/N] "
        os.write(terminal, question.encode())
        answer = await Lines(terminal).next()
        if answer is None or answer.strip().lower() not in ("y", "yes", "是", "好"):
            continue
        os.write(terminal, b"Which model? (its name as the server knows it) ")
        model = (await Lines(terminal).next() or "").strip()
        if model:
            keep = f"To keep it, write to config.yaml: model: {{default: {model}, provider: {server.provider}}}\n"
            os.write(terminal, keep.encode())
            return replace(options, provider=server.provider, base_url=server.base_url, model=model)
    return options
