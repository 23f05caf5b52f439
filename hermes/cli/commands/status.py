"""`hermes status`: show the state of model, keys, sandbox, sessions and money on one screen."""

import asyncio
import os
from collections.abc import Mapping

from hermes.admin.status import collect_status
from hermes.cli.output import print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.usage import format_cap_limits, format_cost
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_bytes, format_compact, format_number, format_time
from hermes.i18n.messages import join_sentences, localize, tr, tr_plural
from hermes.markup.charts import pad_right
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line

_TITLE_WIDTH = 11


def run(arguments: list[str]) -> int:
    """Print the status; return 1 when the model's server was asked and did not answer."""
    parser = CommandParser(
        prog="hermes status",
        description=tr("Say how things stand. Exit code 1: the model cannot be reached."),
        epilog="example: hermes status --offline",
    )
    parser.add_argument("--offline", action="store_true", help=tr("ask no server whether it can be reached"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    try:
        found = asyncio.run(collect_status(copy_environment(), os.getcwd(), offline=args.offline))
    except HermesError as error:
        return report_failure(error)
    if args.as_json:
        print_json(found)
    else:
        print("\n".join(escape_unseen_characters(line) for line in format_status(found)))
    model = found["model"]
    assert isinstance(model, dict)
    return 1 if model["reached"] is False or model["wrong"] else 0


def format_status(found: Plain) -> list[str]:
    """Format the status, one line for each title of fixed width."""
    commands = found["commands"]
    assert isinstance(commands, list)
    rows = [
        (tr("Hermes"), tr("{version}, language {language}", version=found["version"], language=found["language"])),
        (tr("Home"), _format_home(found)),
        (tr("Model"), _format_model(_as_mapping(found["model"]))),
        (tr("API keys"), _format_keys(found["keys"])),
        (tr("Commands"), _format_backend(commands)),
        (tr("Folder"), _format_folder(found)),
        (tr("Sessions"), _format_sessions(found)),
        (tr("Today"), _format_spending(found["today"])),
        (tr("This month"), _format_spending(found["month"])),
        *((tr("Cap"), text) for text in _format_caps(found["caps"])),
        (tr("Waiting"), _format_pending(_as_mapping(found["pending"]))),
        (tr("Disk"), _format_disk(_as_mapping(found["disk"]))),
    ]
    return [f"{pad_right(title, _TITLE_WIDTH)} {text}" for title, text in rows]


def _format_backend(lines: list[object]) -> str:
    """Describe where commands run, without the title that the line begins with."""
    return join_sentences(
        *(localize(escape_confusable_characters(str(line).removeprefix("Commands: "))) for line in lines)
    )


def _format_home(found: Plain) -> str:
    profile = found["profile"]
    return str(found["home"]) + (tr(" (profile {name})", name=profile) if profile else "")


def _format_model(model: Mapping[str, object]) -> str:
    if not model["model"]:
        return localize(str(model["wrong"]))
    where = f"{model['model']}, {model['provider']}" + (f", {model['base_url']}" if model["base_url"] else "")
    if model["reached"] is None:
        return tr("{where} (not asked)", where=where)
    if not model["reached"]:
        return tr("{where} cannot be reached: {why}", where=where, why=localize(str(model["wrong"])))
    if model["provider"] == "local":
        return tr("{where}: the small one that is built in", where=where)
    return tr("{where}, answers in {seconds} s", where=where, seconds=f"{float(str(model['seconds'])):.2f}")


def _format_keys(rows: object) -> str:
    assert isinstance(rows, list)
    shown = [
        f"{row['provider']} {row['label']}".strip() + (f" ({row['state']})" if row["state"] != "ready" else "")
        for row in rows
    ]
    return ", ".join(shown) or tr("none")


def _format_folder(found: Plain) -> str:
    folder = found["folder"]
    return tr("{folder}, trusted", folder=folder) if found["trusted"] else tr("{folder}, not trusted", folder=folder)


def _format_sessions(found: Plain) -> str:
    count = int(str(found["sessions"]))
    if not count:
        return tr("none yet")
    last = found["last_session"]
    text = tr_plural("{n} session", "{n} sessions", count)
    text += tr(", {n} open now", n=format_number(int(str(found["open"])))) if found["open"] else ""
    if not isinstance(last, dict):
        return text
    title = to_one_line(str(last["title"]), 40)
    return tr(
        '{sessions}; the last one {id} "{title}", {when}',
        sessions=text,
        id=last["id"],
        title=title,
        when=format_time(last["updated_at"]),
    )


def _format_spending(row: object) -> str:
    if not isinstance(row, dict) or not row["calls"]:
        return tr("nothing")
    calls = tr_plural("{n} call", "{n} calls", row["calls"])
    return tr(
        "{calls}, {tokens} tokens, {cost}",
        calls=calls,
        tokens=format_compact(row["input_tokens"] + row["output_tokens"]),
        cost=format_cost(row),
    )


def _format_caps(rows: object) -> list[str]:
    assert isinstance(rows, list)
    return [f"{row['name']}: {format_cap_limits(row, 'usd_left', 'tokens_left')}" for row in rows]


def _format_pending(pending: Mapping[str, object]) -> str:
    counts = {name: int(str(value)) for name, value in pending.items()}
    parts = [
        *(
            [tr_plural("{n} question (`hermes approvals`)", "{n} questions (`hermes approvals`)", n)]
            if (n := counts["approvals"])
            else []
        ),
        *(
            [
                tr_plural(
                    "{n} change of memory (`hermes memory pending`)",
                    "{n} changes of memory (`hermes memory pending`)",
                    n,
                )
            ]
            if (n := counts["memory"])
            else []
        ),
        *(
            [
                tr_plural(
                    "{n} change of skills (`hermes skills pending`)",
                    "{n} changes of skills (`hermes skills pending`)",
                    n,
                )
            ]
            if (n := counts["skills"])
            else []
        ),
    ]
    return ", ".join(parts) or tr("nothing")


def _format_disk(disk: Mapping[str, object]) -> str:
    parts = disk["parts"]
    assert isinstance(parts, dict)
    largest = ", ".join(f"{name} {format_bytes(count)}" for name, count in list(parts.items())[:3])
    total = format_bytes(int(str(disk["bytes"])))
    return f"{total} ({largest})" if largest else total


def _as_mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value
