"""A fake vendor that people sign in to with a subscription: device codes with their quirks, an id token, and models
that answer to a valid token.

The person behind a device code follows a script: `waits` answers before the decision, then `decision`.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.vendors.oauth_server import FakeOAuthServer, _Grant, _Request, _write, _write_json

ACCOUNT = "account-7"
CLAIM = ("https://vendor.example/auth", "account_id")
CLIENT = "client-of-a-person"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class FakeVendor(FakeOAuthServer):
    """The vendor. `heads` and the fields below say what clients have done."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        """What is answered before the decision: `authorization_pending` or `slow_down`, one a question."""
        self.decision = "yes"
        """`yes`, or the error code at the end."""
        self.interval: object = 5
        self.life: object = 900
        self.tells_errors_as_success = False
        """Whether errors of the polling come with status 200."""
        self.refuses_all_tokens = False
        """Whether the models answer 401 to whatever token."""
        self.refusal: Mapping[str, object] = {"error": {"message": "The token has expired.", "code": "token_expired"}}
        self.polls = self.answers = 0
        self.model_headers: list[dict[str, str]] = []
        self._device_codes: dict[str, str] = {}

    async def _answer_client(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        match request.path:
            case "/device/code":
                self._give_device_code(request.form["client_id"], "device_code", writer)
            case "/accounts/usercode":
                self._give_device_code(json.loads(request.body)["client_id"], "device_auth_id", writer)
            case "/accounts/token":
                self._decide_by_status(json.loads(request.body), writer)
            case "/token" if request.form.get("grant_type") == DEVICE_GRANT:
                await self._decide_by_code(request.form, writer)
            case "/v1/responses" | "/v1/chat/completions":
                self._answer_model(request, writer)
            case _:
                await super()._answer_client(request, writer)

    async def _give_tokens(self, form: Mapping[str, str]) -> tuple[int, Mapping[str, object]]:
        status, answer = await super()._give_tokens(form)
        return status, {**answer, "id_token": make_id_token()} if status == 200 else answer

    def _give_device_code(self, client_id: str, field: str, writer: asyncio.StreamWriter) -> None:
        code = secrets.token_urlsafe(16)
        self._device_codes[code] = client_id
        page = {"verification_uri": f"{self.url}/device"} if field == "device_code" else {}
        told = {field: code, "user_code": "WXYZ-1234", "interval": self.interval, "expires_in": self.life, **page}
        _write_json(writer, 200, told)

    def _decide(self) -> str:
        self.polls += 1
        return self.waits.pop(0) if self.waits else self.decision

    async def _decide_by_code(self, form: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        said = self._decide()
        client_id = self._device_codes.get(form["device_code"])
        if client_id != form["client_id"]:
            said = "invalid_grant"
        if said != "yes":
            _write_json(writer, 200 if self.tells_errors_as_success else 400, {"error": said})
            return
        del self._device_codes[form["device_code"]]
        grant = _Grant(client_id, "", "", access=secrets.token_urlsafe(24), refresh=secrets.token_urlsafe(24))
        self._grants.append(grant)
        self.sign_ins += 1
        tokens = {"access_token": grant.access, "refresh_token": grant.refresh, "token_type": "bearer"}
        _write_json(writer, 200, {**tokens, "expires_in": 3_600, "id_token": make_id_token()})

    def _decide_by_status(self, told: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        """Answer as a vendor does that tells by the status, and hands out an authorization code at the end."""
        said = self._decide()
        if said != "yes":
            status = 403 if said == "authorization_pending" else 400
            _write_json(writer, status, {} if status == 403 else {"error": {"code": said, "message": "no"}})
            return
        import hashlib

        verifier, code = secrets.token_urlsafe(32), secrets.token_urlsafe(16)
        proof = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        client_id = self._device_codes.pop(told["device_auth_id"])
        self._codes[code] = _Grant(client_id, "", "", challenge=proof, redirect_uri=f"{self.url}/device/callback")
        _write_json(writer, 200, {"authorization_code": code, "code_verifier": verifier})

    def _answer_model(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        self.model_headers.append(request.headers)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.tokens.append(token)
        if self.refuses_all_tokens or not any(token == grant.access for grant in self._grants if grant.access):
            _write_json(writer, 401, self.refusal)
            return
        self.answers += 1
        events = _RESPONSE if request.path.endswith("responses") else _CHAT
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        _write(writer, 200, {"content-type": "text/event-stream"}, body + b"data: [DONE]\n\n")


_ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
_RESPONSE: list[dict[str, object]] = [
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
    {"type": "response.completed", "response": {"status": "completed", "output": [_ITEM]}},
]
_CHAT: list[dict[str, object]] = [
    {"choices": [{"index": 0, "delta": {"content": "Hello."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def make_id_token() -> str:
    """Return an id token with the account in its claims, signed by nobody."""
    parts = ({"alg": "none"}, {"sub": "someone", CLAIM[0]: {CLAIM[1]: ACCOUNT}})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, "x"])


@asynccontextmanager
async def fake_vendor() -> AsyncIterator[FakeVendor]:
    """Run a fake for the time of a test."""
    server = FakeVendor()
    await server.start()
    try:
        yield server
    finally:
        await server.close()
