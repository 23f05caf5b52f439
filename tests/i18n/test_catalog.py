"""Everything that is said has its Chinese, and nothing is said in a way that loses it."""

import gc
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

CATALOGUE = Path(__file__).resolve().parents[2] / "hermes" / "i18n" / "words" / "zh"
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "words.py"


@pytest.fixture(scope="module")
def words() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["words"] = module
    spec.loader.exec_module(module)
    return module


def test_the_catalogue_is_complete_and_nothing_is_said_past_it(words: ModuleType) -> None:
    gc.disable()  # the trees stay until the end: the collector would look through them again and again
    try:
        found = words.scan()
    finally:
        gc.enable()
    assert len(found.texts) > 2_000
    assert words.problems(found) == []


def test_a_translation_names_the_same_options_and_brackets() -> None:
    told = {
        english: chinese
        for file in CATALOGUE.glob("*.json")
        for english, chinese in json.loads(file.read_text()).items()
    }
    options = re.compile(r"(?<![\w-])--[a-z][\w-]*")
    for english, chinese in told.items():
        assert set(options.findall(english)) == set(options.findall(chinese)), english
        if english.startswith("["):
            assert english.count("[") == chinese.count("["), english


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
    for part in (
        "verb.py:2: not said",
        "verb.py:3: no literal",
        "verb.py:5: an f-string",
        "no Chinese for '{name} is gone.'",
        "says 'old'",
    ):
        assert part in told
    assert "other places than in 'Said, but {where}?'" in told
