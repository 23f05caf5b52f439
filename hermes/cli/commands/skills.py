"""`hermes skills`: show and install skills, decide on the agent's proposed changes, and undo changes."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from hermes.admin.skills import SkillAdmin, escape_text, open_skill_admin
from hermes.cli.output import print_error, report_failure
from hermes.cli.parser import CommandParser
from hermes.commands.views.skills import (
    as_strings,
    format_decided_change,
    format_skill,
    format_skill_change,
    format_skill_diff,
)
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError, UsageError
from hermes.i18n.messages import localize, tr
from hermes.sessions.formats.openai_format import Plain


def run(arguments: list[str]) -> int:
    """Parse the arguments and run one of the verbs."""
    args = _build_parser().parse_arguments(arguments)
    try:
        return asyncio.run(_run_verb(args))
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes skills",
        description="Look at skills, install them, and decide on the changes that the agent proposes.",
        epilog="example: hermes skills diff water-plants",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "list": tr("every skill, where it comes from, what is wrong with it, its use (also without a verb)"),
        "view": tr("a skill's text and files"),
        "install": tr("a folder, .zip, .tar.gz, SKILL.md or https address; asks first"),
        "pending": tr("the changes that wait for your yes"),
        "diff": tr("what a change would change, or did"),
        "approve": tr("say yes to a change"),
        "reject": tr("say no to a change"),
        "rollback": tr("put a skill back as it was before its last change, or as change N left it"),
        "remove": tr("take a skill of your own away; rollback brings it back"),
        "log": tr("every change of a skill"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
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


async def _run_verb(args: argparse.Namespace) -> int:
    async with open_skill_admin(copy_environment()) as admin:
        return await _VERB_FUNCTIONS[args.verb or "list"](admin, args)


async def _print_skills(admin: SkillAdmin, args: argparse.Namespace) -> int:
    return _print_rows(
        await admin.list_skills(), getattr(args, "as_json", False), format_skill, tr("There are no skills.")
    )


async def _print_pending(admin: SkillAdmin, args: argparse.Namespace) -> int:
    return _print_rows(await admin.list_pending(), args.as_json, format_skill_change, tr("No change waits."))


async def _print_log(admin: SkillAdmin, args: argparse.Namespace) -> int:
    rows = await admin.list_log(args.name)
    return _print_rows(rows, args.as_json, format_skill_change, tr("No change of a skill of that name is known."))


async def _view_skill(admin: SkillAdmin, args: argparse.Namespace) -> int:
    found = await admin.view_skill(args.name)
    if args.as_json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(escape_text(f"{found['name']} ({found['tier']}, {found['folder']})"))
    for path in as_strings(found["files"]):
        print(escape_text(f"  {path}"))
    print("\n" + escape_text(str(found["text"])))
    return 0


async def _print_diff(admin: SkillAdmin, args: argparse.Namespace) -> int:
    row, lines = await admin.diff_change(args.which)
    if args.as_json:
        print(json.dumps(row | {"diff": lines}, ensure_ascii=False))
    else:
        print("\n".join(format_skill_diff(row, lines)))
    return 0


async def _approve_change(admin: SkillAdmin, args: argparse.Namespace) -> int:
    print(format_decided_change(await admin.approve_change(args.number)))
    return 0


async def _reject_change(admin: SkillAdmin, args: argparse.Namespace) -> int:
    print(format_decided_change(await admin.reject_change(args.number)))
    return 0


async def _rollback_skill(admin: SkillAdmin, args: argparse.Namespace) -> int:
    print(format_decided_change(await admin.rollback_skill(args.name, args.number)))
    return 0


async def _remove_skill(admin: SkillAdmin, args: argparse.Namespace) -> int:
    print(format_decided_change(await admin.remove_skill(args.name)))
    return 0


async def _install_skill(admin: SkillAdmin, args: argparse.Namespace) -> int:
    if args.yes and not args.sha256:
        raise UsageError("--yes needs --sha256 HASH: it says yes to that very content.")
    package = await admin.load_package(args.source)
    offer = await admin.preview_package(package)
    if args.sha256 and args.sha256.lower() != offer["sha256"]:
        raise UsageError(f"Its sha256 is {offer['sha256']}, not the one given.", "Nothing was installed.")
    print("\n".join(_format_package(offer)))
    if not args.yes:
        if not sys.stdin.isatty():
            print_error("Installing needs a yes: --yes with --sha256 as above.")
            return 2
        print(tr("Install it? The agent will follow what it says."), "[y/N] ", end="", flush=True)
        if (await asyncio.to_thread(sys.stdin.readline)).strip().lower() not in ("y", "yes", "是", "好"):
            print(tr("Nothing was installed."))
            return 1
    print(format_decided_change(await admin.install_package(package)))
    return 0


_VERB_FUNCTIONS: dict[str, Callable[[SkillAdmin, argparse.Namespace], Awaitable[int]]] = {
    "list": _print_skills,
    "view": _view_skill,
    "install": _install_skill,
    "pending": _print_pending,
    "diff": _print_diff,
    "approve": _approve_change,
    "reject": _reject_change,
    "rollback": _rollback_skill,
    "remove": _remove_skill,
    "log": _print_log,
}


def _format_package(offer: Plain) -> list[str]:
    files = offer["files"]
    assert isinstance(files, dict)
    state = tr("new") if offer["new"] else tr("in the place of what is there")
    return [
        escape_text(tr("{name} from {source} ({state})", name=offer["name"], source=offer["source"], state=state)),
        f"sha256 {offer['sha256']}",
        *(escape_text("  " + tr("{size:>9,} bytes  {path}", size=size, path=path)) for path, size in files.items()),
        *(f"! {localize(line)}" for line in as_strings(offer["findings"])),
        "",
        *as_strings(offer["diff"]),
    ]


def _print_rows(rows: list[Plain], as_json: bool, line: Callable[[Plain], str], none: str) -> int:
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
    else:
        for row in rows:
            print(line(row))
        if not rows:
            print(none)
    return 0
