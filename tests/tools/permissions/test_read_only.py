"""Which commands are known to write no file."""

import pytest

from hermes.safety.paths import Places
from hermes.safety.shell.commands import analyze_command
from hermes.tools.permissions.read_only import is_read_only_line
from tests.case_tables import each_case

PLACES = Places(home="/home/u", hermes="/home/u/.hermes", workspace="/home/u/w")


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "cat a b | grep -n x | head -5",
        "git status; git log --oneline | head",
        "git diff HEAD~1 -- src",
        "find . -name '*.py' | wc -l",
        "cd src && rg TODO 2>/dev/null",
        "echo $(cat x) > /dev/null 2>&1",
        "sort -u names | tail",
        "if [ -f a ]; then cat a; fi",
    ],
)
def test_it_only_looks(command: str) -> None:
    assert is_read_only_line(analyze_command(command, PLACES.workspace, PLACES))


@each_case(
    "command",
    [
        "echo x > f",
        "echo x >> f",
        "cat a &> f",
        "cat a >| f",
        "ls; touch b",
        "ls $(rm x)",
        "$CMD x",
        "make",
        "python -c 'print(1)'",
        "find . -delete",
        "find . -exec rm {} +",
        "sort -o f f",
        "sort -of f",
        "sort --output=f f",
        "git checkout .",
        "git diff --output=f",
        "sed -i s/a/b/ f",
        "tee f < g",
        "env rm x",
        "uniq a b",
        "X=1 sh -c 'echo > f'",
        "cat <<E\nx\nE\n: > y",
        "ls | xargs rm",
        "bash run.sh",
        "ls (",
    ],
)
def test_it_may_write(command: str) -> None:
    assert not is_read_only_line(analyze_command(command, PLACES.workspace, PLACES))
