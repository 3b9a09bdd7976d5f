"""README's quick starts are the files in examples/, and the files run against an installed wheel."""

import sys

from conftest import ROOT, run


def test_readme_shows_the_example_files():
    run(sys.executable, ROOT / "tools/readme_snippets.py", "--check")


def test_python_quickstart_runs(installed, tmp_path):
    assert "row.v1" in run(sys.executable, ROOT / "examples/quickstart.py", env=installed.env, cwd=tmp_path)


def test_command_line_quickstart_runs(installed, tmp_path):
    run("bash", "-euo", "pipefail", ROOT / "examples/quickstart.sh", env=installed.env, cwd=tmp_path)
    assert (tmp_path / "logp.safetensors").exists()


def test_commands_named_in_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in (ROOT / "README.md").read_text()
        assert f"\n{target}: " in makefile
