"""The services that make pictures, on one loopback server: OpenAI's images, FAL's queue, OpenRouter's chat.

Sources of the shapes: the openai client 3.52, which judges that part; fal-client 1.0; OpenRouter's page on image
generation.
"""

import asyncio
import base64
import json
from dataclasses import dataclass, field

from aiohttp import web

Json = dict[str, object]


@dataclass
class Asked:
    """A request as it arrived: the fields of a form stand in `body`, its files in `files`."""

    path: str
    body: Json
    files: list[tuple[str, str, bytes]] = field(default_factory=list)


@dataclass
class PictureMakers:
    """Makes `picture` for everybody who has `key`."""

    key: str
    picture: bytes
    asked: list[Asked] = field(default_factory=list)
    status: int = 200
    refusal: str = ""
    """A prompt with this word is refused for what it would show."""
    gives_address: bool = False
    """Whether the picture is named by an address."""
    looks: int = 1
    """How often a job is looked at before it is done; -1: it never is."""
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a job was looked at."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    only_images: bool = False
    """Whether the chat's model gives pictures and no text."""
    job_base: str = ""
    """Where a job's addresses are said to be; empty: here."""

    def list_routes(self) -> list[web.AbstractRouteDef]:
        """Return the server's routes."""
        return [
            web.post("/v1/images/generations", self._openai),
            web.post("/v1/images/edits", self._openai),
            web.post("/chat/completions", self._chat),
            web.get("/files/made.png", self._file),
            web.get("/fal-ai/{app}/requests/{job}/status", self._job_status),
            web.get("/fal-ai/{app}/requests/{job}", self._job_result),
            web.put("/fal-ai/{app}/requests/{job}/cancel", self._job_cancel),
            web.post("/fal-ai/{model:.+}", self._job_begin),
        ]

    def _check(self, request: web.Request, scheme: str) -> web.Response | None:
        if request.headers.get("authorization") != f"{scheme} {self.key}":
            body = {"error": {"message": f"Incorrect API key: {request.headers.get('authorization')}"}}
            return web.json_response(body, status=401)
        return web.json_response({"error": {"message": "no"}}, status=self.status) if self.status != 200 else None

    async def _openai(self, request: web.Request) -> web.Response:
        body: Json = {}
        files: list[tuple[str, str, bytes]] = []
        if request.content_type == "application/json":
            body = await request.json()
        else:
            for name, value in (await request.post()).items():
                if isinstance(value, web.FileField):
                    files.append((name, value.content_type, value.file.read()))
                elif isinstance(value, str):
                    body[name] = value
        self.asked.append(Asked(request.path, body, files))
        if (refused := self._check(request, "Bearer")) is not None:
            return refused
        if self.refusal and self.refusal in str(body["prompt"]):
            said = "Your request was rejected by the safety system. safety_violations=[violence]."
            error = {
                "message": said,
                "type": "image_generation_user_error",
                "param": None,
                "code": "moderation_blocked",
            }
            return web.json_response({"error": error}, status=400)
        made: Json = {"b64_json": base64.b64encode(self.picture).decode()}
        if self.gives_address:
            made = {"url": f"{request.url.origin()}/files/made.png"}
        details = {"image_tokens": 0, "text_tokens": 9}
        usage = {
            "input_tokens": 9, "input_tokens_details": details, "output_tokens": 1056, "total_tokens": 1065,
            "output_tokens_details": {"image_tokens": 1056, "text_tokens": 0},
        }  # fmt: skip
        about = {"created": 1764300000, "size": body.get("size", "auto"), "output_format": "png", "quality": "high"}
        return web.json_response({**about, "background": "opaque", "data": [made], "usage": usage})

    async def _file(self, request: web.Request) -> web.Response:
        self.asked.append(Asked(request.path, {"authorization": request.headers.get("authorization", "")}))
        return web.Response(body=self.picture, content_type="image/png")

    async def _chat(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        self.asked.append(Asked(request.path, body))
        if (refused := self._check(request, "Bearer")) is not None:
            return refused
        if self.only_images and body["modalities"] != ["image"]:
            said = "No endpoints found that support the requested output modalities: image, text"
            return web.json_response({"error": {"message": said, "code": 404}}, status=404)
        message: Json = {"role": "assistant", "content": "Here it is."}
        choice: Json = {"index": 0, "finish_reason": "stop", "native_finish_reason": "STOP", "message": message}
        if self.refusal and self.refusal in str(body["messages"]):
            choice |= {"native_finish_reason": "IMAGE_SAFETY", "message": {"role": "assistant", "content": ""}}
        else:
            url = f"data:image/png;base64,{base64.b64encode(self.picture).decode()}"
            message["images"] = [{"type": "image_url", "index": 0, "image_url": {"url": url}}]
        usage = {"prompt_tokens": 9, "completion_tokens": 1290, "total_tokens": 1299, "cost": 0.0387}
        about = {"id": "gen-1", "object": "chat.completion", "created": 1764300000, "model": body["model"]}
        return web.json_response({**about, "choices": [choice], "usage": usage})

    async def _job_begin(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        self.asked.append(Asked(request.path, body))
        if (refused := self._check(request, "Key")) is not None:
            return refused
        if self.refusal and self.refusal in str(body["prompt"]):
            said = "The content could not be processed because it contained material flagged by a content checker."
            detail = [{"loc": ["body", "prompt"], "msg": said, "type": "content_policy_violation"}]
            return web.json_response({"detail": detail}, status=422)
        app = "/".join(request.path.split("/")[1:3])
        base = f"{self.job_base or request.url.origin()}/{app}/requests/job-1"
        urls = {"response_url": base, "status_url": f"{base}/status", "cancel_url": f"{base}/cancel"}
        return web.json_response({"status": "IN_QUEUE", "request_id": "job-1", "queue_position": 0, **urls})

    async def _job_status(self, request: web.Request) -> web.Response:
        self.asked.append(Asked(request.path, {}))
        self.looked.set()
        if self.looks:
            self.looks -= 1
            return web.json_response({"status": "IN_PROGRESS", "request_id": "job-1", "logs": None})
        return web.json_response({"status": "COMPLETED", "request_id": "job-1", "logs": None, "metrics": {}})

    async def _job_result(self, request: web.Request) -> web.Response:
        image = {"url": f"{request.url.origin()}/files/made.png", "content_type": "image/png", "file_name": "made.png"}
        return web.json_response({"images": [image], "description": ""})

    async def _job_cancel(self, request: web.Request) -> web.Response:
        self.cancelled.set()
        return web.json_response({"status": "CANCELLATION_REQUESTED"}, status=202)
