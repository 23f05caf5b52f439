"""Writes a small plug-in that works, for `hermes plugins new NAME`: a tool, a hook and a command, to be changed by
its author. docs/plugins.md shows the same.
"""

from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.plugin_host.manifest import MANIFEST_FILE, check_plugin_name

_MANIFEST = """\
name: NAME
version: "0.1.0"
description: Counts the words of a text, and looks out for one command.

# docs/hooks.md lists the events, by the names of the first column.
hooks: [pre_tool_call]
tools:
  - name: count_words
    description: Count the words of a text.
    read_only: true
    parameters:
      type: object
      properties:
        text: {type: string, description: The text whose words are counted.}
      required: [text]
commands:
  - {name: total, about: Says how many words were counted so far.}

# Nothing of this machine is seen, and no host is reached, unless it stands here:
# capabilities: {workspace: read, memory: 256}
# hosts: [api.example.com]
# env: [MY_SERVICE_TOKEN]
"""
_PROGRAM = """\
from hermes_plugin import CallError, command, hook, run, tool

counted = 0


@tool
def count_words(call, text):
    global counted
    if not text.strip():
        raise CallError("there is no text")  # the model is told
    counted += len(text.split())
    return f"The text has {len(text.split())} words."


@hook("pre_tool_call")
def ask_before_deploying(moment):
    command = str(moment["arguments"].get("command", ""))
    if moment["tool"] == "terminal" and "make deploy" in command:
        return {"decision": "ask", "reason": "this deploys to production"}


@command("total")
def total(call, text):
    return f"{counted} words so far."


run()
"""


def write_example_plugin(place: Path, name: str) -> Path:
    """Write the example into a new folder of that name and return the folder. Raises ConfigError."""
    check_plugin_name(name)
    folder = place / name
    try:
        folder.mkdir(mode=0o700, parents=True)
        (folder / MANIFEST_FILE).write_text(_MANIFEST.replace("NAME", name), "utf-8")
        (folder / "main.py").write_text(_PROGRAM, "utf-8")
    except FileExistsError:
        raise ConfigError(
            N_("{folder} is there already.", folder=folder), N_("Choose another name, or remove it first.")
        ) from None
    except OSError as error:
        raise ConfigError(
            N_("{folder} cannot be written: {reason}.", folder=folder, reason=error.strerror),
            N_("Fix its permissions."),
        ) from None
    return folder
