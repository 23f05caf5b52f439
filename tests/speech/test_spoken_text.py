"""What of an answer is read aloud."""

import pytest

from hermes.speech.spoken_text import guess_language, make_spoken_text

ANSWER = """# The plan

Buy **milk** and see [the shop](https://shop.example/a?b=c) (https://shop.example) 🎉.

```python
print("no")
```

1. First, call Anna
2. Then `cook`

| a | b |
|---|---|
| 1 | 2 |

![a picture](/tmp/x.png)
"""


def test_code_links_and_tables_are_left_out() -> None:
    spoken = make_spoken_text(ANSWER, 2_000)
    assert spoken.text == (
        "The plan.\nBuy milk and see the shop.\n1. First, call Anna.\n2. Then cook.\n"
        "What cannot be read aloud, such as code, is in the text."
    )
    assert not spoken.was_cut


def test_a_long_answer_is_cut_at_a_sentence() -> None:
    spoken = make_spoken_text("One sentence here. " * 40, 100)
    assert spoken.was_cut
    assert (
        spoken.text == "One sentence here. One sentence here. One sentence here. One sentence here. "
        "One sentence here.\nThe rest is in the text."
    )
    assert make_spoken_text("word " * 100, 52).text.startswith("word word word")
    assert make_spoken_text("字" * 100, 50).text.startswith("字" * 50)


@pytest.mark.parametrize("silent", ["", "```\nx = 1\n```", "https://example.org/a", "🎉", "---", "![](a.png)"])
def test_what_holds_no_words_is_not_spoken(silent: str) -> None:
    assert make_spoken_text(silent, 100).text == ""


def test_the_language_of_a_script() -> None:
    found = [
        guess_language(one)
        for one in ("Hello there", "Привет, как дела?", "你好，今天天气很好", "こんにちは世界", "مرحبا")
    ]
    assert found == ["", "ru", "cmn", "ja", "ar"]
