"""A Home Assistant on loopback, which speaks the REST API as version 2025.4.4 does (`tests/ends/home_run.py` compares).

It knows a desk lamp, a heater and a door, areas, and services that change them; what it refuses it refuses in the same
words and forms.
"""

import json
from dataclasses import dataclass, field

from aiohttp import web

Json = dict[str, object]
AT = "2026-11-28T04:20:53.054268+00:00"


def _fields(**required: bool) -> Json:
    return {name: {"required": need, "selector": {}, "description": f"The {name}."} for name, need in required.items()}


SERVICES: dict[str, dict[str, Json]] = {
    "input_boolean": {
        "turn_on": {"name": "Turn on", "description": "Turns on the helper.", "fields": {}, "target": {"entity": []}},
        "turn_off": {"name": "Turn off", "description": "Turns off the helper.", "fields": {}},
    },
    "input_number": {
        "set_value": {"name": "Set", "description": "Sets the value.", "fields": _fields(value=True)},
    },
    "lock": {"unlock": {"name": "Unlock", "description": "Unlocks a lock.", "fields": _fields(code=False)}},
    "scene": {"apply": {"name": "Apply", "description": "Sets entities.", "fields": _fields(entities=True)}},
    "custom": {"send": {"name": "Send", "description": "", "fields": {}}},
    "shell_command": {"touch": {"name": "touch", "description": "", "fields": {}}},
    "weather": {
        "get_forecasts": {"name": "Forecasts", "description": "Gives forecasts.", "fields": _fields(type=True)}
    },
}


@dataclass
class FakeHome:
    """The server; `calls` are the services that were called, with their data."""

    token: str
    states: dict[str, Json] = field(default_factory=dict)
    areas: dict[str, list[str]] = field(default_factory=dict)
    calls: list[tuple[str, Json]] = field(default_factory=list)
    is_admin: bool = True

    def __post_init__(self) -> None:
        self.set_state("input_boolean.lamp", "off", friendly_name="Desk lamp", editable=False)
        self.set_state("input_number.heat", "5.0", friendly_name="Heat", min=5.0, max=30.0, unit_of_measurement="°C")
        self.set_state("lock.door", "locked", friendly_name="Door")
        self.areas = {"study": ["input_boolean.lamp"]}

    def set_state(self, entity_id: str, state: str, **attributes: object) -> None:
        """Give an entity a state."""
        known = self.states.get(entity_id, {}).get("attributes", {})
        assert isinstance(known, dict)
        self.states[entity_id] = {
            "entity_id": entity_id, "state": state, "attributes": {**known, **attributes}, "last_changed": AT,
            "last_reported": AT, "last_updated": AT, "context": {"id": "01", "parent_id": None, "user_id": None},
        }  # fmt: skip

    def list_routes(self) -> list[web.AbstractRouteDef]:
        """Return the server's routes."""
        return [
            web.get("/api/states", self._states),
            web.get("/api/states/{entity}", self._state),
            web.get("/api/services", self._services),
            web.post("/api/services/{domain}/{service}", self._call),
            web.post("/api/template", self._template),
        ]

    def _require_token(self, request: web.Request) -> None:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise web.HTTPUnauthorized

    async def _states(self, request: web.Request) -> web.Response:
        self._require_token(request)
        return web.json_response(list(self.states.values()))

    async def _state(self, request: web.Request) -> web.Response:
        self._require_token(request)
        found = self.states.get(request.match_info["entity"])
        if found is None:
            return web.json_response({"message": "Entity not found."}, status=404)
        return web.json_response(found)

    async def _services(self, request: web.Request) -> web.Response:
        self._require_token(request)
        return web.json_response([{"domain": name, "services": found} for name, found in SERVICES.items()])

    async def _call(self, request: web.Request) -> web.Response:
        self._require_token(request)
        domain, service = request.match_info["domain"], request.match_info["service"]
        if service not in SERVICES.get(domain, {}):
            raise web.HTTPBadRequest
        data = json.loads(await request.read() or b"{}")
        if domain == "weather":
            if "return_response" not in request.query:
                said = "Service call requires responses but caller did not ask for responses. "
                return web.json_response({"message": f"{said}Add ?return_response to query parameters."}, status=400)
            return web.json_response(
                {"changed_states": [], "service_response": {"weather.here": {"forecast": ["rain"]}}}
            )
        self.calls.append((f"{domain}.{service}", data))
        named = data.get("entity_id", [])
        before = {name: found["state"] for name, found in self.states.items()}
        for entity in [named] if isinstance(named, str) else named:
            if domain == "input_number":
                if not 5 <= float(data["value"]) <= 30:
                    raise web.HTTPBadRequest
                self.set_state(entity, str(float(data["value"])))
            elif entity in self.states:
                self.set_state(entity, {"turn_on": "on", "turn_off": "off", "unlock": "unlocked"}[service])
        return web.json_response([found for name, found in self.states.items() if found["state"] != before[name]])

    async def _template(self, request: web.Request) -> web.Response:
        self._require_token(request)
        if not self.is_admin:
            raise web.HTTPUnauthorized
        body = json.loads(await request.read())
        assert body["template"] == "{{ area_entities(area) | to_json }}"
        return web.Response(text=json.dumps(self.areas.get(body["variables"]["area"], [])))
