"""The vendors of the chat completions format, as data: what each adds to a chunk, and how it differs."""

from hermes.core.outcomes import FailureKind as Kind
from hermes.core.usage import Usage
from tests.torture.streams.chat_stream import ChatVendor
from tests.torture.streams.stream_case import Framing, Json

_SAFE: Json = {word: {"filtered": False, "severity": "safe"} for word in ("hate", "self_harm", "sexual", "violence")}
_NAMED_TWICE = "the SDK joins a name that is repeated in every piece"
_ONE_SLOT = "the SDK takes calls that are all numbered 0 as one"
_LIST = "the SDK expects content to be a string"
_NO_NUMBER = "the SDK needs a number in every piece of a call"


def _error(message: str, kind: str, code: object = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _counts(prompt: int = 100, completion: int = 40, **more: object) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


OPENAI = ChatVendor(
    name="OpenAI",
    provider="openai",
    members={"service_tier": "default", "system_fingerprint": "fp_1", "usage": None, "obfuscation": "k2Qx"},
    choice={"logprobs": None},
    head=({"role": "assistant", "content": "", "refusal": None},),
)
AZURE = ChatVendor(
    name="Azure",
    before=(
        {
            "choices": [],
            "created": 0,
            "id": "",
            "model": "",
            "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _SAFE}],
        },
    ),
    choice={"content_filter_results": _SAFE, "logprobs": None},
    behind=(
        {
            "id": "",
            "object": "",
            "created": 0,
            "model": "",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": None,
                    "content_filter_results": _SAFE,
                    "content_filter_offsets": {"check_offset": 44, "start_offset": 44, "end_offset": 198},
                }
            ],
        },
    ),
    error=(_error("The request was throttled.", "TooManyRequests", "429"), Kind.RATE_LIMIT, "throttled"),
    sdk={"*": "the SDK's helper needs a delta in every choice", "error": ""},
)
GEMINI = ChatVendor(
    name="Gemini",
    provider="gemini",
    model="gemini-2.5-flash",
    delta={"role": "assistant"},
    head=(),
    usage="every",
    calls="whole zero",
    ids=("function-call-1", "function-call-2"),
    finishes={"stop": "stop", "calls": "stop", "length": "length", "filter": "SAFETY"},
    counts=(_counts(prompt_tokens_details={"cached_tokens": 60}), Usage(input=100, output=40, cache_read=60)),
    error=(
        [{"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}],
        Kind.OVERLOADED,
        "overloaded",
    ),
    sdk={
        "parallel calls": _ONE_SLOT,
        "error": "the SDK does not look for an error in a list",
    },
)
MISTRAL = ChatVendor(
    name="Mistral",
    provider="mistral",
    model="magistral-medium-latest",
    members={"p": "abcdef"},
    reasoning="list",
    calls="whole",
    ids=("D681PevKs", "x9Yk2LmQa"),
    usage="with",
    last_delta={"content": ""},
    finishes={"stop": "stop", "calls": "tool_calls", "length": "model_length", "filter": "content_filter"},
    counts=(_counts(), Usage(input=100, output=40)),
    error=(
        {"object": "error", "message": "Service tier capacity exceeded.", "type": "service_tier_capacity_exceeded"},
        Kind.OVERLOADED,
        "capacity exceeded",
    ),
    sdk={"reasoning": _LIST, "reasoning and call": "", "error": "the SDK knows no `object: error`"},
)
DEEPSEEK = ChatVendor(
    name="DeepSeek",
    provider="deepseek",
    model="deepseek-reasoner",
    members={"system_fingerprint": "fp_d", "usage": None},
    choice={"logprobs": None},
    head=({"role": "assistant", "content": None, "reasoning_content": ""},),
    reasoning="reasoning_content",
    usage="with",
    last_delta={"content": "", "reasoning_content": None},
    counts=(
        _counts(prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=36),
        Usage(input=100, output=40, cache_read=64),
    ),
    framing=Framing(between=": keep-alive\n\n"),
    error=(_error("The service is busy.", "service_unavailable_error", "overloaded"), Kind.OVERLOADED, "busy"),
)
GROQ = ChatVendor(
    name="Groq",
    provider="groq",
    members={"system_fingerprint": "fp_g"},
    choice={"logprobs": None},
    reasoning="reasoning",
    usage="x_groq",
    calls="whole",
    ids=("call_3kqp", "fk5ytz9wx"),
    counts=(
        {"queue_time": 0.01, "prompt_time": 0.002, **_counts(), "total_time": 0.1},
        Usage(input=100, output=40),
    ),
    error=(
        _error("Failed to call a function.", "invalid_request_error", "tool_use_failed"),
        Kind.FORMAT_ERROR,
        "Failed to call",
    ),
    error_event="error",
    sdk={},
)
TOGETHER = ChatVendor(
    name="Together",
    provider="together",
    members={"usage": None},
    choice={"text": "", "logprobs": None, "seed": None},
    delta={"token_id": 791, "role": "assistant", "tool_calls": None},
    head=(),
    reasoning="reasoning",
    usage="with",
    finishes={"stop": "eos", "calls": "tool_calls", "length": "length", "filter": "content_filter"},
    last_delta={"content": ""},
    counts=(_counts(cached_tokens=32), Usage(input=100, output=40, cache_read=32)),
)
FIREWORKS = ChatVendor(
    name="Fireworks",
    provider="fireworks",
    members={"usage": None},
    head=({"role": "assistant"},),
    reasoning="reasoning_content",
    usage="with",
    counts=(_counts(prompt_tokens_details={"cached_tokens": 8}), Usage(input=100, output=40, cache_read=8)),
    error=(_error("Internal error: worker lost.", "internal_server_error"), Kind.SERVER_ERROR, "worker lost"),
)
XAI = ChatVendor(
    name="xAI",
    provider="xai",
    members={"system_fingerprint": "fp_x"},
    delta={"role": "assistant"},
    head=(),
    reasoning="reasoning_content",
    usage="after",
    calls="whole",
    counts=(
        {
            **_counts(completion=40),
            "total_tokens": 390,
            "prompt_tokens_details": {"text_tokens": 100, "audio_tokens": 0, "cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 250},
            "num_sources_used": 0,
        },
        Usage(input=100, output=290, cache_read=5, reasoning=250),
    ),
    error=(
        {"code": "Service unavailable", "error": "Service temporarily unavailable. The model is at capacity."},
        Kind.OVERLOADED,
        "at capacity",
    ),
)
OPENROUTER = ChatVendor(
    name="OpenRouter",
    provider="openrouter",
    model="some/model",
    members={"provider": "Some"},
    choice={"native_finish_reason": None, "logprobs": None},
    delta={"role": "assistant"},
    head=({"content": ""},),
    reasoning="details",
    usage="extra",
    framing=Framing(between=": OPENROUTER PROCESSING\n\n"),
    counts=(
        {
            **_counts(),
            "cost": 0.25,
            "is_byok": False,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 7},
            "cost_details": {"upstream_inference_cost": None},
            "completion_tokens_details": {"reasoning_tokens": 9},
        },
        Usage(input=100, output=40, cache_read=60, cache_write=7, reasoning=9, cost_usd=0.25),
    ),
    error=(
        {
            "id": "gen-1",
            "object": "chat.completion.chunk",
            "model": "some/model",
            "provider": "Some",
            "error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "upstream hung up"}},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        },
        Kind.SERVER_ERROR,
        "upstream hung up",
    ),
)
MOONSHOT = ChatVendor(
    name="Moonshot",
    provider="kimi",
    members={"system_fingerprint": "fpv0_1"},
    reasoning="reasoning_content",
    usage="choice",
    ids=("functions.read_file:0", "functions.list_files:1"),
    counts=(_counts(cached_tokens=11), Usage(input=100, output=40, cache_read=11)),
    error=(_error("The engine is currently overloaded.", "engine_overloaded_error"), Kind.OVERLOADED, "overloaded"),
)
GLM = ChatVendor(
    name="GLM",
    provider="glm",
    delta={"role": "assistant"},
    head=(),
    reasoning="reasoning_content",
    usage="with",
    calls="whole",
    finishes={"stop": "stop", "calls": "tool_calls", "length": "length", "filter": "sensitive"},
    last_delta={"content": ""},
    counts=(_counts(prompt_tokens_details={"cached_tokens": 3}), Usage(input=100, output=40, cache_read=3)),
    error=(
        {"error": {"code": "1302", "message": "Rate limit reached for requests"}},
        Kind.RATE_LIMIT,
        "Rate limit reached",
    ),
)
QWEN = ChatVendor(
    name="Qwen",
    provider="qwen",
    members={"usage": None, "system_fingerprint": None},
    choice={"logprobs": None},
    head=({"content": None, "reasoning_content": "", "role": "assistant"},),
    reasoning="reasoning_content",
    calls="empty",
    counts=(_counts(prompt_tokens_details={"cached_tokens": 60}), Usage(input=100, output=40, cache_read=60)),
    error=(
        {
            "error": {
                "code": "data_inspection_failed",
                "param": None,
                "message": "Output data may contain inappropriate content.",
                "type": "data_inspection_failed",
            },
            "id": "chatcmpl-1",
            "request_id": "1",
        },
        Kind.CONTENT_POLICY,
        "inappropriate content",
    ),
)
MINIMAX = ChatVendor(
    name="MiniMax",
    provider="minimax",
    members={"base_resp": {"status_code": 0, "status_msg": ""}, "input_sensitive": False, "usage": None},
    delta={"role": "assistant", "name": "MiniMax AI", "audio_content": ""},
    head=(),
    reasoning="only details",
    usage="with",
    counts=(
        {**_counts(), "total_characters": 0, "completion_tokens_details": {"reasoning_tokens": 9}},
        Usage(input=100, output=40, reasoning=9),
    ),
    error=(
        {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit, please try later"}},
        Kind.RATE_LIMIT,
        "rate limit",
    ),
    sdk={"error": "the SDK knows no `base_resp`"},
)
OLLAMA = ChatVendor(
    name="Ollama",
    provider="ollama",
    members={"system_fingerprint": "fp_ollama"},
    delta={"role": "assistant", "content": ""},
    head=(),
    reasoning="reasoning",
    calls="whole",
    counts=(_counts(), Usage(input=100, output=40)),
    error=(
        _error("an error was encountered while running the model", "api_error"),
        Kind.SERVER_ERROR,
        "while running the model",
    ),
)
LLAMACPP = ChatVendor(
    name="llama.cpp",
    provider="llamacpp",
    members={"system_fingerprint": "b6523-3913f873"},
    head=({"role": "assistant", "content": None},),
    reasoning="reasoning_content",
    counts=(_counts(prompt_tokens_details={"cached_tokens": 50}), Usage(input=100, output=40, cache_read=50)),
    error=(
        {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}},
        Kind.CONTEXT_OVERFLOW,
        "Context size",
    ),
)
VLLM = ChatVendor(
    name="vLLM",
    provider="vllm",
    members={"prompt_token_ids": None},
    choice={"logprobs": None, "token_ids": None, "stop_reason": None},
    reasoning="both",
    ids=("chatcmpl-tool-c9ZCzB9b9Nik", "chatcmpl-tool-HfzZPEVfQgvg"),
    counts=(_counts(), Usage(input=100, output=40)),
    error=(
        {"object": "error", "message": "EngineCore died.", "type": "InternalServerError", "param": None, "code": 500},
        Kind.SERVER_ERROR,
        "EngineCore died",
    ),
    sdk={"error": "the SDK knows no `object: error`"},
)
LM_STUDIO = ChatVendor(
    name="LM Studio",
    provider="lmstudio",
    members={"system_fingerprint": "some-model"},
    choice={"logprobs": None},
    delta={"role": "assistant"},
    head=(),
    reasoning="reasoning",
    ids=("365174485", "365174486"),
    counts=(_counts(), Usage(input=100, output=40)),
    error=({"error": {"message": "The model has crashed."}}, Kind.UNKNOWN, "model has crashed"),
    error_event="error",
)
SGLANG = ChatVendor(
    name="SGLang",
    choice={"logprobs": None, "matched_stop": None},
    delta={"role": None, "content": None, "reasoning_content": None, "tool_calls": None},
    reasoning="reasoning_content",
    calls="pieces",
    counts=(_counts(prompt_tokens_details=None, reasoning_tokens=0), Usage(input=100, output=40)),
    error=(
        {"error": {"object": "error", "message": "Out of memory.", "type": "InternalServerError", "code": 500}},
        Kind.SERVER_ERROR,
        "Out of memory",
    ),
)
TGI = ChatVendor(
    name="TGI",
    members={"system_fingerprint": "3.3.4-sha", "usage": None},
    choice={"logprobs": None},
    delta={"role": "assistant"},
    head=(),
    calls="object",
    usage="after",
    ids=("0", "1"),
    framing=Framing(space="", between=":\n\n"),
    finishes={"stop": "eos_token", "calls": "tool_calls", "length": "length", "filter": "content_filter"},
    counts=(_counts(), Usage(input=100, output=40)),
    error=({"error": "Model is overloaded", "error_type": "overloaded"}, Kind.OVERLOADED, "Model is overloaded"),
    error_event="error",
    sdk={
        "call": "the SDK expects a list of calls",
        "parallel calls": "the SDK expects a list of calls",
        "text and call": "the SDK expects a list of calls",
        "call without arguments": "the SDK expects a list of calls",
        "length within a call": "the SDK expects a list of calls",
        "error within a call": "the SDK expects a list of calls",
    },
)
LITELLM = ChatVendor(
    name="LiteLLM",
    members={"citations": None},
    choice={"logprobs": None},
    delta={"provider_specific_fields": None, "function_call": None, "audio": None},
    head=({"role": "assistant", "content": "", "tool_calls": None},),
    reasoning="reasoning_content",
    usage="extra",
    error=(_error("litellm.APIConnectionError: OpenAIException", "None", "500"), Kind.SERVER_ERROR, "APIConnection"),
)
CLOUDFLARE = ChatVendor(
    name="Cloudflare",
    members={"p": "abdefghijklm"},
    choice={"logprobs": None},
    calls="whole unnumbered",
    usage="after",
    counts=(_counts(), Usage(input=100, output=40)),
    error=(
        {"errors": [{"message": "Capacity temporarily exceeded", "code": 3040}], "success": False, "result": {}},
        Kind.OVERLOADED,
        "Capacity temporarily exceeded",
    ),
    sdk={
        "call": _NO_NUMBER,
        "parallel calls": _NO_NUMBER,
        "text and call": _NO_NUMBER,
        "call without arguments": _NO_NUMBER,
        "length within a call": _NO_NUMBER,
        "error": "the SDK knows no list of errors",
    },
)
BEDROCK = ChatVendor(
    name="Bedrock",
    model="openai.gpt-oss-120b-1:0",
    members={"service_tier": "default", "usage": None},
    choice={"logprobs": None},
    error=(
        {"message": "Too many requests, please wait before trying again."},
        Kind.RATE_LIMIT,
        "Too many requests",
    ),
    error_event="exception",
    sdk={"error": "the SDK knows no bare message"},
)
LMDEPLOY = ChatVendor(
    name="LMDeploy",
    reasoning="reasoning_content",
    calls="zero",
    ids=("chatcmpl-tool-1aB", "chatcmpl-tool-2cD"),
    usage="with",
    counts=(_counts(), Usage(input=100, output=40)),
    sdk={"parallel calls": _ONE_SLOT},
)
PERPLEXITY = ChatVendor(
    name="Perplexity",
    members={"citations": ["https://example.org"], "search_results": []},
    delta={"role": "assistant"},
    cumulative=True,
    head=(),
    usage="with",
    last_delta={"content": ""},
    counts=(_counts(search_context_size="low", cost={"total_cost": 0.006}), Usage(input=100, output=40)),
)
NVIDIA = ChatVendor(
    name="NVIDIA NIM",
    reasoning="reasoning_content",
    calls="repeated",
    usage="with",
    counts=(_counts(), Usage(input=100, output=40)),
    error=({"error": "Inference connection error"}, Kind.UNKNOWN, "Inference connection error"),
    sdk={
        "call": _NAMED_TWICE,
        "parallel calls": _NAMED_TWICE,
        "text and call": _NAMED_TWICE,
        "call without arguments": _NAMED_TWICE,
        "length within a call": _NAMED_TWICE,
        "reasoning and call": _NAMED_TWICE,
    },
)
VENDORS = (
    OPENAI,
    AZURE,
    GEMINI,
    MISTRAL,
    DEEPSEEK,
    GROQ,
    TOGETHER,
    FIREWORKS,
    XAI,
    OPENROUTER,
    MOONSHOT,
    GLM,
    QWEN,
    MINIMAX,
    OLLAMA,
    LLAMACPP,
    VLLM,
    LM_STUDIO,
    SGLANG,
    TGI,
    LITELLM,
    CLOUDFLARE,
    BEDROCK,
    LMDEPLOY,
    PERPLEXITY,
    NVIDIA,
)
