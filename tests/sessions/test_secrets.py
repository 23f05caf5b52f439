"""The secrets that a process holds, and where they must not be: caches, logs, messages of a provider."""

import logging
import os
import random
import string
from pathlib import Path

import pytest
import yaml

from hermes.cli.fault_log import FaultLog
from hermes.config.auth_file import AuthEntry, add_entry
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.llm.error_report import read_error_body
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.secrets import build_redactor
from hermes.util.text import redact_url


def made(seed: str) -> str:
    return "k-" + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=30))


def test_every_place_is_looked_at(tmp_path: Path) -> None:
    home = HermesHome(tmp_path)
    home.env_file.write_text(f"# mine\nDOT_API_KEY='{made('dot')}'\nMODEL=gpt-large-and-long-name\n")
    add_entry(home, "openrouter", AuthEntry(id="a1", kind="key", label="work", key=made("auth")))
    config = {
        "model": {
            "default": "m",
            "api_key": made("config"),
            "base_url": f"https://me:{made('url')}@host/v1?key={made('query')}",
        },
        "fallback_providers": [{"model": "n", "api_key": made("fallback")}],
    }
    home.config_file.write_text(yaml.safe_dump(config))
    environ = {
        "OPENAI_API_KEY": made("env"),
        "OPENAI_API_KEYS": f"{made('p1')},{made('p2')}",
        "DATABASE_URL": f"postgres://a:{made('db')}@h/x",
        "https_proxy": f"http://u:{made('proxy')}@proxy:3128",
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/somebody-with-a-name",
        "TLS_PRIVATE_KEY": "/etc/hostname",
        "EDITOR": "vim",
    }
    redactor = build_redactor(environ, home, load_settings(home).settings)
    seeds = ("dot", "auth", "config", "url", "query", "fallback", "env", "p1", "p2", "db", "proxy")
    text = " ".join(made(seed) for seed in seeds)
    shown = redactor.redact(text)
    assert [seed for seed in seeds if made(seed) in shown] == []
    plain = "/usr/bin:/bin /home/somebody-with-a-name gpt-large-and-long-name vim /etc/hostname"
    assert redactor.redact(plain) == plain


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"model": {"default": "m", "api_key": made("a")}}, False),
        ({"model": {"default": "m", "base_url": f"http://u:{made('b')}@h/v1"}}, False),
        ({"mcp_servers": {"x": {"env": {"X_TOKEN": made("c")}}}}, False),
        ({"model": {"default": "m", "api_key": "${MY_KEY}", "base_url": "http://h/v1"}}, True),
    ],
)
def test_settings_with_a_key_are_not_cached(config: dict[str, object], kept: bool, tmp_path: Path) -> None:
    home = HermesHome(tmp_path)
    home.cache.mkdir()
    (home.cache / "config.json").write_text("an older one")
    home.config_file.write_text(yaml.safe_dump(config))
    load_settings(home)
    cached = home.cache / "config.json"
    assert cached.exists() is kept
    assert not kept or cached.read_text() != "an older one"


def test_no_fault_shows_a_secret(tmp_path: Path) -> None:
    secret = made("log")
    handler = FaultLog(tmp_path, Redactor({"THE_KEY": secret}).redact)
    handler.setFormatter(logging.Formatter("%(message)s"))
    try:
        int(f"bad key {secret} and {secret.encode().hex()}")
    except ValueError as error:
        handler.handle(
            logging.LogRecord(
                "hermes", logging.ERROR, "f", 1, "with %s", (secret,), (type(error), error, error.__traceback__)
            )
        )
    written = (tmp_path / "errors.log").read_text()
    assert "[secret:THE_KEY]" in written and "ValueError" in written
    assert secret not in written and secret.encode().hex() not in written
    assert os.stat(tmp_path / "errors.log").st_mode & 0o077 == 0


def test_a_key_at_the_cut_of_a_providers_words_is_masked_before_it_is_cut() -> None:
    key = made("cut")
    escaped = key.replace("k", "\\u006b", 1)
    body = ('{"error": {"message": "' + "long " * 75 + f"Incorrect key {escaped} given" + '"}}').encode()
    report = read_error_body(401, body, Redactor({"key": key}).redact)
    assert not any(key[at : at + 10] in report.message + report.words for at in range(len(key) - 10))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@host:8080/v1?key=abc#x", "https://host:8080/v1"),
        ("http://localhost:1234/v1", "http://localhost:1234/v1"),
        ("https://a@b@host", "https://host"),
        ("host?key=1", "host"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_its_keys(url: str, shown: str) -> None:
    assert redact_url(url) == shown
