"""The rules of chat templates and validators about roles, as optional strictness of a scripted server.

`ScriptedServer(model, strict="mistral")` refuses what that server refuses, with its sentence and status:

    mistral             Mistral's API: mistral-common's validator
    devstral, ministral the templates of Mistral's newer and older models, in llama.cpp
    gemma, llama, qwen  the templates of those models, in llama.cpp
    deepseek            DeepSeek's API

A rule set is a value, so a test may make its own. Sources: mistral-common (`protocol/instruct/validator.py`), and the
sentences that the models' templates raise. Only chat completions have rules; the other formats are converted first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from hermes.testing.conversation import as_list, as_object
from hermes.testing.recorded import JsonObject, RecordedRequest
from hermes.testing.script import Fail

_Messages = Sequence[Mapping[str, object]]


_ONLY_TWO_ROLES = (
    "Only user and assistant roles are supported, with the exception of an initial optional system message!"
)


class Alternation(StrEnum):
    """Which messages must be the user's and the assistant's by turns."""

    NONE = "none"
    NEIGHBOURS = "neighbours"
    """No two of one role side by side, wherever tools stand."""
    TEXTS = "texts"
    """All but calls and results."""
    ALL = "all"
    """All but a system prompt; `tool` counts as an assistant that follows one."""


class RefusalForm(StrEnum):
    """How a server words what a template raises."""

    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"
    LM_STUDIO = "lmstudio"
    TGI = "tgi"
    MISTRAL = "mistral"
    OPENAI = "openai"


class TemplateRules(Struct, frozen=True, kw_only=True):
    """What a server's template or validator refuses; the defaults refuse nothing."""

    form: RefusalForm = RefusalForm.LLAMA_CPP
    alternation: Alternation = Alternation.NONE
    user_after_tool: bool = True
    user_first: bool = False
    """Whether the first message behind the system prompt must be the user's."""
    ends_in_assistant: bool = True
    """Whether a request may end in an assistant's message."""
    system: bool = True
    tools: bool = True
    """Whether there is a role `tool`."""
    empty: bool = True
    """Whether a message may have neither content nor calls."""
    text_only: bool = False
    """Whether content must be a string."""
    parallel_calls: bool = True
    calls_with_text: bool = True
    reasoning: str = ""
    """The field that every assistant message must have."""

    def find_refusal(self, request: RecordedRequest) -> Fail | None:
        """Return the refusal of a chat request; None when it is taken."""
        if request.wire != "chat_completions":
            return None
        said = next(self._list_faults(request.json), "")
        return _refuse(said, self.form) if said else None

    def _list_faults(self, body: JsonObject) -> Iterator[str]:
        messages = [as_object(entry) for entry in as_list(body.get("messages"))]
        rest = messages[1:] if messages and messages[0].get("role") == "system" else messages
        if not self.system and len(rest) < len(messages):
            yield "System role not supported"
        if any(message.get("role") == "system" for message in rest):
            yield "System message must be at the beginning."
        if not self.tools and any(message.get("role") == "tool" for message in rest):
            yield _ONLY_TWO_ROLES
        yield from self._check_order(rest)
        for message in rest:
            yield from self._check_message(message)

    def _check_order(self, messages: _Messages) -> Iterator[str]:
        roles = [str(message.get("role")) for message in messages]
        if self.user_first and roles and roles[0] != "user":
            yield "No user query found in messages."
        for before, role in pairwise(roles):
            if not self.user_after_tool and (before, role) == ("tool", "user"):
                yield "Unexpected role 'user' after role 'tool'"
        if not self.ends_in_assistant and roles and roles[-1] == "assistant":
            yield _ENDINGS.get(self.form, "Assistant response prefill is incompatible with enable_thinking.")
        yield from _ALTERNATIONS[self.alternation](messages)

    def _check_message(self, message: Mapping[str, object]) -> Iterator[str]:
        calls, content = as_list(message.get("tool_calls")), message.get("content")
        if not calls and not content and not self.empty:
            yield "Assistant message must have either content or tool_calls, but not none."
        if len(calls) > 1 and not self.parallel_calls:
            yield "This model only supports single tool-calls at once!"
        if calls and content and not self.calls_with_text:
            yield "Assistant message must have either content or tool_calls, but not both."
        yield from self._check_fields(message)

    def _check_fields(self, message: Mapping[str, object]) -> Iterator[str]:
        if self.text_only and not isinstance(message.get("content"), str | None):
            yield "messages: content must be a string"
        if self.reasoning and message.get("role") == "assistant" and not message.get(self.reasoning):
            yield f"The `{self.reasoning}` in the thinking mode must be passed back to the API."


