"""`hermes status`: how things stand, on one screen."""

import asyncio
import os
from collections.abc import Mapping

from hermes.admin.status import collect_status
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import print_json, size
from hermes.commands.views.usage import format_cap_limits, format_cost
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import compact, moment, number
from hermes.i18n.messages import joined, say, say_many, translated
from hermes.markup.charts import pad_right
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped, one_line, visible

_TITLE = 11


def run(arguments: list[str]) -> int:
    """Show it; 1 when the model's server was asked and did not answer."""
    parser = Parser(
        prog="hermes status",
        description=say("Say how things stand. Exit code 1: the model cannot be reached."),
        epilog="example: hermes status --offline",
    )
    parser.add_argument("--offline", action="store_true", help=say("ask no server whether it can be reached"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = parser.read(arguments)
    try:
        found = asyncio.run(collect_status(process_environment(), os.getcwd(), offline=given.offline))
    except HermesError as error:
        return failed(error)
    if given.as_json:
        print_json(found)
    else:
        print("\n".join(escaped(line) for line in status_lines(found)))
    model = found["model"]
    assert isinstance(model, dict)
    return 1 if model["reached"] is False or model["wrong"] else 0


def status_lines(found: Plain) -> list[str]:
    """A line each: a title of fixed width and what there is to say."""
    commands = found["commands"]
    assert isinstance(commands, list)
    rows = [
        (say("Hermes"), say("{version}, language {language}", version=found["version"], language=found["language"])),
        (say("Home"), _home(found)),
        (say("Model"), _model(_table(found["model"]))),
        (say("API keys"), _keys(found["keys"])),
        (say("Commands"), _commands(commands)),
        (say("Folder"), _folder(found)),
        (say("Sessions"), _sessions(found)),
        (say("Today"), _spent(found["today"])),
        (say("This month"), _spent(found["month"])),
        *((say("Cap"), text) for text in _caps(found["caps"])),
        (say("Waiting"), _waiting(_table(found["pending"]))),
        (say("Disk"), _disk(_table(found["disk"]))),
    ]
    return [f"{pad_right(title, _TITLE)} {text}" for title, text in rows]


def _commands(lines: list[object]) -> str:
    """Where commands run, without the title that the line begins with."""
    return joined(*(translated(visible(str(line).removeprefix("Commands: "))) for line in lines))


def _home(found: Plain) -> str:
    profile = found["profile"]
    return str(found["home"]) + (say(" (profile {name})", name=profile) if profile else "")


def _model(model: Mapping[str, object]) -> str:
    if not model["model"]:
        return translated(str(model["wrong"]))
    where = f"{model['model']}, {model['provider']}" + (f", {model['base_url']}" if model["base_url"] else "")
    if model["reached"] is None:
        return say("{where} (not asked)", where=where)
    if not model["reached"]:
        return say("{where} cannot be reached: {why}", where=where, why=translated(str(model["wrong"])))
    if model["provider"] == "local":
        return say("{where}: the small one that is built in", where=where)
    return say("{where}, answers in {seconds} s", where=where, seconds=f"{float(str(model['seconds'])):.2f}")


def _keys(rows: object) -> str:
    assert isinstance(rows, list)
    shown = [
        f"{row['provider']} {row['label']}".strip() + (f" ({row['state']})" if row["state"] != "ready" else "")
        for row in rows
    ]
    return ", ".join(shown) or say("none")


def _folder(found: Plain) -> str:
    folder = found["folder"]
    return say("{folder}, trusted", folder=folder) if found["trusted"] else say("{folder}, not trusted", folder=folder)


def _sessions(found: Plain) -> str:
    count = int(str(found["sessions"]))
    if not count:
        return say("none yet")
    last = found["last_session"]
    text = say_many("{n} session", "{n} sessions", count)
    text += say(", {n} open now", n=number(int(str(found["open"])))) if found["open"] else ""
    if not isinstance(last, dict):
        return text
    title = one_line(str(last["title"]), 40)
    return say(
        '{sessions}; the last one {id} "{title}", {when}',
        sessions=text,
        id=last["id"],
        title=title,
        when=moment(last["updated_at"]),
    )


def _spent(row: object) -> str:
    if not isinstance(row, dict) or not row["calls"]:
        return say("nothing")
    calls = say_many("{n} call", "{n} calls", row["calls"])
    return say(
        "{calls}, {tokens} tokens, {cost}",
        calls=calls,
        tokens=compact(row["input_tokens"] + row["output_tokens"]),
        cost=format_cost(row),
    )


def _caps(rows: object) -> list[str]:
    assert isinstance(rows, list)
    return [f"{row['name']}: {format_cap_limits(row, 'usd_left', 'tokens_left')}" for row in rows]


def _waiting(pending: Mapping[str, object]) -> str:
    counts = {name: int(str(value)) for name, value in pending.items()}
    parts = [
        *(
            [say_many("{n} question (`hermes approvals`)", "{n} questions (`hermes approvals`)", n)]
            if (n := counts["approvals"])
            else []
        ),
        *(
            [
                say_many(
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
                say_many(
                    "{n} change of skills (`hermes skills pending`)",
                    "{n} changes of skills (`hermes skills pending`)",
                    n,
                )
            ]
            if (n := counts["skills"])
            else []
        ),
    ]
    return ", ".join(parts) or say("nothing")


def _disk(disk: Mapping[str, object]) -> str:
    parts = disk["parts"]
    assert isinstance(parts, dict)
    largest = ", ".join(f"{name} {size(count)}" for name, count in list(parts.items())[:3])
    total = size(int(str(disk["bytes"])))
    return f"{total} ({largest})" if largest else total


def _table(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value
