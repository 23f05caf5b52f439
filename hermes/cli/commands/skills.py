"""`hermes skills`: what the agent can look up, what it wants to change in it, and taking changes back."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from hermes.admin.skills import SkillAdmin, escape_text, open_skill_admin
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.commands.views.skills import (
    as_strings,
    format_decided_change,
    format_skill,
    format_skill_change,
    format_skill_diff,
)
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import say, translated
from hermes.sessions.formats.openai_format import Plain


def run(arguments: list[str]) -> int:
    """Parse and run one of the verbs."""
    given = _parser().read(arguments)
    try:
        return asyncio.run(_run(given))
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes skills",
        description="Look at skills, install them, and decide on the changes that the agent proposes.",
        epilog="example: hermes skills diff water-plants",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "list": say("every skill, where it comes from, what is wrong with it, its use (also without a verb)"),
        "view": say("a skill's text and files"),
        "install": say("a folder, .zip, .tar.gz, SKILL.md or https address; asks first"),
        "pending": say("the changes that wait for your yes"),
        "diff": say("what a change would change, or did"),
        "approve": say("say yes to a change"),
        "reject": say("say no to a change"),
        "rollback": say("put a skill back as it was before its last change, or as change N left it"),
        "remove": say("take a skill of your own away; rollback brings it back"),
        "log": say("every change of a skill"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for verb in ("list", "view", "pending", "diff", "log"):
        parsers[verb].add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    for verb in ("view", "rollback", "remove", "log"):
        parsers[verb].add_argument("name", help="the skill")
    for verb in ("approve", "reject"):
        parsers[verb].add_argument("number", type=int, help="the change, as `pending` numbers it")
    parsers["diff"].add_argument("which", help="a change's number, or a skill's name")
    parsers["rollback"].add_argument("number", type=int, nargs="?", help="a change, as `log` numbers it")
    parsers["install"].add_argument("source", help="where it is")
    parsers["install"].add_argument("--yes", action="store_true", help="do not ask; needs --sha256")
    parsers["install"].add_argument("--sha256", default="", help="the hash that it must have")
    return made


async def _run(given: argparse.Namespace) -> int:
    async with open_skill_admin(process_environment()) as desk:
        return await _VERBS[given.verb or "list"](desk, given)


async def _list(desk: SkillAdmin, given: argparse.Namespace) -> int:
    return _print(await desk.list_skills(), getattr(given, "as_json", False), format_skill, say("There are no skills."))


async def _pending(desk: SkillAdmin, given: argparse.Namespace) -> int:
    return _print(await desk.list_pending(), given.as_json, format_skill_change, say("No change waits."))


async def _log(desk: SkillAdmin, given: argparse.Namespace) -> int:
    rows = await desk.list_log(given.name)
    return _print(rows, given.as_json, format_skill_change, say("No change of a skill of that name is known."))


async def _view(desk: SkillAdmin, given: argparse.Namespace) -> int:
    found = await desk.view_skill(given.name)
    if given.as_json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(escape_text(f"{found['name']} ({found['tier']}, {found['folder']})"))
    for path in as_strings(found["files"]):
        print(escape_text(f"  {path}"))
    print("\n" + escape_text(str(found["text"])))
    return 0


async def _diff(desk: SkillAdmin, given: argparse.Namespace) -> int:
    row, lines = await desk.diff_change(given.which)
    if given.as_json:
        print(json.dumps(row | {"diff": lines}, ensure_ascii=False))
    else:
        print("\n".join(format_skill_diff(row, lines)))
    return 0


async def _approve(desk: SkillAdmin, given: argparse.Namespace) -> int:
    print(format_decided_change(await desk.approve_change(given.number)))
    return 0


async def _reject(desk: SkillAdmin, given: argparse.Namespace) -> int:
    print(format_decided_change(await desk.reject_change(given.number)))
    return 0


async def _rollback(desk: SkillAdmin, given: argparse.Namespace) -> int:
    print(format_decided_change(await desk.rollback_skill(given.name, given.number)))
    return 0


async def _remove(desk: SkillAdmin, given: argparse.Namespace) -> int:
    print(format_decided_change(await desk.remove_skill(given.name)))
    return 0


async def _install(desk: SkillAdmin, given: argparse.Namespace) -> int:
    if given.yes and not given.sha256:
        raise UsageError("--yes needs --sha256 HASH: it says yes to that very content.")
    package = await desk.load_package(given.source)
    offer = await desk.preview_package(package)
    if given.sha256 and given.sha256.lower() != offer["sha256"]:
        raise UsageError(f"Its sha256 is {offer['sha256']}, not the one given.", "Nothing was installed.")
    print("\n".join(_offer_lines(offer)))
    if not given.yes:
        if not sys.stdin.isatty():
            complain("Installing needs a yes: --yes with --sha256 as above.")
            return 2
        print(say("Install it? The agent will follow what it says."), "[y/N] ", end="", flush=True)
        if (await asyncio.to_thread(sys.stdin.readline)).strip().lower() not in ("y", "yes", "是", "好"):
            print(say("Nothing was installed."))
            return 1
    print(format_decided_change(await desk.install_package(package)))
    return 0


_VERBS: dict[str, Callable[[SkillAdmin, argparse.Namespace], Awaitable[int]]] = {
    "list": _list,
    "view": _view,
    "install": _install,
    "pending": _pending,
    "diff": _diff,
    "approve": _approve,
    "reject": _reject,
    "rollback": _rollback,
    "remove": _remove,
    "log": _log,
}


def _offer_lines(offer: Plain) -> list[str]:
    files = offer["files"]
    assert isinstance(files, dict)
    state = say("new") if offer["new"] else say("in the place of what is there")
    return [
        escape_text(say("{name} from {source} ({state})", name=offer["name"], source=offer["source"], state=state)),
        f"sha256 {offer['sha256']}",
        *(escape_text("  " + say("{size:>9,} bytes  {path}", size=size, path=path)) for path, size in files.items()),
        *(f"! {translated(line)}" for line in as_strings(offer["findings"])),
        "",
        *as_strings(offer["diff"]),
    ]


def _print(rows: list[Plain], as_json: bool, line: Callable[[Plain], str], none: str) -> int:
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
    else:
        for row in rows:
            print(line(row))
        if not rows:
            print(none)
    return 0
