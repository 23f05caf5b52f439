"""The server under test of the official conformance suite: its `test_*` tools, resources and prompts, answered by the
same code that serves Hermes' own tools over HTTP. Nothing of it is in the package.

    python -m tests.mcp_server.conformance_server [PORT]
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from msgspec import Raw

from hermes.core.errors import ToolError
from hermes.core.json_rpc import INVALID_PARAMS, RpcError
from hermes.gateway.http.server import HttpServer, HttpServerLimits
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.mcp_endpoint import McpEndpoint
from hermes.gateway.platforms.api_server.requests import RequestReader, json_response
from hermes.mcp.serving.calls import McpCall, Result
from hermes.mcp.serving.served_tools import ServedTool, ToolMethods
from hermes.mcp.serving.service import McpResponder, McpService

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data"
    b"\x00\x00\x00\x00"
).decode()
KEY = secrets.token_bytes(32)
Answer = Callable[[Mapping[str, Any], McpCall, Mapping[str, Any]], Awaitable[Result]]
"""What answers a call: its arguments, the call, and all of its parameters."""
TOOLS: dict[str, tuple[Answer, Mapping[str, object]]] = {}
NO_ARGUMENTS: Mapping[str, object] = {"type": "object", "properties": {}}


def tool(name: str, **properties: Mapping[str, object]) -> Callable[[Answer], Answer]:
    """Declare what answers a tool."""

    def add(answer: Answer) -> Answer:
        TOOLS[name] = answer, {"type": "object", "properties": properties, "required": [*properties]}
        return answer

    return add


def text(said: str) -> Result:
    return {"content": [{"type": "text", "text": said}]}


def resource(uri: str) -> Mapping[str, object]:
    return {
        "type": "resource",
        "resource": {"uri": uri, "mimeType": "text/plain", "text": "This is an embedded resource content."},
    }


@tool("test_simple_text")
async def simple_text(*_: object) -> Result:
    return text("This is a simple text response for testing.")


@tool("test_image_content")
async def image(*_: object) -> Result:
    return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}


@tool("test_audio_content")
async def audio(*_: object) -> Result:
    return {"content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}]}


@tool("test_embedded_resource")
async def embedded(*_: object) -> Result:
    return {"content": [resource("test://embedded-resource")]}


@tool("test_multiple_content_types")
async def mixed(*_: object) -> Result:
    return {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {
                "type": "resource",
                "resource": {
                    "uri": "test://mixed-content-resource",
                    "mimeType": "application/json",
                    "text": '{"test":"data","value":123}',
                },
            },
        ]
    }


@tool("test_error_handling")
async def failing(*_: object) -> Result:
    raise ToolError("This tool intentionally returns an error for testing")


def log(call: McpCall, said: str) -> None:
    if call.log_level:
        call.channel.notify("notifications/message", {"level": "info", "logger": "test", "data": said})


@tool("test_tool_with_logging")
async def logging_tool(_: object, call: McpCall, __: object) -> Result:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        log(call, said)
        await asyncio.sleep(0.05)
    return text("Logged.")


TOOLS["test_logging_tool"] = TOOLS["test_tool_with_logging"]


@tool("test_tool_with_progress")
async def progress(_: object, call: McpCall, __: object) -> Result:
    for done in (0, 50, 100):
        call.report_progress(done, 100, "")
        await asyncio.sleep(0.05)
    return text(str(call.progress_token))


TOOLS["test_streaming_elicitation"] = TOOLS["test_tool_with_progress"]


@tool("test_sampling", prompt={"type": "string"})
async def sampling(given: Mapping[str, Any], call: McpCall, _: object) -> Result:
    call.require_capability("sampling")
    message = {"role": "user", "content": {"type": "text", "text": given["prompt"]}}
    said = json.loads(
        bytes(await call.channel.request("sampling/createMessage", {"messages": [message], "maxTokens": 100}, 20))
    )
    return text(f"LLM response: {said['content']['text']}")


async def elicit(
    call: McpCall, message: str, properties: Mapping[str, object], required: list[str]
) -> Mapping[str, Any]:
    call.require_capability("elicitation")
    schema = {"type": "object", "properties": properties, "required": required}
    asked = {"message": message, "requestedSchema": schema}
    return json.loads(bytes(await call.channel.request("elicitation/create", asked, 20)))


def tell(said: Mapping[str, Any]) -> str:
    return f"action={said['action']}, content={json.dumps(said.get('content', {}))}"


@tool("test_elicitation", message={"type": "string"})
async def elicitation(given: Mapping[str, Any], call: McpCall, _: object) -> Result:
    fields = {"response": {"type": "string", "description": "User's response"}}
    return text(f"User response: {tell(await elicit(call, given['message'], fields, ['response']))}")


@tool("test_elicitation_sep1034_defaults")
async def defaults(_: object, call: McpCall, __: object) -> Result:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return text(f"Elicitation completed: {tell(await elicit(call, 'Check these.', fields, []))}")


@tool("test_elicitation_sep1330_enums")
async def enums(_: object, call: McpCall, __: object) -> Result:
    plain = ["option1", "option2", "option3"]
    names = ("First", "Second", "Third")
    titled = [{"const": f"value{n}", "title": f"{name} Option"} for n, name in enumerate(names, 1)]
    many = [{"const": f"value{n}", "title": f"{name} Choice"} for n, name in enumerate(names, 1)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": many}},
    }
    return text(f"Elicitation completed: {tell(await elicit(call, 'Choose.', fields, []))}")


@tool("test_missing_capability")
async def missing_capability(_: object, call: McpCall, __: object) -> Result:
    call.require_capability("sampling")
    return text("It is there.")


# The stateless revision: what is needed of a client stands in a result, and its answers in the next request.

NAME = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "What is your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}
CAPITAL = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}],
        "maxTokens": 100,
    },
}
ROOTS: Mapping[str, object] = {"method": "roots/list", "params": {}}


def need(requests: Mapping[str, object], state: str = "") -> Result:
    more = {"requestState": state} if state else {}
    return {"resultType": "input_required", "inputRequests": requests, **more}


def seal(state: Mapping[str, object]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(state).encode())
    return f"{body.decode()}.{hmac.new(KEY, body, hashlib.sha256).hexdigest()}"


def unseal(sealed: object) -> Mapping[str, Any]:
    body, _, mark = str(sealed).partition(".")
    if not hmac.compare_digest(mark, hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest()):
        raise RpcError(INVALID_PARAMS, "This state is not one of this server's.")
    found: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(body))
    return found


def responses(params: Mapping[str, Any]) -> Mapping[str, Any]:
    found = params.get("inputResponses")
    return found if isinstance(found, dict) else {}


def find_content(params: Mapping[str, Any], key: str, field: str) -> str | None:
    """Return a field of a form that was filled in; None where it was not, or with nonsense."""
    given = responses(params).get(key)
    content = given.get("content") if isinstance(given, dict) and given.get("action") == "accept" else None
    found = content.get(field) if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


@tool("test_input_required_result_elicitation")
async def need_name(_: object, __: McpCall, params: Mapping[str, Any]) -> Result:
    name = find_content(params, "user_name", "name")
    return text(f"Hello, {name}!") if name is not None else need({"user_name": NAME})


@tool("test_input_required_result_sampling")
async def need_sampling(_: object, __: McpCall, params: Mapping[str, Any]) -> Result:
    said = responses(params).get("capital_question")
    return text(said["content"]["text"]) if said is not None else need({"capital_question": CAPITAL})


@tool("test_input_required_result_list_roots")
async def need_roots(_: object, __: McpCall, params: Mapping[str, Any]) -> Result:
    said = responses(params).get("client_roots")
    return text(f"{len(said['roots'])} roots") if said is not None else need({"client_roots": ROOTS})


def make_form(message: str, field: str, kind: str = "string") -> Mapping[str, object]:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


@tool("test_input_required_result_request_state")
async def need_confirmation(_: object, __: McpCall, params: Mapping[str, Any]) -> Result:
    if not responses(params):
        return need({"confirm": make_form("Please confirm", "ok", "boolean")}, seal({"round": 1}))
    unseal(params.get("requestState"))
    return text("state-ok")


TOOLS["test_input_required_result_tampered_state"] = TOOLS["test_input_required_result_request_state"]


@tool("test_input_required_result_multiple_inputs")
async def need_many(_: object, __: McpCall, params: Mapping[str, Any]) -> Result:
    said = {"role": "user", "content": {"type": "text", "text": "Generate a greeting"}}
    greeting = {"method": "sampling/createMessage", "params": {"messages": [said], "maxTokens": 50}}
    wanted = {"user_name": NAME, "greeting": greeting, "client_roots": ROOTS}
    if not wanted.keys() <= responses(params).keys():
        return need(wanted, seal({"round": 1}))
    unseal(params.get("requestState"))
    return text(f"Hello, {find_content(params, 'user_name', 'name')}!")


@tool("test_input_required_result_multi_round")
async def need_rounds(_: object, __: McpCall, params: Mapping[str, Any]) -> Result:
    if not responses(params):
        return need({"step1": make_form("Step 1: What is your name?", "name")}, seal({"round": 1}))
    state = unseal(params.get("requestState"))
    if state["round"] == 1:
        name = find_content(params, "step1", "name")
        colour = make_form("Step 2: What is your favorite color?", "color")
        return need({"step2": colour}, seal({"round": 2, "name": name}))
    return text(f"{state['name']} likes {find_content(params, 'step2', 'color')}.")


@tool("test_input_required_result_capabilities")
async def need_supported(_: object, call: McpCall, params: Mapping[str, Any]) -> Result:
    if responses(params):
        return text("Thank you.")
    wanted = {"elicitation": ("user_name", NAME), "sampling": ("capital_question", CAPITAL)}
    return need({key: asked for name, (key, asked) in wanted.items() if name in call.capabilities})


async def serve_resources(params: Raw, call: McpCall) -> Result:
    del params, call
    return {
        "resources": [
            {"uri": "test://static-text", "name": "Static text", "mimeType": "text/plain"},
            {"uri": "test://static-binary", "name": "Static binary", "mimeType": "image/png"},
        ]
    }


async def serve_templates(params: Raw, call: McpCall) -> Result:
    del params, call
    template = {"uriTemplate": "test://template/{id}/data", "name": "Template", "mimeType": "application/json"}
    return {"resourceTemplates": [template]}


async def read_resource(params: Raw, call: McpCall) -> Result:
    del call
    uri = json.loads(bytes(params))["uri"]
    if uri == "test://static-text":
        said = "This is the content of the static text resource."
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": said}]}
    if uri == "test://static-binary":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PIXEL}]}
    if uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.split("/")[3]
        said = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": said}]}
    raise RpcError(INVALID_PARAMS, "Resource not found", {"uri": uri})


async def answer_nothing(params: Raw, call: McpCall) -> Result:
    del params, call
    return {}


PROMPTS: list[Mapping[str, object]] = [
    {"name": "test_simple_prompt", "description": "Simple."},
    {
        "name": "test_prompt_with_arguments",
        "description": "With arguments.",
        "arguments": [{"name": "arg1", "required": True}, {"name": "arg2", "required": True}],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "With a resource.",
        "arguments": [{"name": "resourceUri", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "With a picture."},
    {"name": "test_input_required_result_prompt", "description": "With a question."},
]


async def serve_prompts(params: Raw, call: McpCall) -> Result:
    del params, call
    return {"prompts": PROMPTS}


def speak(*contents: object) -> Result:
    return {"messages": [{"role": "user", "content": one} for one in contents]}


async def get_prompt(raw: Raw, call: McpCall) -> Result:
    del call
    params = json.loads(bytes(raw))
    given = params.get("arguments") or {}
    match params["name"]:
        case "test_simple_prompt":
            return speak({"type": "text", "text": "This is a simple prompt for testing."})
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return speak({"type": "text", "text": said})
        case "test_prompt_with_embedded_resource":
            asked = {"type": "text", "text": "Please process the embedded resource above."}
            return speak(resource(given["resourceUri"]), asked)
        case "test_prompt_with_image":
            picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            return speak(picture, {"type": "text", "text": "Please analyze the image above."})
        case "test_input_required_result_prompt":
            return await need_context(params)
    raise RpcError(INVALID_PARAMS, "There is no such prompt.")


async def need_context(params: Mapping[str, Any]) -> Result:
    said = find_content(params, "user_context", "context")
    if said is not None:
        return speak({"type": "text", "text": f"Use this: {said}"})
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    asked = {"mode": "form", "message": "What context should the prompt use?", "requestedSchema": schema}
    return need({"user_context": {"method": "elicitation/create", "params": asked}})


async def complete(params: Raw, call: McpCall) -> Result:
    del params, call
    return {"completion": {"values": ["test"], "total": 1, "hasMore": False}}


class FixtureTools(ToolMethods):
    """The tools, whose answers may look at everything that comes with a call."""

    async def call_tool(self, params: Raw, call: McpCall) -> Result:
        given = json.loads(bytes(params))
        found = TOOLS.get(given.get("name"))
        if found is None:
            return await super().call_tool(params, call)
        try:
            return await found[0](given.get("arguments") or {}, call, given)
        except ToolError as error:
            return {**text(str(error)), "isError": True}


async def never(arguments: Raw, call: McpCall) -> Result:
    raise NotImplementedError


def build_responder() -> McpResponder:
    listed = [
        ServedTool(name=name, description=f"The fixture {name}.", schema=schema, answer=never)
        for name, (_, schema) in TOOLS.items()
    ]
    tools = FixtureTools(listed)
    methods = {
        "tools/list": tools.list_tools,
        "tools/call": tools.call_tool,
        "resources/list": serve_resources,
        "resources/templates/list": serve_templates,
        "resources/read": read_resource,
        "resources/subscribe": answer_nothing,
        "resources/unsubscribe": answer_nothing,
        "prompts/list": serve_prompts,
        "prompts/get": get_prompt,
        "completion/complete": complete,
        "logging/setLevel": answer_nothing,
    }
    capabilities: Mapping[str, object] = {
        "tools": {},
        "resources": {},
        "prompts": {},
        "completions": {},
        "logging": {},
    }
    return McpResponder(
        McpService(
            name="fixtures", title="Fixtures", version="1", instructions="", capabilities=capabilities, methods=methods
        )
    )


async def main(port: int) -> None:
    responder = build_responder()
    endpoint = McpEndpoint(RequestReader(1 << 20), lambda _: responder, lambda _: "suite")
    application = web.Application()
    application.add_routes(endpoint.routes())

    @web.middleware
    async def guard(request: web.Request, handler: Any) -> web.StreamResponse:
        """Check what the API server checks, apart from the key, which the suite cannot send."""
        if why := server.refusal_reason(request):
            return json_response({"error": why}, 403)
        try:
            response: web.StreamResponse = await handler(request)
        except ApiRequestError as error:
            return json_response(error.body, error.status)
        return response

    application.middlewares.append(guard)
    origins = [f"http://{name}:{port}" for name in ("localhost", "127.0.0.1")]
    server = HttpServer(application, HttpServerLimits(host="127.0.0.1", port=port, connections=64, origins=origins))
    await server.open()
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    try:
        await asyncio.to_thread(sys.stdin.read)  # until who has started it goes away
    finally:
        await server.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
