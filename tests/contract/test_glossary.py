"""The glossary and the architecture page name files that exist."""

import re
from pathlib import Path

import hermes

PACKAGE = Path(hermes.__file__).parent
ROOT = PACKAGE.parent


def test_each_home_of_the_glossary_exists() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and "| home" not in line]
    homes = [path for row in rows for path in re.findall(r"`([\w./]+)`", row[3])]
    assert len(homes) > 90
    missing = [path for path in homes if not (PACKAGE / path).exists() and not (ROOT / path).exists()]
    assert not missing


def test_each_folder_of_the_package_is_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert not [name for name in sorted(folders) if f"| `{name}/` |" not in text]
