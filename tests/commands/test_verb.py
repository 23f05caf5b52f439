"""Verbs: a line in a chat becomes arguments, and a result what a person or a program reads."""

import argparse

import pytest

from hermes.cli.verb_runner import run_verb
from hermes.commands.verb import JSON_OPTION, YES_OPTION, JsonLayout, Verb, VerbCall, VerbResult, argument, bind_words
from hermes.core.errors import NotFoundError

WORD = argument("word")
NUMBER = argument("number", type=int, nargs="?")
REST = argument("rest", takes_rest=True)
TEXT = argument("text", nargs="+")
LIMIT = argument("--limit", type=int, default=30)
FLAG = argument("--by-hand", action="store_true")


@pytest.mark.parametrize(
    ("arguments", "line", "values"),
    [
        ((WORD,), "one", {"word": "one"}),
        ((WORD,), "", None),
        ((WORD,), "one two", None),
        ((WORD, LIMIT, FLAG), "one", {"word": "one", "limit": 30, "by_hand": False}),
        ((WORD, NUMBER), "one", {"word": "one", "number": None}),
        ((WORD, NUMBER), "one 12", {"word": "one", "number": 12}),
        ((WORD, NUMBER), "one two", None),
        ((WORD, REST), "one two three", {"word": "one", "rest": "two three"}),
        ((WORD, TEXT), "one two three", {"word": "one", "text": ["two", "three"]}),
        ((TEXT,), "say 'this'  so", {"text": ["say 'this'  so"]}),
        ((LIMIT,), "--limit 3", None),
    ],
)
def test_words_of_a_chat_become_arguments(
    arguments: tuple[object, ...], line: str, values: dict[str, object] | None
) -> None:
    bound = bind_words(arguments, line.split(), line)
    assert (None if bound is None else vars(bound)) == values


def make_verb(layout: JsonLayout = JsonLayout.INDENTED) -> Verb:
    verb = Verb("fruit", description="Fruit.", example="hermes fruit", json_layout=layout)

    @verb.action("show", "show one", WORD, JSON_OPTION)
    async def show_fruit(call: VerbCall) -> VerbResult:
        if call.args.word == "stone":
            raise NotFoundError("There is no stone.")
        return VerbResult({"name": call.args.word}, [f"a {call.args.word}"], ["It is ripe."], 1)

    @verb.action("list", "list all", JSON_OPTION)
    def list_fruit(call: VerbCall) -> VerbResult:
        return VerbResult([{"name": "fig"}, {"name": "pear"}], ["fig", "pear"])

    @verb.action("eat", "eat all", YES_OPTION)
    def eat_fruit(call: VerbCall) -> VerbResult:
        call.require_yes_now("Eat?", what="Eating")
        return VerbResult(lines=["Eaten."])

    return verb


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        ([], 0, "fig\npear\n", ""),
        (["show", "fig"], 1, "a fig\n", "hermes: It is ripe.\n"),
        (["show", "fig", "--json"], 1, '{\n  "name": "fig"\n}\n', "hermes: It is ripe.\n"),
        (["show", "stone"], 1, "", "hermes: There is no stone.\n"),
        (["eat", "--yes"], 0, "Eaten.\n", ""),
        (["eat"], 2, "", "hermes: Eating needs confirmation: add --yes.\n"),
    ],
)
def test_a_result_is_printed(
    arguments: list[str], code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verb(make_verb(), arguments) == code
    assert tuple(capsys.readouterr()) == (out, err)


@pytest.mark.parametrize(
    ("layout", "out"),
    [
        (JsonLayout.LINE, '[{"name": "fig"}, {"name": "pear"}]\n'),
        (JsonLayout.LINES, '{"name": "fig"}\n{"name": "pear"}\n'),
    ],
)
def test_values_have_their_layout(layout: JsonLayout, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verb(make_verb(layout), ["list", "--json"]) == 0
    assert capsys.readouterr().out == out


def test_an_option_is_named_as_the_parser_names_it() -> None:
    for one in (WORD, LIMIT, FLAG, argument("-o", "--output"), argument("-n", dest="count", type=int)):
        parser = argparse.ArgumentParser()
        parser.add_argument(*one.names, **one.keywords)
        parsed = vars(parser.parse_args([] if one.is_option else ["x"]))
        assert list(parsed) == [one.dest]
        assert not one.is_option or parsed[one.dest] == one.default
