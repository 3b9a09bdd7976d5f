"""The examples run; the pages in docs/ show nothing else (tools/lint_snippets.py)."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli_command import command_path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OWN_TESTS = {"nemotron_head.py", *(path.name for path in EXAMPLES.rglob("grpo*.py"))}
ARGUMENTS = {
    "profile_head.py": ["--device", "cpu", "--tokens", "8", "--vocab", "300", "--hidden", "64"],
    "smoke.py": ["cpu"],
}
SCRIPTS = sorted(path for path in EXAMPLES.rglob("*.py") if path.name not in OWN_TESTS)
COMMAND = re.compile(r"^(?:\$ )?(?:PYTHONPATH=\S+ )?((?:samebits|python -m samebits[\w.]*) [^#\n|]*)", re.M)


def run_script(path, arguments=()):
    """As `python path arguments` would, in this process."""
    sys.argv = [str(path), *arguments]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        assert end.code in (None, 0)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_a_python_example_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])
    run_script(path, ARGUMENTS.get(path.name, ()))
    printed = capsys.readouterr().out
    # A comment behind a print shows what it prints, or how that begins.
    for shown in re.findall(r"^ *print\(.*\)  # (.+)$", path.read_text(), re.M):
        assert shown.removesuffix("...") in printed, f"{path.name} does not print {shown!r}"


def test_the_audit_example_runs_on_the_files_it_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])
    run_script(EXAMPLES / "guide" / "record.py")
    environment = os.environ | {"PATH": f"{command_path().parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-euo", "pipefail", EXAMPLES / "guide" / "audit.sh"], env=environment, check=True)


def shown_commands():
    """(page, words) of every command of the package that a page of docs/ or README.md shows."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        for block in re.findall(r"^ *```(?:console|text|sh)?\n(.*?)^ *```", text, re.M | re.S):
            for command in COMMAND.findall(block.replace("\\\n", " ")):
                yield page.name, shlex.split(command)


@pytest.fixture
def help_of(monkeypatch, capsys):
    """The help text of a command, asked for once; of a Python module in this process."""
    known = {}

    def text(program, *subcommand):
        if program == "samebits":
            asked = [str(command_path()), *subcommand, "--help"]
            return subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        monkeypatch.setattr(sys, "argv", [program, *subcommand, "--help"])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        assert end.value.code in (None, 0)
        return capsys.readouterr().out

    def ask(words):
        program, *rest = words if words[0] == "samebits" else words[2:]
        asked = (program, *[word for word in rest[:1] if not word.startswith("-")])
        if asked not in known:
            known[asked] = text(*asked)
        return known[asked]

    return ask


def test_commands_on_the_pages_have_the_options_they_show(help_of):
    commands = list(shown_commands())
    assert commands
    for page, words in commands:
        text = help_of(words)
        for option in (word.split("=")[0] for word in words if word.startswith("--")):
            assert option in text, f"{page}: {shlex.join(words)}: no option {option}"
