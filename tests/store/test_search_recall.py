"""Recall of searches in small: the questions of `bench/recall.py`, with a bar for every kind."""

import argparse
import asyncio
from collections.abc import Sequence

import pytest

from bench.recall import FIRST, KINDS, Answered, Question, answered

pytestmark = pytest.mark.slow

EACH = 12
BARS = {"other endings": 0.9, "Chinese question": 0.8}
"""What part of a kind's questions must be answered; 0.9 where nothing is said. At a million messages it is less."""

Results = Sequence[tuple[Question, Answered]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("recall")
    options = argparse.Namespace(messages=6_000, each=EACH, power=1.0, length=1.0)
    return asyncio.run(answered(folder, 11, options))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_among_the_first_five(results: Results, kind: str) -> None:
    of_kind = [(question.query, answer) for question, answer in results if question.kind == kind]
    missed = [query for query, answer in of_kind if not 0 < answer.hit <= FIRST]
    assert len(of_kind) == EACH
    assert len(missed) <= EACH * (1 - BARS.get(kind, 0.9)), missed


def test_the_best_hit_is_mostly_the_answer(results: Results) -> None:
    ranks = [1 / answer.hit if answer.hit else 0.0 for _, answer in results]
    assert sum(ranks) / len(ranks) >= 0.9
