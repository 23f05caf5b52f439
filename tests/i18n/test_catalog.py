"""Everything that is said has its Chinese, and what was made in English is recognised where it is shown."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hermes.i18n.catalog import load_translations
from hermes.i18n.messages import CHINESE, ENGLISH, N_, full_stop, join_sentences, localize, set_language
from hermes.i18n.recognizer import translate_english

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "words.py"


@pytest.fixture
def chinese() -> object:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["words"] = module
    spec.loader.exec_module(module)
    return module


def test_the_catalogue_is_complete_and_nothing_is_said_past_it(words: ModuleType) -> None:
    found = words.scan()
    assert len(found.texts) > 2_000
    assert words.problems(found) == []


def test_the_scan_sees_what_is_wrong(words: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hermes"
    (package / "cli").mkdir(parents=True)
    (package / "util" / "words" / "zh").mkdir(parents=True)
    (package / "cli" / "verb.py").write_text(
        "def run(name):\n"
        '    print("This is not said.")\n'
        '    tr(f"{name} is here.")\n'
        '    tr("Said, but {where}?", where=name)\n'
        '    raise ConfigError(f"{name} is gone.")\n'
        "class ConfigError(HermesError): ...\n"
    )
    (package / "util" / "words" / "zh" / "cli.json").write_text('{"old": "旧", "Said, but {where}?": "说了，{who}？"}')
    monkeypatch.setitem(words.__dict__, "PACKAGE", package)
    monkeypatch.setitem(words.__dict__, "CATALOGUE", package / "util" / "words" / "zh")
    told = "\n".join(words.problems(words.scan()))
    for part in ("verb.py:2: not said", "verb.py:3: no literal", "no Chinese for '{name} is gone.'", "says 'old'"):
        assert part in told
    assert "other places than in 'Said, but {where}?'" in told


def test_english_stays_as_it_is() -> None:
    assert localize("There is no session x.") == "There is no session x."
    assert N_("{n} files", n=2) == "2 files"
    assert join_sentences("One.", "", "Two.") == "One. Two." and full_stop() == "."


@pytest.mark.usefixtures("chinese")
def test_a_text_made_in_english_is_shown_in_chinese() -> None:
    assert localize("There is no session abc.") == "没有会话 abc。"
    assert (
        join_sentences(localize("The title is empty."), localize("Name another file.")) == "标题为空。请换一个文件名。"
    )
    both = localize("There is no session abc. `hermes sessions list` shows them.")
    assert both == "没有会话 abc。`hermes sessions list` 会列出会话。"
    inner = localize(
        "A fallback model cannot be used: No model is named for Groq. Set `model.default` or give `-m MODEL`."
    )
    assert inner == "备用模型无法使用：没有为 Groq 指定模型。请设置 `model.default`，或给出 `-m MODEL`。"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory",
        "Something that a server says. It is none of ours.",
        "x" * 5_000,
        "{name} {0} {} %s \\1 \\g<0>",
        "a: b. c; d? " * 400,
    ],
)
def test_words_of_others_stay(text: str) -> None:
    assert translate_english(text, "zh") in (text, load_translations("zh").get(text))


def test_a_value_is_no_template() -> None:
    assert translate_english("There is no session {name}\\1{x.", "zh") == "没有会话 {name}\\1{x。"


def test_a_name_in_a_place_is_not_translated() -> None:
    assert translate_english("There is no provider `memory`.", "zh") == "没有提供方 `memory`。"
