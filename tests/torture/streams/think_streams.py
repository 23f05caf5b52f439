"""Streams whose thoughts stand in the text, in tags; tags are cut anywhere, and answers are about tags."""

from collections.abc import Iterator

from hermes.core.messages import FinishReason
from hermes.core.outcomes import FailureKind
from tests.torture.streams.chat_stream import CALL, ChatStream, ChatVendor
from tests.torture.streams.stream_case import StreamCase

_SERVER = ChatVendor(name="tags", usage="none")
_HARMONY = "<|channel|>analysis<|message|>hm 🙂\nso<|end|><|start|>assistant<|channel|>final<|message|>Yes."
THOUGHT: dict[str, tuple[str, str, str]] = {
    "think": ("<think>hm 🙂\nso</think>\n\nYes.", "hm 🙂\nso", "Yes."),
    "blank first": ("\n <think>\nhm\n</think>\nYes.", "\nhm\n", "Yes."),
    "empty": ("<think>\n\n</think>\n\nYes.", "\n\n", "Yes."),
    "thinking": ("<thinking>hm 🙂\nso</thinking>Yes.", "hm 🙂\nso", "Yes."),
    "thinking, other end": ("<thinking>hm 🙂\nso</think>Yes.", "hm 🙂\nso", "Yes."),
    "thought": ("<thought>hm 🙂\nso</thought>Yes.", "hm 🙂\nso", "Yes."),
    "reasoning": ("<reasoning>hm 🙂\nso</reasoning>Yes.", "hm 🙂\nso", "Yes."),
    "seed": ("<seed:think>hm 🙂\nso</seed:think>Yes.", "hm 🙂\nso", "Yes."),
    "magistral": ("[THINK]hm 🙂\nso[/THINK]Yes.", "hm 🙂\nso", "Yes."),
    "harmony": (_HARMONY, "hm 🙂\nso", "Yes."),
    "gemma": ("<|channel>thought\nhm<channel|>Yes.", "\nhm", "Yes."),
    "half tags inside": ("<think>a </thin </think b < c\n</think>Yes.", "a </thin </think b < c\n", "Yes."),
    "tags behind": ("<think>hm\n</think>Use `<think>x</think>`.", "hm\n", "Use `<think>x</think>`."),
    "code behind": ("<think>hm\n</think>```\n<think>\n```", "hm\n", "```\n<think>\n```"),
}
WHOLE = {
    "in the middle": "Use <think>x</think> here.",
    "in code": "```\n<think>x</think>\n```",
    "quoted": "`<think>` opens, `</think>` ends.",
    "a sentence": "<think> and </think> are tags.",
    "a list": "<think>, </think>: tags.",
    "an end alone": "</think> ends it.",
    "another tag": "<thinker>x</thinker>",
    "less than": "< 5 and [1]",
    "brackets": "[THIN](http://x)",
    "only blanks": " \n ",
    "never ended": "<think> is a tag that models write",
}


def list_think_streams() -> Iterator[StreamCase]:
    """Yield all of them."""
    for name, (content, thought, text) in THOUGHT.items():
        for size in (1, 4, 1000):
            yield (
                _stream(content, size)
                .finish("stop")
                .build("think tags", name=f"{name}, {size}", text=text, reasoning=thought, is_stepwise=False)
                .replace(has_sdk=False)
            )
    for name, content in WHOLE.items():
        for size in (1, 5):
            yield (
                _stream(content, size)
                .finish("stop")
                .build("about tags", name=f"{name}, {size}", text=content, reasoning="", is_stepwise=False)
                .replace(has_sdk=False)
            )
    yield (
        _stream("<think>hm, and so", 4)
        .finish("length")
        .build(
            "think tags", FinishReason.LENGTH, "cut at the length", text="", reasoning="hm, and so", is_stepwise=False
        )
        .replace(has_sdk=False)
    )
    yield (
        _stream("<think>hm, and so", 4)
        .build("think tags", name="cut", text="", reasoning="hm, and so", is_stepwise=False, failure=FailureKind.CUT)
        .replace(has_sdk=False)
    )
    yield (
        _stream("<think>hm\n</think>\n\n", 4)
        .add_calls(CALL)
        .finish("calls")
        .build("think tags", name="before a call", text="", reasoning="hm\n", is_stepwise=False)
        .replace(has_sdk=False)
    )
    yield (
        _stream("<think>hm", 4)
        .add_calls(CALL)
        .finish("calls")
        .build("think tags", name="open before a call", text="", reasoning="hm", is_stepwise=False)
        .replace(has_sdk=False)
    )
    opened = ChatVendor(name="tags", usage="none", model="deepseek-r1")
    for size in (1, 6):
        yield (
            _stream("Okay, so\n</think>\n\nYes.", size, opened)
            .finish("stop")
            .build(
                "think tags",
                name=f"opened by the template, {size}",
                text="Yes.",
                reasoning="Okay, so\n",
                is_stepwise=False,
            )
            .replace(has_sdk=False)
        )


def _stream(content: str, size: int, vendor: ChatVendor = _SERVER) -> ChatStream:
    return ChatStream(vendor).add_text(*(content[at : at + size] for at in range(0, len(content), size)))
