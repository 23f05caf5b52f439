"""Offers a model server that was found on this machine, when nothing is configured. Only a plain yes takes it."""

import json
import os
from collections.abc import Mapping

from msgspec.structs import replace

from hermes.admin.models.local_servers import LocalModelServer, find_local_servers
from hermes.cli.plain.terminal import Lines
from hermes.config.home import locate_home
from hermes.i18n.messages import say
from hermes.sessions.model.endpoint import is_nothing_configured
from hermes.sessions.options import SessionOptions
from hermes.util.text import inert

MOST_SHOWN = 20
YES = ("y", "yes", "是", "好")


async def offer_server(
    options: SessionOptions, environ: Mapping[str, str], terminal: int, candidates: tuple[LocalModelServer, ...]
) -> SessionOptions:
    """The options, with the server's address and model in them when the person took the offer."""
    if not is_nothing_configured(options, environ):
        return options
    lines = Lines(terminal)
    for server in await find_local_servers(candidates):
        if not server.models:
            told = say("{title} runs at {url}, but has no model to offer yet.", title=server.title, url=server.base_url)
            _show(terminal, f"{told}\n")
            continue
        told = say("{title} seems to run at {url}. Its models:", title=server.title, url=server.base_url)
        _show(terminal, f"{told}\n{_listed(server.models)}")
        _show(terminal, say("Use it for this chat?") + " [y/N] ")
        answer = await lines.next()
        if answer is None or answer.strip().lower() not in YES:
            continue
        model = await _model(server.models, lines, terminal)
        if model:
            file = locate_home(environ).config_file
            told = say("This chat uses {model}. To keep it, write into {file}:", model=model, file=file)
            _show(terminal, f"{told}\n{_setting(server, model)}")
            return replace(options, provider=server.provider, base_url=server.base_url, model=model)
    return options


async def _model(models: tuple[str, ...], lines: Lines, terminal: int) -> str:
    """The one that the person names, by number, name or beginning of the name; empty when they name none."""
    while len(models) > 1:
        _show(terminal, say("Which model? (a number or a name; Enter alone takes none)") + " ")
        answer = (await lines.next() or "").strip()
        if not answer:
            return ""
        if answer in models:
            return answer
        if answer.isdecimal() and 0 < int(answer) <= len(models):
            return models[int(answer) - 1]
        begun = [name for name in models if name.startswith(answer)]
        if len(begun) == 1:
            return begun[0]
        none, many = say("{name} is none of them.", name=inert(answer)), say("That could be {n} of them.", n=len(begun))
        _show(terminal, f"{many if begun else none}\n")
    return models[0]


def _listed(models: tuple[str, ...]) -> str:
    rows = [f"  {number}. {inert(name)}\n" for number, name in enumerate(models[:MOST_SHOWN], 1)]
    if len(models) > MOST_SHOWN:
        rows.append("  " + say("and {n} more", n=len(models) - MOST_SHOWN) + "\n")
    return "".join(rows)


def _setting(server: LocalModelServer, model: str) -> str:
    quoted = json.dumps(model)  # a JSON string is a YAML one, whatever is in the name
    return f"model:\n  default: {quoted}\n  provider: {server.provider}\n  base_url: {server.base_url}\n"


def _show(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())
