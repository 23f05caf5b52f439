"""Tests that are tables of small cases: `each_case`, for what takes less time than a test of its own costs."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_case(names: str | tuple[str, ...], cases: Iterable[object]) -> Callable[[Callable[..., Any]], object]:
    """Have one test run all cases, whatever fails, and name those that failed.

    As `pytest.mark.parametrize`, which makes a test of each: that is collected by every worker, scheduled and reported,
    some 6 ms of CPU. Fixtures are shared by the cases, so these leave nothing behind.
    """
    wanted = names if isinstance(names, tuple) else (names,)
    table = [case if isinstance(names, tuple) else (case,) for case in cases]
    assert table, "a table without cases tests nothing"

    def decorate(test: Callable[..., Any]) -> object:
        signature = inspect.signature(test)
        assert set(wanted) <= set(signature.parameters), f"{test.__name__} takes no such case"

        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            failed = []
            for case in table:
                given = dict(zip(wanted, case, strict=True))  # type: ignore[call-overload]
                try:
                    test(**fixtures, **given)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - each case is a test of its own
                    error.add_note(f"the case: {given!r}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(table)} cases failed", failed)

        own = [one for name, one in signature.parameters.items() if name not in wanted]
        run.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return run

    return decorate
