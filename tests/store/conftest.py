"""Fixtures of the store's tests."""

import pytest

pytest.register_assert_rewrite("store_contract")
