"""The tools of Home Assistant against a real one, and our fake beside it: only where `HERMES_HASS` names the program
`hass` (`make ends`)."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from hermes.core.messages import ToolStatus
from hermes.testing.web_server import Listener
from hermes.tools.registry import ToolRegistry
from hermes.tools.session import WebAccess
from tests.ends.servers import free_port, home_assistant, home_token, tell
from tests.tools.tool_session import Person, Session, make_context
from tests.vendors.home_assistant import FakeHome

PROGRAM = os.environ.get("HERMES_HASS", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HERMES_HASS names no program of Home Assistant")
LAMP = {"domain": "input_boolean", "service": "turn_on", "entity_id": "input_boolean.lamp"}
TEMPLATE = {"template": "{{ area_entities(area) | to_json }}", "variables": {"area": "cellar"}}
HOT = {"entity_id": "input_number.heat", "value": 99}
REQUESTS: list[tuple[str, str, Mapping[str, object] | None]] = [
    ("GET", "/api/states/input_boolean.lamp", None),
    ("GET", "/api/states/light.none", None),
    ("POST", "/api/services/input_boolean/turn_off", {"entity_id": ["input_boolean.lamp"]}),
    ("POST", "/api/services/input_boolean/turn_off", {"entity_id": "input_boolean.lamp"}),
    ("POST", "/api/services/input_number/set_value", HOT),
    ("POST", "/api/services/nothing/here", {}),
    ("POST", "/api/template", TEMPLATE),
]


def shape(value: object) -> object:
    """What a JSON value is made of: its members, but not what they are, nor the attributes that an entity has."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in sorted(value.items()) if name not in ("attributes", "context")}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return value if isinstance(value, str) and " " in value else type(value).__name__


async def ask(base: str, token: str) -> list[tuple[int, object]]:
    """Send the requests; return each status and what the answer is made of."""
    told: list[tuple[int, object]] = []
    async with aiohttp.ClientSession() as session:
        for method, path, body in REQUESTS:
            for given in (token, "wrong"):
                headers = {"authorization": f"Bearer {given}"}
                async with session.request(method, base + path, json=body, headers=headers) as answer:
                    is_json = answer.content_type == "application/json"
                    told.append((answer.status, shape(await answer.json()) if is_json else await answer.text()))
    return told


async def test_the_tools_and_the_fake_hold_against_a_real_home(tmp_path: Path) -> None:
    folder, port = tmp_path / "hass", free_port()
    folder.mkdir()
    async with await home_assistant(Path(PROGRAM), folder, port):
        token, base = await home_token(port), f"http://127.0.0.1:{port}"
        web = WebAccess(environ={"HASS_TOKEN": token, "HASS_URL": base})
        session = Session(make_context(tmp_path.resolve(), web=web), ToolRegistry().select_tools(["homeassistant"]))
        session.person = Person(*[True] * 4)
        assert "input_boolean.lamp: off (Desk lamp)" in await session.text("ha_list_entities", domain="input_boolean")
        assert "There is no area 'cellar'" in await session.text("ha_list_entities", area="cellar")
        assert "max: 30.0" in await session.text("ha_get_state", entity_id="input_number.heat")
        names = await session.text("ha_list_services")
        assert "input_boolean: reload, toggle, turn_off, turn_on" in names and "shell_command" not in names
        assert "value (required)" in await session.text("ha_list_services", domain="input_number")
        assert "input_boolean.lamp: on (Desk lamp)" in await session.text("ha_call_service", **LAMP)
        set_heat = {"domain": "input_number", "service": "set_value", "entity_id": "input_number.heat"}
        assert "input_number.heat: 21.0" in await session.text("ha_call_service", **set_heat, data={"value": 21})
        assert "refuses input_number.set_value" in await session.text("ha_call_service", **set_heat, data={"value": 99})
        refused = await session.call("ha_call_service", domain="shell_command", service="touch")
        assert refused.status is ToolStatus.REFUSED and not (folder / "touched").exists()
        assert "no entity light.none" in await session.text("ha_get_state", entity_id="light.none")
        real = await ask(base, token)
    fake = FakeHome(f"t{secrets.token_hex(12)}")
    fake.set_state("input_boolean.lamp", "on")
    server = Listener(fake.list_routes())
    await server.start()
    try:
        assert await ask(server.url, fake.token) == real
    finally:
        await server.down()
    tell(f"Home Assistant: {len(real)} requests answered alike by the real server and the fake")
