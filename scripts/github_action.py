#!/usr/bin/env python3
"""The step of action.yml that runs a task: inputs come from the environment, outputs go to the file GITHUB_OUTPUT.

Nothing that a model or a repository writes is printed where the runner obeys it: commands in the log (`::add-mask::`)
are switched off while Hermes talks, and outputs stand between marks that cannot be guessed. Standard library only.
"""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

REFUSED = 3
"""The exit code of a run that is done, but in which something was refused because nobody could be asked."""
OPTIONS = {
    "MODEL": "--model",
    "PROVIDER": "--provider",
    "BASE_URL": "--base-url",
    "TOOLSETS": "--toolsets",
    "MAX_COST": "--max-cost",
    "OUTPUT_SCHEMA": "--output-schema",
}

RUNNER_FILES = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
"""Variables that name the files in which a step tells the runner what the next ones get: nothing for an agent."""


def read_input(name: str) -> str:
    """Return an input of the action; empty where none was given."""
    return os.environ.get(f"INPUT_{name}", "").strip()


def build_command(temporary: Path) -> list[str]:
    """Return the command line. Every input is one word of it, and no shell reads it."""
    program = read_input("HERMES") or str(temporary / "hermes-program" / "bin" / "hermes")
    command = [program, "chat", "--json", "--no-input", "--no-gateway"]
    command += [f"{option}={read_input(name)}" for name, option in OPTIONS.items() if read_input(name)]
    command += [f"--allow={line.strip()}" for line in read_input("ALLOW").splitlines() if line.strip()]
    return [*command, f"--oneshot={read_input('PROMPT')}"]


def escape_message(text: str) -> str:
    """Return a text as the runner reads it in a command of the log."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def run_task(command: list[str], temporary: Path) -> tuple[int, dict[str, object]]:
    """Run the task; return the exit code and the result. What Hermes says meanwhile goes to the log."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INPUT_")}
    for name in RUNNER_FILES:
        environ.pop(name, None)
    environ.setdefault("HERMES_HOME", str(temporary / "hermes-home"))
    given = read_input("INPUT_FILE")
    folder = read_input("WORKING_DIRECTORY") or "."
    mark = secrets.token_hex(16)
    print(f"::stop-commands::{mark}", flush=True)
    try:
        with open(Path(folder, given) if given else os.devnull, "rb") as attached:
            done = subprocess.run(
                command, cwd=folder, env=environ, stdin=attached, stdout=subprocess.PIPE, check=False, encoding="utf-8"
            )
    finally:
        print(f"\n::{mark}::", flush=True)
    lines = done.stdout.splitlines()
    try:
        result = json.loads(lines[-1])
    except (IndexError, ValueError):
        result = {}
    return done.returncode, result if isinstance(result, dict) else {}


def write_outputs(values: dict[str, str]) -> None:
    """Write the outputs, each between two marks of its own."""
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8", errors="replace") as file:
        for name, value in values.items():
            mark = secrets.token_hex(16)
            file.write(f"{name}<<{mark}\n{value}\n{mark}\n")


def main() -> int:
    """Run the task and return the exit code of the step."""
    temporary = Path(os.environ["RUNNER_TEMP"])
    if not read_input("PROMPT"):
        print("::error::The input `prompt` is empty.")
        return 2
    try:
        code, result = run_task(build_command(temporary), temporary)
    except OSError as error:  # a file, a folder or a program that an input names
        print(f"::error::{escape_message(f'{error.filename}: {error.strerror}')}")
        return 2
    answer = str(result.get("answer") or "")
    file = temporary / f"hermes-answer-{secrets.token_hex(4)}.md"
    file.write_text(answer + "\n", "utf-8", "replace")
    structured, cost = result.get("structured"), result.get("cost_usd")
    outcome = str(result.get("outcome") or "not_started")
    write_outputs(
        {
            "answer": answer,
            "answer-file": str(file),
            "structured": "" if structured is None else json.dumps(structured),
            "outcome": outcome,
            "session": str(result.get("session_id") or ""),
            "cost": "" if cost is None else str(cost),
        }
    )
    if code == REFUSED:
        print(
            "::warning::Something was refused because nobody could be asked; the log names it. `allow` lets it through."
        )
        return 0
    if code:
        print(f"::error::Hermes ended with exit code {code}, outcome {outcome}; the log says why.")
    return code


if __name__ == "__main__":
    sys.exit(main())
