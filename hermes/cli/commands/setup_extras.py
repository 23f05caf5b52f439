"""What `hermes setup` offers beside the model: an account on a chat platform, and the tool sets."""

import asyncio
import contextlib
import getpass
import importlib
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.admin.config import change_settings
from hermes.admin.people.admin import open_people_admin
from hermes.admin.people.identity import PersonRole
from hermes.admin.toolsets import disable_toolsets, enable_toolsets, list_toolsets
from hermes.cli.commands.gateway import require_gateway_packages
from hermes.cli.output import format_error, print_error
from hermes.cli.plain.menu import WentBackError, ask_line, ask_secret, ask_yes_no, choose_option
from hermes.commands.texts.event_descriptions import describe_toolset
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.i18n.messages import localize, tr
from hermes.sessions.features.cron_deps import is_gateway_running
from hermes.util.text import escape_unseen_characters

# Front-ends know nothing of each other: the gateway's modules are found by their names, and its types are not known.
Descriptor = Any
AskedOption = Any


def list_extras() -> list[str]:
    """Return the lines of a menu for what can be set up beside the model."""
    return [tr("A chat platform, such as Telegram"), tr("The tools that the model may use")]


def run_extra(environ: Mapping[str, str], number: int) -> None:
    """Do what a line of `list_extras` says; the person may go back from it."""
    try:
        (_set_up_platform, _switch_toolsets)[number](environ)
    except WentBackError:
        return
    except HermesError as error:
        print_error(format_error(error))


def offer_extras(environ: Mapping[str, str]) -> None:
    """Offer what can be set up beside the model, until the person wants no more of it."""
    while wish := choose_option(tr("Anything else?"), [tr("No, that is all"), *list_extras()]):
        run_extra(environ, wish - 1)


def _set_up_platform(environ: Mapping[str, str]) -> None:
    """Ask for a platform and for what an account on it needs, or print the steps where that is not at hand."""
    require_gateway_packages()
    accounts = importlib.import_module("hermes.gateway.accounts")
    names = accounts.platform_names()
    found = {name: accounts.load_descriptor(name) for name in names}
    while True:
        name = names[choose_option(tr("Which platform?"), [found[one].title for one in names], back=True)]
        with contextlib.suppress(WentBackError):
            if not found[name].asked or not _set_up_account(environ, name, found[name]):
                _print_steps(environ, name, found[name])
            return


def _set_up_account(environ: Mapping[str, str], name: str, platform: Descriptor) -> bool:
    """Ask for the options of an account, write them down and connect once. Return False where one was left open."""
    setup = importlib.import_module("hermes.gateway.account_setup")
    print("\n" + localize(platform.preparation))
    print(tr("Enter alone leaves, and shows the steps."))
    while True:
        answers = _ask_options(setup.list_asked_options(environ, name))
        if answers is None:
            return False
        setup.save_account(environ, name, answers)
        print(tr("Wrote platforms.{name} in {file}.", name=name, file=_format_path(locate_home(environ).config_file)))
        if is_gateway_running(locate_home(environ)):
            print(tr("`hermes gateway reload` applies it."))
            break
        print(tr("Connecting to {platform} ...", platform=platform.title))
        check = asyncio.run(setup.check_account(environ, name))
        if not check.problem:
            print(tr("Connected as {name}.", name=escape_unseen_characters(check.own_name or platform.title)))
            break
        print(tr("It does not work yet: {why}", why=escape_unseen_characters(localize(check.problem))))
        if not check.is_refused or not ask_yes_no(tr("Type it once more?"), default=True):
            break
    if platform.can.buttons:
        _offer_requests(environ, name)
    asyncio.run(_print_owner_code(environ, name, knows_senders=platform.can.senders))
    return True


def _offer_requests(environ: Mapping[str, str], name: str) -> None:
    """Offer that unknown people may ask to be let in, which they may not by default."""
    home, key = locate_home(environ), ("platforms", name, "pairing")
    print(tr("Who is not known to the bot gets no answer. They may ask to be let in instead, and you are asked."))
    if ask_yes_no(tr("May they ask?"), default=False):
        change_settings(home, {key: True})
        file = _format_path(home.config_file)
        print(tr("{key} is {value} now, in {file}.", key=".".join(key), value="true", file=file))


def _ask_options(asked: Sequence[AskedOption]) -> dict[str, str] | None:
    """Ask for each option; None where one was left open that has no value yet."""
    answers = {}
    for one in asked:
        if one.variable:
            kept = tr("Enter keeps the one in .env") if one.is_known else ""
            question = tr("{option} (not shown; it goes into .env as {name}):", option=one.name, name=one.variable)
            answer = ask_secret(f"{question} {kept}".rstrip(), getpass.getpass, back=True)
        else:
            example = tr("such as {example}", example=one.example) if one.example else ""
            answer = ask_line(f"{one.name} ({example}):" if example else f"{one.name}:", back=True)
        if answer:
            answers[one.name] = answer
        elif not one.is_known:
            return None
    return answers


async def _print_owner_code(environ: Mapping[str, str], name: str, *, knows_senders: bool) -> None:
    """Print the code that makes its sender the owner, where the platform knows who sends, and what comes next."""
    if knows_senders:
        async with open_people_admin(environ) as admin:
            code = await admin.create_code(PersonRole.OWNER, platform=name)
            (bot,) = await admin.find_bots(code, name)
        where = escape_unseen_characters(bot.name) or name
        print(tr("Your code is {code}: send it to {name} in a direct chat, within an hour.", code=code, name=where))
        if bot.link:
            print(tr("This link sends it, too: {link}", link=escape_unseen_characters(bot.link)))
    print(tr("`hermes gateway run` answers there; `hermes gateway install` makes it a service."))


def _format_path(path: Path) -> str:
    return escape_unseen_characters(str(path))


def _print_steps(environ: Mapping[str, str], name: str, platform: Descriptor) -> None:
    """Print the steps to an account on a platform."""
    home = locate_home(environ)
    variables = [platform.variables[one] for one in platform.secrets if one in platform.variables]
    example = platform.example.rstrip()
    if not example.startswith(f"{name}:"):
        example = f"{name}:\n{textwrap.indent(example, '  ')}"
    pairing = " ".join(("hermes", "pairing", "new", "--role", "owner", "--platform", name))
    steps = [
        tr("`hermes config edit` opens config.yaml. Under `platforms:` it may say:")
        + "\n"
        + textwrap.indent(example, " " * 7),
        tr("`hermes config check` says what is missing; `hermes gateway run` answers there."),
        tr("`{command}` prints a code: send it to the bot, and it knows you.", command=pairing),
        tr("`hermes gateway install` makes it a service that runs at every start."),
    ]
    if variables:
        file = _format_path(home.env_file)
        steps.insert(1, tr("What is secret goes into {file}: {names}", file=file, names=", ".join(variables)))
    print("\n" + tr("Steps to {platform}:", platform=platform.title))
    print("\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1)))


def _switch_toolsets(environ: Mapping[str, str]) -> None:
    """Switch tool sets on or off until the person has no more wishes."""
    while True:
        rows = list_toolsets(environ)
        lines = [f"[{'x' if row['on'] else ' '}] {row['name']}  {describe_toolset(str(row['name']))}" for row in rows]
        wish = choose_option(tr("Which tools? The one that you choose is switched."), [tr("Leave them so"), *lines])
        if wish == 0:
            return
        row = rows[wish - 1]
        switch = disable_toolsets if row["on"] else enable_toolsets
        switch(environ, [str(row["name"])])
