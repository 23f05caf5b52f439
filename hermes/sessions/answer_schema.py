"""Answers that must be JSON of a given form: what the model is told of the form, and whether an answer has it."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from hermes.core.encoding import to_json
from hermes.core.errors import UsageError
from hermes.core.messages import PROGRAM, TextPart
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.formats.foreign_schema import ForeignSchema
from hermes.util.text import to_one_line

MAX_SCHEMA_BYTES = 256 << 10
MAX_FOREIGN_BYTES = 32 << 10
"""The most bytes of a schema of a program that is not the person's own."""
MAX_REPAIRS = 2
"""How often the model is asked again after an answer that does not have the form."""
_FENCED = re.compile(r"\s*```[A-Za-z]*[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL)
_MAX_PROBLEMS = 5
_MAX_PROBLEM_LENGTH = 300


Check = Callable[..., Iterable[object] | None]
"""The check of one keyword of a schema: it yields what is wrong."""


class AnswerSchema:
    """A JSON Schema that answers must validate against. References to other documents are never fetched."""

    def __init__(self, schema: Mapping[str, object] | bool, *, foreign: ForeignSchema | None = None) -> None:
        """Raises UsageError for what is no JSON Schema. One that is `foreign` cannot hold a process up."""
        from jsonschema.validators import Draft202012Validator, extend, validator_for
        from referencing import Registry

        self._schema = schema
        self._foreign = foreign
        if foreign is not None:
            kind = extend(Draft202012Validator, _charge_checks(Draft202012Validator.VALIDATORS, foreign))
            self._validator = kind(foreign.schema, registry=Registry())
            return
        kind = validator_for(schema)
        if problem := _find_schema_problem(kind.check_schema, schema):
            raise UsageError(N_("This is not a valid JSON Schema: {why}.", why=problem))
        _check_references(kind.check_schema, schema)
        self._validator = kind(schema, registry=Registry())

    @classmethod
    def parse_foreign(cls, schema: Mapping[str, object]) -> "AnswerSchema":
        """Return the schema of a program that is not the person's own. Raises UsageError."""
        if len(to_json(schema)) > MAX_FOREIGN_BYTES:
            raise UsageError(N_("The JSON Schema is larger than {most} bytes.", most=MAX_FOREIGN_BYTES))
        return cls(schema, foreign=ForeignSchema(schema))

    @classmethod
    def load(cls, file: Path) -> "AnswerSchema":
        """Read the schema from a file. Raises UsageError."""
        try:
            with file.open("rb") as opened:
                data = opened.read(MAX_SCHEMA_BYTES + 1)
        except OSError as error:
            raise UsageError(N_("{file} cannot be read: {why}.", file=str(file), why=error.strerror)) from None
        if len(data) > MAX_SCHEMA_BYTES:
            raise UsageError(N_("{file} is too large for a JSON Schema.", file=str(file)))
        try:
            schema = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UsageError(N_("{file} is not JSON: {why}.", file=str(file), why=str(error))) from None
        if not isinstance(schema, dict | bool):
            raise UsageError(N_("{file} is not a JSON Schema.", file=str(file)))
        return cls(schema)

    def add_instructions(self, inbound: InboundMessage) -> InboundMessage:
        """Return the message with the required form behind it."""
        text = (
            "[Answer format: your final answer must be one JSON value that validates against this JSON Schema, and "
            f"nothing else: no fence, no other words.\n{to_json(self._schema).decode()}]"
        )
        return _attach_note(inbound, text)

    def parse_answer(self, text: str) -> tuple[object, str]:
        """Return the value of an answer, and what is wrong with it; empty when it has the form."""
        try:
            value = json.loads(extract_json(text), parse_constant=_reject_constant)
        except (ValueError, RecursionError) as error:
            return None, f"it is not JSON: {to_one_line(str(error), _MAX_PROBLEM_LENGTH)}"
        return value, "; ".join(self._list_problems(value))

    def _list_problems(self, value: object) -> list[str]:
        """Return the problems of a value. They name places and the schema's demands, not the value's own content."""
        from referencing.exceptions import Unresolvable

        problems: list[str] = []
        try:
            if self._foreign is not None:
                self._foreign.begin_check(value)
            for error in self._validator.iter_errors(value):
                demand = to_one_line(f"{error.validator}: {json.dumps(error.validator_value)}", _MAX_PROBLEM_LENGTH)
                problems.append(f"{to_one_line(error.json_path, _MAX_PROBLEM_LENGTH)} breaks {demand}")
                if len(problems) == _MAX_PROBLEMS:
                    break
        except Unresolvable as error:
            raise UsageError(
                N_("The JSON Schema refers to {what}, which is not in it.", what=to_one_line(str(error.ref), 100))
            ) from None
        except RecursionError:
            problems.append("it is nested too deeply, or too large to be checked")
        except ArithmeticError:
            problems.append("a number in it is too large")
        return problems


def _find_schema_problem(check: Callable[..., None], schema: object) -> str:
    """Return why `check` takes something for no JSON Schema; empty where it is one."""
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, dict | bool):
        return f"{to_one_line(json.dumps(schema), 80)} is neither an object nor true or false"
    try:
        check(schema)
    except SchemaError as error:
        return to_one_line(error.message, _MAX_PROBLEM_LENGTH)
    return ""


def _check_references(check: Callable[..., None], schema: object) -> None:
    """Raise UsageError where a part of the schema that is referred to is no schema: a validator that comes to it fails
    in ways of its own. What is not found is told when an answer is checked.
    """
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in sorted(_list_references(schema)):
        problem = ""
        try:
            problem = _find_schema_problem(check, resolver.lookup(reference).contents)
        except Unresolvable:
            continue
        except ValueError:  # the pointer names an item of a list by what is no number
            problem = "it names nothing that is in it"
        if problem:
            what = to_one_line(reference, 100)
            raise UsageError(
                N_("The JSON Schema refers to {what}, which is not a schema: {why}.", what=what, why=problem)
            )


def _list_references(schema: object) -> set[str]:
    """Return what the parts of a schema refer to within it."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            found |= {reference} if isinstance(reference, str) and reference.startswith("#") else set()
        if isinstance(part, dict | list):
            waiting += part.values() if isinstance(part, dict) else part
    return found


def _charge_checks(checks: Mapping[str, Check], foreign: ForeignSchema) -> dict[str, Check]:
    """Return the checks of a validator so that each is paid for."""

    def charge(keyword: str, check: Check) -> Check:
        def check_charged(validator: object, demand: object, value: object, schema: object) -> Iterable[object]:
            foreign.charge(keyword, demand, value)
            yield from check(validator, demand, value, schema) or ()

        return check_charged

    return {keyword: charge(keyword, check) for keyword, check in checks.items()}


def extract_json(text: str) -> str:
    """Return the JSON of an answer: without the fence that many models put around it."""
    fenced = _FENCED.fullmatch(text)
    return (fenced[1] if fenced is not None else text).strip()


def build_repair_message(problem: str, *, cwd: str) -> InboundMessage:
    """Return the message that asks for the answer again.

    What is wrong goes along as the program's note, because it can hold words of the model's own: nothing that stands in
    it counts as said by the person.
    """
    return _attach_note(
        InboundMessage(text="Give the answer again, in the required form only.", cwd=cwd),
        f"[The answer does not validate: {problem}.]",
    )


def _attach_note(inbound: InboundMessage, text: str) -> InboundMessage:
    from msgspec import structs

    return structs.replace(inbound, quoted=(*inbound.quoted, TextPart(text, PROGRAM)))


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
