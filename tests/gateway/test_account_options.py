"""Every option of every platform says what it is, in its code and in its page."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from hermes.admin.webhooks import WebhookRoute
from hermes.gateway.accounts import load_descriptor, platform_names
from hermes.gateway.platforms.api_server.keys import KeySettings

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {"api_server": "api-server.md", "webhook": "webhooks.md"}


def told(kind: type) -> dict[str, str]:
    """What stands below each field of a struct."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            found[field.target.id] = str(text)
    return found


@pytest.mark.parametrize("name", platform_names())
def test_every_option_of_a_platform_is_told(name: str) -> None:
    options = load_descriptor(name).options
    source = importlib.import_module(options.__module__)
    assert source.__doc__
    words = told(options)
    assert not [field for field in options.__struct_fields__ if not words.get(field, "").strip()]


@pytest.mark.parametrize("kind", [WebhookRoute, KeySettings])
def test_what_stands_in_options_is_told_too(kind: type) -> None:
    words = told(kind)
    assert not [name for name, text in words.items() if not text.strip() and not name.startswith("_")]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_names_every_option(name: str) -> None:
    page = (DOCS / PAGES[name]).read_text(encoding="utf-8")
    assert not [field for field in load_descriptor(name).options.__struct_fields__ if f"| `{field}` |" not in page]


def test_the_page_names_every_setting_of_a_route() -> None:
    page = (DOCS / "webhooks.md").read_text(encoding="utf-8")
    assert not [field for field in WebhookRoute.__struct_fields__ if f"| `{field}` |" not in page]
