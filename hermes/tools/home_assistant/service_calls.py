"""Which calls of services are asked about, and which are never made: pure data and functions."""

import re
from collections.abc import Sequence

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source
from hermes.i18n.messages import N_
from hermes.safety.shell.findings import CommandFinding, Verdict
from hermes.tools.schema import Arguments
from hermes.tools.taint import sources_from_provenance
from hermes.util.text import to_one_line

REFUSED_DOMAINS = frozenset(
    {
        *("shell_command", "command_line", "python_script", "pyscript", "hassio", "rest_command", "ssh"),
        *("downloader", "ftp", "folder_watcher"),
    }
)
"""Domains that run code or commands on the server, or reach from it where they like: they are never called."""
PLAIN_DOMAINS = frozenset(
    {
        *("light", "switch", "fan", "climate", "humidifier", "water_heater", "media_player", "vacuum", "lawn_mower"),
        *("input_boolean", "input_button", "input_datetime", "input_number", "input_select", "input_text"),
        *("button", "number", "select", "text", "date", "time", "datetime", "counter", "timer"),
        *("weather", "calendar", "todo", "shopping_list", "tts"),
    }
)
"""Domains whose services do to the named entity what their name says. Every call of any other one is asked about: doors
and alarms, the server itself, what does anything in turn (scenes, scripts), and what nobody here knows.
"""
ANSWERS = Provenance(source=Source.OTHER, label="homeassistant")
"""Where the answers come from: names and states are written by devices, add-ons and other people."""
EVERYTHING = "all"
"""The entity id that stands for every entity of a domain."""
_TARGETS = frozenset({"entity_id", "device_id", "area_id", "floor_id", "label_id"})
"""Members of a call's data that say whom it is for."""
_ID = re.compile(r"[a-z0-9_]{1,64}\.[a-z0-9_]{1,200}")
_NAME = re.compile(r"[a-z0-9_]{1,64}")
_MAX_ENTITIES = 50
_MAX_SHOWN = 300


def check_entity_id(given: str) -> str:
    """Return an entity's id. Raises ToolError for what can be none, so that nothing else gets into an address."""
    if _ID.fullmatch(given.strip()):
        return given.strip()
    raise ToolError(f"{given!r:.80} is no entity id: it is written as light.kitchen.")


def check_name(given: str, what: str) -> str:
    """Return the name of a domain or a service. Raises ToolError for what can be none."""
    if _NAME.fullmatch(given.strip()):
        return given.strip()
    raise ToolError(f"{given!r:.80} is no {what}: it has small letters, digits and _ only.")


def split_entity_ids(given: str) -> list[str]:
    """Return the entities that a call names, separated by commas. Raises ToolError."""
    named = [one.strip() for one in given.split(",") if one.strip()]
    if len(named) > _MAX_ENTITIES:
        raise ToolError(f"{len(named)} entities are too many for one call: at most {_MAX_ENTITIES}.")
    return [one if one == EVERYTHING else check_entity_id(one) for one in named]


def describe_service_call(arguments: Arguments) -> str:
    """Return on one line what a call does, with all of its data."""
    entity, data = str(arguments.get("entity_id") or ""), arguments.get("data")
    words = [f"{arguments['domain']}.{arguments['service']}", entity, to_json(data).decode() if data else ""]
    return to_one_line(" ".join(one for one in words if one), _MAX_SHOWN)


def _reaches_further(arguments: Arguments) -> bool:
    """Return whether a call is for all of a domain, or for what its data names in the place of its entities."""
    data = arguments.get("data")
    named = [one.strip() for one in str(arguments.get("entity_id") or "").split(",")]
    return EVERYTHING in named or (isinstance(data, dict) and not _TARGETS.isdisjoint(data))


def find_service_doubts(arguments: Arguments, sources: Sequence[str]) -> list[CommandFinding]:
    """Return why a call is refused or asked about: every one acts on the outside.

    A grave one has no subject, so that no answer covers the next.
    """
    domain, service = str(arguments["domain"]).strip(), str(arguments["service"]).strip()
    if domain in REFUSED_DOMAINS:
        reason = N_("services of {domain} run code or commands at the home: they are not called", domain=domain)
        return [CommandFinding(Verdict.DENY, "home-domain", reason)]
    what = describe_service_call(arguments)
    subject = N_("home {domain}.{service}", domain=domain, service=service)
    if domain not in PLAIN_DOMAINS or _reaches_further(arguments):
        reason = N_("it acts in your home, and such a call is asked about each time: {what}", what=what)
        found = [CommandFinding(Verdict.ASK, "home-grave", reason)]
    else:
        found = [CommandFinding(Verdict.ASK, "home-service", N_("it acts in your home: {what}", what=what), subject)]
    if any(one not in sources_from_provenance(ANSWERS) for one in sources):
        reason = N_("untrusted content stands in this conversation, and may have asked for it")
        found.append(CommandFinding(Verdict.ASK, "tainted-home", reason))
    return found
