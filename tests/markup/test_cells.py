"""One table of widths: what is measured for charts and help is what the terminal of the full chat shows."""

import subprocess
import sys

import pytest
from wcwidth import wcwidth

from hermes.markup.cells import fit_text, fold_line, measure_width


@pytest.mark.parametrize(
    "letter", ["a", "é", "天", "。", "ア", "（", "“", "…", "█", "▏", "\u0301", "😀", "한", "\u0557"]
)
def test_a_letter_is_as_wide_as_the_table_of_terminals_says(letter: str) -> None:
    assert measure_width(letter) == max(wcwidth(letter), 0)


def test_a_text_is_cut_or_padded_to_exactly_its_width() -> None:
    assert [fit_text(text, 5) for text in ("ab", "天气预报", "abcdef")] == ["ab   ", "天气…", "abcd…"]


def test_long_words_stay_whole_and_no_line_begins_with_a_closing_mark() -> None:
    assert fold_line("  see " + "x" * 30 + " now", 20) == ["  see", "  " + "x" * 30, "  now"]
    assert all(line.lstrip()[0] not in "，。" for line in fold_line("  " + "一二三，四五六。" * 6, 20))


def test_chinese_is_measured_without_the_large_table() -> None:
    script = (
        "from hermes.markup.cells import fold_line; import sys; fold_line('把主目录放进一个文件：caches。' * 9, 24)"
    )
    subprocess.run([sys.executable, "-c", f"{script}; sys.exit('wcwidth' in sys.modules)"], check=True)
