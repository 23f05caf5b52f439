"""Offer a model server that runs on this machine, when nothing is configured. Only a plain yes takes it."""

import json
import os
from collections.abc import Mapping

from msgspec.structs import replace

from hermes.admin.models.local_servers import LocalModelServer, find_local_servers
from hermes.cli.output import YES_ANSWERS
from hermes.cli.plain.menu import MAX_SHOWN, match_names
from hermes.cli.plain.terminal import DescriptorLineReader
from hermes.config.home import locate_home
from hermes.i18n.messages import tr
from hermes.sessions.model.model_route import is_nothing_configured
from hermes.sessions.options import SessionOptions
from hermes.util.text import strip_control_characters


async def offer_local_server(
    options: SessionOptions, environ: Mapping[str, str], terminal: int, candidates: tuple[LocalModelServer, ...]
) -> SessionOptions:
    """Return the options; when the person took the offer, with the server's address and model in them."""
    if not is_nothing_configured(options, environ):
        return options
    lines = DescriptorLineReader(terminal)
    for server in await find_local_servers(candidates):
        if not server.models:
            message = tr(
                "{title} runs at {url}, but has no model to offer yet.", title=server.title, url=server.base_url
            )
            _write_terminal(terminal, f"{message}\n")
            continue
        message = tr("{title} seems to run at {url}. Its models:", title=server.title, url=server.base_url)
        _write_terminal(terminal, f"{message}\n{_format_models(server.models)}")
        _write_terminal(terminal, tr("Use it for this chat?") + " [y/N] ")
        answer = await lines.read_line()
        if answer is None or answer.strip().lower() not in YES_ANSWERS:
            continue
        model = await _ask_model(server.models, lines, terminal)
        if model:
            file = locate_home(environ).config_file
            message = tr("This chat uses {model}. To keep it, write into {file}:", model=model, file=file)
            _write_terminal(terminal, f"{message}\n{_format_setting(server, model)}")
            return replace(options, provider=server.provider, base_url=server.base_url, model=model)
    return options


async def _ask_model(models: tuple[str, ...], lines: DescriptorLineReader, terminal: int) -> str:
    """Ask for a model by number, name or a part of the name; empty when the person names none."""
    while len(models) > 1:
        _write_terminal(terminal, tr("Which model? (a number or a name; Enter alone takes none)") + " ")
        answer = (await lines.read_line() or "").strip()
        if not answer:
            return ""
        matches = match_names(answer, models, models)
        if len(matches) == 1:
            return matches[0]
        none, many = (
            tr("{name} is not in the list.", name=strip_control_characters(answer)),
            tr("That could be {n} of them.", n=len(matches)),
        )
        _write_terminal(terminal, f"{many if matches else none}\n")
    return models[0]


def _format_models(models: tuple[str, ...]) -> str:
    rows = [f"  {number}. {strip_control_characters(name)}\n" for number, name in enumerate(models[:MAX_SHOWN], 1)]
    if len(models) > MAX_SHOWN:
        rows.append("  " + tr("and {n} more", n=len(models) - MAX_SHOWN) + "\n")
    return "".join(rows)


def _format_setting(server: LocalModelServer, model: str) -> str:
    quoted = json.dumps(model)  # a JSON string is a YAML one, whatever is in the name
    return f"model:\n  default: {quoted}\n  provider: {server.provider}\n  base_url: {server.base_url}\n"


def _write_terminal(terminal: int, text: str) -> None:
    os.write(terminal, text.encode())
