"""`ha_list_entities`, `ha_get_state`, `ha_list_services`, `ha_call_service`: a person's Home Assistant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.tools.home_assistant.client import HomeEntity, HomeService, open_home
from hermes.tools.home_assistant.service_calls import (
    ANSWERS,
    REFUSED_DOMAINS,
    check_entity_id,
    check_name,
    describe_service_call,
    find_service_doubts,
    split_entity_ids,
)
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, ToolOutput, ToolRequirements, tool
from hermes.util.text import to_one_line

MAX_LINES = 200
"""The lines of a list that a model is shown."""
MAX_CHARACTERS = 15_000
_MAX_VALUE = 300
_MAX_LINE = 240
_NEEDS = ToolRequirements(variables=("HASS_TOKEN",))


@tool(
    "homeassistant",
    parallel=Parallel.SAFE,
    repeatable=True,
    deferred=True,
    brief="devices of the home",
    summary=lambda args: f"list entities {args.get('domain') or ''} {args.get('area') or ''}".strip(),
    requirements=_NEEDS,
)
async def ha_list_entities(
    ctx: ToolContext,
    domain: Annotated[str, "Only of a domain, such as light or sensor."] = "",
    area: Annotated[str, "Only of an area, by its name."] = "",
) -> ToolOutput:
    """List the entities of Home Assistant with their states."""
    home = open_home(ctx)
    wanted = check_name(domain, "domain") if domain.strip() else ""
    found = await home.list_states()
    if area.strip():
        there = set(await home.list_area(area.strip()[:100]))
        if not there:
            raise ToolError(f"There is no area {area.strip()!r:.80}, or nothing is in it.")
        found = [one for one in found if one.entity_id in there]
    shown = [one for one in found if not wanted or one.entity_id.partition(".")[0] == wanted]
    shown.sort(key=lambda one: one.entity_id)
    return _build_output([_format_entity(one) for one in shown], "Name a domain or an area to see fewer.")


@tool(
    "homeassistant",
    parallel=Parallel.SAFE,
    repeatable=True,
    deferred=True,
    brief="state of one",
    summary=lambda args: f"state of {args['entity_id']}",
    requirements=_NEEDS,
)
async def ha_get_state(ctx: ToolContext, entity_id: Annotated[str, "Such as light.kitchen."]) -> ToolOutput:
    """Read an entity of Home Assistant: its state and all attributes."""
    entity = await open_home(ctx).read_state(check_entity_id(entity_id))
    lines = [f"{entity.entity_id}: {_shorten(entity.state)}"]
    lines += [f"since {entity.last_changed}"] if entity.last_changed else []
    lines += [f"{name}: {_format_value(value)}" for name, value in entity.attributes.items()]
    return _build_output(lines, "")


@tool(
    "homeassistant",
    parallel=Parallel.SAFE,
    repeatable=True,
    deferred=True,
    brief="what they can do",
    summary=lambda args: f"list services {args.get('domain') or ''}".strip(),
    requirements=_NEEDS,
)
async def ha_list_services(
    ctx: ToolContext, domain: Annotated[str, "Shows their data, too; without it their names alone."] = ""
) -> ToolOutput:
    """List the services of Home Assistant: what can be done."""
    wanted = check_name(domain, "domain") if domain.strip() else ""
    domains = [one for one in await open_home(ctx).list_services() if one.domain not in REFUSED_DOMAINS]
    if not wanted:
        lines = [f"{one.domain}: {', '.join(sorted(one.services))}" for one in domains]
        return _build_output(sorted(lines), "Name a domain to see fewer.")
    services = next((one.services for one in domains if one.domain == wanted), None)
    if services is None:
        raise ToolError(f"There is no domain {wanted} with services that may be called.")
    return _build_output(_list_service_lines(wanted, services), "")


@tool(
    "homeassistant",
    deferred=True,
    brief="switch them",
    summary=lambda args: f"call {args['domain']}.{args['service']} {args.get('entity_id') or ''}".strip(),
    shown=describe_service_call,
    doubts=find_service_doubts,
    requirements=_NEEDS,
)
async def ha_call_service(
    ctx: ToolContext,
    domain: Annotated[str, "Such as light."],
    service: Annotated[str, "Such as turn_on."],
    entity_id: Annotated[str, "Whom it is for; several with commas."] = "",
    data: Annotated[dict[str, Any] | None, "More, as ha_list_services names it."] = None,
) -> ToolOutput:
    """Call a service of Home Assistant, such as light.turn_on. The person is asked."""
    domain, service = check_name(domain, "domain"), check_name(service, "service")
    if domain in REFUSED_DOMAINS:
        raise ToolError(f"Services of {domain} are not called.")
    entities = split_entity_ids(entity_id)
    body = {**(data or {}), **({"entity_id": entities} if entities else {})}
    outcome = await open_home(ctx).call_service(domain, service, body)
    lines = [_format_entity(one) for one in outcome.changed_states]
    if outcome.service_response:
        lines.append(f"response: {to_one_line(to_json(outcome.service_response).decode(), MAX_CHARACTERS // 2)}")
    done = f"{domain}.{service} was called."
    return _build_output([done, *(lines or ["No state has changed yet."])], "")


def _list_service_lines(domain: str, services: Mapping[str, HomeService]) -> list[str]:
    lines: list[str] = []
    for name, service in sorted(services.items()):
        lines.append(_shorten(f"{domain}.{name}: {service.description or service.name}", _MAX_LINE))
        for field, about in service.fields.items():
            need = " (required)" if about.required else ""
            lines.append(_shorten(f"  {field}{need}: {about.description}".rstrip(": "), _MAX_LINE))
    return lines


def _format_entity(entity: HomeEntity) -> str:
    unit = entity.attributes.get("unit_of_measurement")
    state = f"{entity.state} {unit}" if isinstance(unit, str) else entity.state
    name = f" ({entity.name})" if entity.name else ""
    return _shorten(f"{entity.entity_id}: {state}{name}", _MAX_LINE)


def _format_value(value: object) -> str:
    return _shorten(value if isinstance(value, str) else to_json(value).decode())


def _shorten(text: str, limit: int = _MAX_VALUE) -> str:
    return to_one_line(text, limit)


def _build_output(lines: Sequence[str], advice: str) -> ToolOutput:
    """Return lines within the limits, with what was left out."""
    shown = list(_take_lines(lines))
    left = len(lines) - len(shown)
    more = [f"[{left} more. {advice}]".replace(" ]", "]")] if left else []
    return ToolOutput(text="\n".join([*shown, *more]) or "Nothing.", provenance=ANSWERS)


def _take_lines(lines: Iterable[str]) -> Iterable[str]:
    room = MAX_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0 or number == MAX_LINES:
            return
        yield line
