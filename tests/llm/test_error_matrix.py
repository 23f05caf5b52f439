"""Every class of failure on every wire, each way it can come: the class, the advice, the recovery, the outcome."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.outcomes import FailureKind as Kind
from hermes.llm.error_report import read_error_body
from hermes.llm.failure_rules import FAILURE_RULES, find_rule, infer_status
from tests.llm.error_matrix import CASES, PROMISES, Result, lines, run, table
from tests.llm.vendor_errors import ALL

LINES = tuple(lines())


@pytest.mark.parametrize("wire", ALL)
async def test_the_lines_of_the_matrix_of_a_wire(wire: str, tmp_path: Path) -> None:
    wrong = {}
    for number, line in enumerate(line for line in LINES if line.wire == wire):
        folder = tmp_path / str(number)
        folder.mkdir()
        if problem := (await run(line, folder)).problem:
            wrong[line.id] = problem
    assert wrong == {}


def test_every_line_is_of_a_wire() -> None:
    assert {line.wire for line in LINES} == {*ALL}


def test_the_matrix_covers_every_kind_on_every_wire() -> None:
    provider_made = set(Kind) - {Kind.SPEND_LIMIT}
    assert set(PROMISES) == provider_made
    assert {(line.kind, line.wire) for line in LINES} == {(kind, wire) for kind in provider_made for wire in ALL}


def test_every_kind_that_a_body_can_tell_comes_in_each_way_on_every_wire() -> None:
    transport_only = {Kind.CUT, Kind.UNREACHABLE, Kind.TLS, Kind.BAD_RESPONSE, Kind.SPEND_LIMIT}
    wanted = {(kind, wire, way) for kind in set(Kind) - transport_only for wire in ALL for way in ("stream", "whole")}
    wanted |= {(kind, wire, "http") for kind, wire, _ in wanted if kind is not Kind.UNKNOWN}
    assert wanted - {(line.kind, line.wire, line.way) for line in LINES} == set()


def test_the_bodies_are_of_many_vendors() -> None:
    assert len({case.vendor for case in CASES} - {"a gateway"}) >= 12
    assert all(case.seen for case in CASES)


def test_every_row_of_the_table_is_there_for_a_case() -> None:
    used = set()
    for case in CASES:
        value = case.body if isinstance(case.body, str) else json.dumps(case.body)
        told = read_error_body(case.status if case.status >= 400 else 0, value.encode())
        bare = structs.replace(told, status=0)
        for report in (
            told,
            *(
                structs.replace(told, status=infer_status(each))
                for each in (bare, structs.replace(bare, named_status=0))
            ),
        ):
            used.add(find_rule(report))
    # 402 and 409 by the write-ups and the status's meaning alone; our own name for what is no JSON; a finish reason.
    unseen = {(Kind.RATE_LIMIT, 402), (Kind.BILLING, 402), (Kind.OVERLOADED, 409), (Kind.SERVER_ERROR, 0)}
    missed = {(row.kind, *row.statuses) for row in FAILURE_RULES if row not in used}
    assert missed - unseen == {(Kind.BAD_RESPONSE,)}


def test_the_table_names_what_is_not_as_promised() -> None:
    good = Result(LINES[0], "next key, fall back", "once: answered; always: failed", "")
    bad = Result(LINES[1], "", "", "kind is x")
    shown = table([good, bad]).splitlines()
    assert shown[0].split()[0] == "kind" and shown[-1].startswith("2 lines, 1 kinds") and "1 not as" in shown[-1]
    assert [line.rsplit("| ")[-1] for line in shown[1:-1]] == ["ok", "kind is x"]
