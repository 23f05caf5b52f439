"""What `hermes setup` offers beside the model: the steps to a chat platform, and the tool sets."""

import importlib
import textwrap
from collections.abc import Mapping

from hermes.admin.toolsets import disable_toolsets, enable_toolsets, list_toolsets
from hermes.cli.plain.menu import WentBackError, choose_option
from hermes.commands.event_descriptions import describe_toolset
from hermes.config.home import locate_home
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters


def list_extras() -> list[str]:
    """Return the lines of a menu for what can be set up beside the model."""
    return [tr("A chat platform, such as Telegram"), tr("The tools that the model may use")]


def run_extra(environ: Mapping[str, str], number: int) -> None:
    """Do what a line of `list_extras` says; the person may go back from it."""
    try:
        (_show_platform_steps, _switch_toolsets)[number](environ)
    except WentBackError:
        return


def offer_extras(environ: Mapping[str, str]) -> None:
    """Offer what can be set up beside the model, until the person wants no more of it."""
    while wish := choose_option(tr("Anything else?"), [tr("No, that is all"), *list_extras()]):
        run_extra(environ, wish - 1)


def _show_platform_steps(environ: Mapping[str, str]) -> None:
    """Ask for a platform, and print the steps to an account on it."""
    # Front-ends know nothing of each other: the gateway's part is found by its name.
    accounts = importlib.import_module("hermes.gateway.accounts")
    names = accounts.platform_names()
    found = {name: accounts.load_descriptor(name) for name in names}
    name = names[choose_option(tr("Which platform?"), [found[one].title for one in names], back=True)]
    home, platform = locate_home(environ), found[name]
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
        file = escape_unseen_characters(str(home.env_file))
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
