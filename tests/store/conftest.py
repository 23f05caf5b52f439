"""Fixtures of the store's tests."""

import pytest

pytest.register_assert_rewrite("tests.store.store_contract")