def _check_all(messages: _Messages) -> Iterator[str]:
    for index, message in enumerate(messages):
        if (message.get("role") == "user") != (index % 2 == 0):
            yield "Conversation roles must alternate user/assistant/user/assistant/..."


def _check_texts(messages: _Messages) -> Iterator[str]:
    texts = [one for one in messages if one.get("role") != "tool" and not one.get("tool_calls")]
    for _ in _check_all(texts):
        yield (
            "After the optional system message, conversation roles must alternate user and assistant roles except for "
            "tool calls and results."
        )


def _check_neighbours(messages: _Messages) -> Iterator[str]:
    for index, (one, other) in enumerate(pairwise(messages)):
        if one.get("role") == other.get("role") != "tool":
            yield (
                f"deepseek-reasoner does not support successive user or assistant messages (messages[{index}] and "
                f"messages[{index + 1}] in your input). You should interleave the user/assistant messages in the "
                "message sequence."
            )


_ALTERNATIONS: Mapping[Alternation, Callable[[_Messages], Iterator[str]]] = {
    Alternation.NONE: lambda _: iter(()),
    Alternation.ALL: _check_all,
    Alternation.TEXTS: _check_texts,
    Alternation.NEIGHBOURS: _check_neighbours,
}
_ENDINGS = {
    RefusalForm.MISTRAL: (
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
    ),
    RefusalForm.VLLM: (
        "Cannot set `add_generation_prompt` to True when the last message is from the assistant. Consider using "
        "`continue_final_message` instead."
    ),
    RefusalForm.OPENAI: (
        "The last message of deepseek-reasoner must be a user message, or an assistant message with prefix mode on."
    ),
}


def _refuse(said: str, form: RefusalForm) -> Fail:
    """Return the answer of a server of this kind."""
    match form:
        case RefusalForm.LLAMA_CPP if "prefill" not in said:
            where = "\n------------\nWhile executing CallExpression at line 19, column 27 in source:\n"
            error = {"code": 500, "message": f"{where}Error: Jinja Exception: {said}", "type": "server_error"}
            return Fail(500, body={"error": error})
        case RefusalForm.LLAMA_CPP:
            return Fail(400, body={"error": {"code": 400, "message": said, "type": "invalid_request_error"}})
        case RefusalForm.MISTRAL:
            kind = "invalid_request_message_order"
            return Fail(400, body={"object": "error", "message": said, "type": kind, "param": None, "code": "3230"})
        case RefusalForm.VLLM:
            error = {"message": said, "type": "BadRequestError", "param": None, "code": 400}
            return Fail(400, body={"error": error})
        case RefusalForm.TGI:
            return Fail(422, body={"error": f"Template error: {said}", "error_type": "template_error"})
        case RefusalForm.LM_STUDIO:
            usual = "This is usually an issue with the model's prompt template."
            return Fail(400, body={"error": f'Error rendering prompt with jinja template: "{said}".\n\n{usual}'})
        case _:
            return Fail(400, message=said)


NAMED_RULES: Mapping[str, TemplateRules] = {
    "mistral": TemplateRules(form=RefusalForm.MISTRAL, user_after_tool=False, ends_in_assistant=False, empty=False),
    "devstral": TemplateRules(alternation=Alternation.TEXTS),
    "ministral": TemplateRules(alternation=Alternation.ALL, tools=False),
    "gemma": TemplateRules(alternation=Alternation.ALL, tools=False, system=False),
    "llama": TemplateRules(parallel_calls=False),
    "qwen": TemplateRules(user_first=True, ends_in_assistant=False),
    "deepseek": TemplateRules(
        form=RefusalForm.OPENAI,
        alternation=Alternation.NEIGHBOURS,
        ends_in_assistant=False,
        reasoning="reasoning_content",
    ),
}
