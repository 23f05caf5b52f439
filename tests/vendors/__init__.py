"""Servers of chat platforms on loopback. They speak the real protocols; tests judge them by official clients."""

import importlib

from hermes.testing.fake_platform import FakeChat


def load_fake(name: str) -> FakeChat:
    """Return a fresh server of the platform called `name`; it listens once it is entered."""
    fake: FakeChat = importlib.import_module(f"tests.vendors.{name}").Fake()
    return fake
