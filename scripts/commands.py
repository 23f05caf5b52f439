#!/usr/bin/env python3
"""Write docs/commands.md: every verb with what it does, an example, and the verbs below it, read from the parsers, and
every slash command, read from their registry.

python scripts/commands.py            prints it
python scripts/commands.py --write    writes it
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from hermes.cli.command_tree import list_commands  # noqa: E402
from hermes.commands.command import CommandGroup  # noqa: E402 - the tree that this file stands in
from hermes.commands.context import Surface  # noqa: E402
from hermes.commands.registry import load_commands  # noqa: E402

HEAD = """\
# Commands

Made from the parsers by `python scripts/commands.py --write`; a test holds it to them. `hermes COMMAND --help` says
more. `-p NAME` (`--profile`) before or behind any of them uses the home of that profile; `HERMES_HOME`, where it is
set, comes first. Without a command `hermes` is `hermes chat`.

Exit codes: 0 done · 1 failed, or what was asked about has a problem · 2 wrong usage, or a yes is needed (`--yes`) and
nobody can be asked · 3 something was refused because nobody could be asked · 4 an answer does not have the
form of `--output-schema` · 75 something is open in another process ·
78 the configuration cannot be used · 130 stopped.
"""


SLASH = """
## Slash commands

In a chat. The table is made from the registry of commands; `/help NAME` says the same. A line that begins with a space
is a message whatever follows. What belongs to the commands of other agents and is not here is said by its name.

Skills and [commands of your own](skills.md#commands-of-your-own) are called by `/NAME`, too. In chats `/start`,
`/handoff` and `/restart` come to these, those about the screen are left out, and a role has
[its share](people.md#roles) of them.
"""


def slash() -> list[str]:
    """The tables of slash commands, by what they are about."""
    lines = [SLASH]
    for group in CommandGroup:
        lines += [f"\n### {group.value}\n", "| command | what it does | also |", "|---|---|---|"]
        for one in load_commands():
            if one.group is group:
                usage = f" {one.usage}" if one.usage else ""
                typed = f"/{one.name}{usage}".replace("|", "\\|")
                also = ", ".join(f"`/{alias}`" for alias in one.aliases)
                waits = "" if one.while_busy else "; between two turns"
                where = "" if Surface.TERMINAL in one.surfaces else "; in chats on platforms"
                lines.append(f"| `{typed}` | {one.about}{waits}{where} | {also} |".replace("  |", " |"))
    return lines


def document() -> str:
    """The whole text."""
    lines = [HEAD]
    for place in list_commands():
        name = " ".join(place.path)
        options = [one for one in place.options if one.startswith("--") and one != "--help"]
        given = f" · options: {', '.join(f'`{one}`' for one in options)}" if options else ""
        if len(place.path) == 1:
            lines += [
                f"\n## hermes {name}\n",
                f"{place.what[:1].upper()}{place.what[1:]}.{given}\n",
                *(f"    {line}" for line in place.example.split("\n")),
                "",
            ]
        else:
            lines.append(f"- `hermes {name}`: {place.what}{given}")
    lines += slash()
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        (ROOT / "docs" / "commands.md").write_text(document(), encoding="utf-8")
    else:
        sys.stdout.write(document())
