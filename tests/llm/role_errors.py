"""What chat templates and validators say of the order of roles, as servers really send it; see `vendor_errors.Case`."""

from hermes.core.outcomes import FailureKind as Kind
from tests.llm.vendor_errors import ALL, BOTH, CHAT, MESSAGES, Case, anthropic, google, openai


def llama_cpp(said: str) -> dict[str, object]:
    """A fault that a chat template raises, as llama-server tells it."""
    where = "\n------------\nWhile executing CallExpression at line 19, column 27 in source:\n...== 0) %}"
    return {"error": {"code": 500, "message": f"{where}\nError: Jinja Exception: {said}", "type": "server_error"}}


def lm_studio(said: str) -> dict[str, object]:
    text = (
        f'Error rendering prompt with jinja template: "{said}".\n\nThis is usually an issue with the model\'s template.'
    )
    return openai(text)


def mistral(said: str, code: str, kind: str) -> dict[str, object]:
    return {"object": "error", "message": said, "type": kind, "param": None, "code": code}


def vllm(said: str) -> dict[str, object]:
    return {"object": "error", "message": said, "type": "BadRequestError", "param": None, "code": 400}


ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
EXCEPT_TOOLS = (
    "After the optional system message, conversation roles must alternate user and assistant roles except for tool "
    "calls and results."
)
ONLY_TWO = "Only user and assistant roles are supported, with the exception of an initial optional system message!"
SUCCESSIVE = (
    "deepseek-reasoner does not support successive user or assistant messages (messages[1] and messages[2] in your "
    "input). You should interleave the user/assistant messages in the message sequence."
)
LAST = (
    "The last message of deepseek-reasoner must be a user message, or an assistant message with prefix mode on (refer "
    "to https://api-docs.deepseek.com/guides/chat_prefix_completion)."
)
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
GEMINI = "Please ensure that multiturn requests alternate between user and model."
DEVELOPER = "Developer instruction is not enabled for models/gemma-3-27b-it"
UNKNOWN_TOOL = "messages[2].role: unknown variant `tool`, expected one of `system`, `user`, `assistant`"
NOT_BOTH = "Assistant message must have either content or tool_calls, but not both."
EMPTY = "Invalid request: the message at position 3 with role 'assistant' must not be empty"
NOT_BACK = "The `reasoning_content` in the thinking mode must be passed back to the API."
NO_THOUGHT = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
ORDER = "invalid_request_message_order"

ROLE_ERRORS: tuple[Case, ...] = (
    Case(Kind.ROLE_ORDER, "llama.cpp", 500, llama_cpp(ALTERNATE), "idiap/sdialog#122"),
    Case(Kind.ROLE_ORDER, "llama.cpp, Devstral", 500, llama_cpp(EXCEPT_TOOLS), "ggml-org/llama.cpp#19851", ALL),
    Case(
        Kind.ROLE_ORDER,
        "llama.cpp, prefill",
        400,
        openai("Assistant response prefill is incompatible with enable_thinking."),
        "ggml-org/llama.cpp#20861",
        BOTH,
    ),
    Case(Kind.ROLE_ORDER, "vLLM", 400, vllm(ALTERNATE), "unchecked: transformers' templates", (CHAT,)),
    Case(
        Kind.ROLE_ORDER,
        "Mistral",
        400,
        mistral("Unexpected role 'user' after role 'tool'", "3230", ORDER),
        "mistral-common: protocol/instruct/validator.py",
        (CHAT,),
    ),
    Case(Kind.ROLE_ORDER, "Mistral, by code", 400, mistral("Bad order", "3230", ORDER), "made", (CHAT,)),
    Case(Kind.ROLE_ORDER, "DeepSeek", 400, openai(SUCCESSIVE), "deepseek-ai/DeepSeek-R1#21", (CHAT,)),
    Case(Kind.ROLE_ORDER, "DeepSeek, last", 400, openai(LAST), "unchecked: DeepSeek's API", (CHAT,)),
    Case(Kind.ROLE_ORDER, "LM Studio", 400, lm_studio("No user query found in messages."), "lmstudio-bug-tracker#1586"),
    Case(Kind.ROLE_ORDER, "Kimi", 400, openai(EMPTY), "unchecked: Moonshot's API", (CHAT,)),
    Case(
        Kind.ROLE_ORDER,
        "Anthropic",
        400,
        anthropic("invalid_request_error", NO_PREFILL),
        "unchecked: Anthropic's API",
        (MESSAGES,),
    ),
    Case(Kind.ROLE_ORDER, "Google", 400, google(400, GEMINI, "INVALID_ARGUMENT"), "unchecked: Gemini's API", (CHAT,)),
    Case(Kind.SYSTEM_ROLE, "llama.cpp, Gemma", 500, llama_cpp("System role not supported"), "arcee-ai/fastmlx#22"),
    Case(
        Kind.SYSTEM_ROLE, "Google", 400, google(400, DEVELOPER, "INVALID_ARGUMENT"), "unchecked: Gemini's API", (CHAT,)
    ),
    Case(
        Kind.TOOL_ROLE,
        "LM Studio",
        400,
        lm_studio("Only user and assistant roles are supported!"),
        "lmstudio-ai/lmstudio-bug-tracker#1054",
    ),
    Case(Kind.TOOL_ROLE, "llama.cpp, Mistral", 500, llama_cpp(ONLY_TWO), "unchecked: Mistral's template"),
    Case(Kind.TOOL_ROLE, "a Rust server", 422, openai(UNKNOWN_TOOL), "made", (CHAT,)),
    Case(Kind.REASONING_MISSING, "DeepSeek", 400, openai(NOT_BACK), "unchecked: DeepSeek's API"),
    Case(Kind.REASONING_MISSING, "Kimi", 400, openai(NO_THOUGHT), "unchecked: Moonshot's API", (CHAT,)),
    Case(
        Kind.PARALLEL_CALLS,
        "llama.cpp, Llama",
        500,
        llama_cpp("This model only supports single tool-calls at once!"),
        "unchecked: Llama 3.1's template",
    ),
    Case(Kind.CALLS_WITH_TEXT, "vLLM, Mistral", 400, vllm(NOT_BOTH), "mistral-common: protocol/instruct/validator.py"),
)
