"""What the site is made from: tables from evidence, the C++ reference, docstrings, blocks of code."""

import json
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tools" / "docs"))

import benchmark_tables as tables
import cpp_reference
import docstrings
import lint_snippets


def test_a_table_is_put_in_its_place_and_an_unknown_one_is_an_error():
    page = tables.filled("before\n<!-- table: cpu-overhead -->\nafter", ROOT)
    assert page.startswith("before\n") and page.endswith("\nafter")
    assert "| one row of 128 logits, us |" in page
    with pytest.raises(KeyError, match="speed-of-light"):
        tables.filled("<!-- table: speed-of-light -->", ROOT)


@pytest.mark.parametrize("name", sorted(tables.TABLES))
def test_every_table_can_be_made_of_what_is_recorded(name):
    made = tables.TABLES[name](ROOT)
    rows = [line for line in made.splitlines() if line.startswith("|")]
    assert rows or "been recorded" in made
    assert all(line.endswith("|") for line in rows)


def test_what_is_not_recorded_is_said(tmp_path):
    (tmp_path / "evidence" / "nvidia-b200").mkdir(parents=True)
    assert tables.TABLES["gpu-logp"](tmp_path) == "`evidence/nvidia-b200/timings.json` has not been recorded."


def head_line(rows, **more):
    times = {"samebits": 2.0, "theirs": 4.0}
    return {"rows": rows, "size": 16, "vocab": 70, "forward_milliseconds": times,
            "forward_and_backward_milliseconds": {"samebits, saved P": 3.0}, **more}  # fmt: skip


def test_groups_of_the_head_are_shown_where_they_are_recorded(tmp_path):
    folder = tmp_path / "evidence" / "nvidia-b200"
    folder.mkdir(parents=True)
    more = {"samebits_over_others": {"forward": {"theirs": 0.5}, "recompute": {}},
            "versions": {"theirs": "1.2"}, "not_run": {"missing": "not installed"}}  # fmt: skip
    memory = {"rows": 9, "forward_extra_bytes": 2**20, "backward_extra_bytes": None,
              "backward_extra_bytes_allowed_for_hidden": 2**21}  # fmt: skip
    run = dict.fromkeys(("device", "driver", "torch", "samebits", "source_sha256"), "x")
    old = {
        "run": run,
        "large": [{**memory, **head_line(3)}],
        "few": [{"rows": 1, "microseconds": {"samebits": 5}}],
    }
    (folder / "head_timings.json").write_text(json.dumps(old))
    before = tables.TABLES["gpu-head"](tmp_path)
    assert "Versions" not in before and "Not run" not in before and "Other shapes" not in before
    new = old | {"shapes": [head_line(8, **more)], "memory": [memory], "unfinished": {"sums": "2 x 16 x 70"}}
    (folder / "head_timings.json").write_text(json.dumps(new))
    made = tables.TABLES["gpu-head"](tmp_path)
    assert "| 8 x 16 x 70 | 2.00 | 4.00 |" in made and "| 8 x 16 x 70: forward | 0.500 |" in made
    assert "| 9 | 1.00 | not run | 2.00 |" in made
    assert "Versions: theirs 1.2." in made and "- missing: not installed (at 8 x 16 x 70)" in made
    assert "Group sums was cut short at 2 x 16 x 70." in made
    both = {"four bare products": 1.5, "four bare products in a row": 1.25}
    lines = [head_line(8, samebits_over_others={"recompute": both}), head_line(9, **more)]  # one without them
    (folder / "head_timings.json").write_text(json.dumps({"run": run, "shapes": lines}))
    made = tables.TABLES["gpu-head"](tmp_path)
    assert "| four bare products | four bare products in a row | theirs |" in made
    assert "| 8 x 16 x 70: recompute | 1.50 | 1.25 | not run |" in made
    assert "| 9 x 16 x 70: forward | not run | not run | 0.500 |" in made
    only = {"run": run, "shapes": [head_line(8)]}
    (folder / "head_timings.json").write_text(json.dumps(only))
    assert "| 8 x 16 x 70 | 2.00 | 4.00 |" in tables.TABLES["gpu-head"](tmp_path)
    (folder / "head_timings.json").write_text(json.dumps(only)[:-9])
    with pytest.raises(
        ValueError, match=r"head_timings\.json: cannot be read .*; take it anew, or remove it$"
    ):
        tables.TABLES["gpu-head"](tmp_path)


def test_differing_values_are_counted_wherever_they_stand():
    record = {
        "case": {"rows": 5},
        "rows_that_differ_from_the_cpu": {"logp": 1, "lse": 0},
        "elements_that_differ_from_the_cpu": 2,
        "engines": {"mma": 4, "cublaslt": "refused: there are 33 columns"},
        "sha256": {"logp": "0"},
    }
    assert tables.differing(record) == 7


HEADER = """// What this header is for.
#pragma once
namespace samebits {
/// A thing; see `std::vector<int>` and <this>.
struct Thing {
  int rows = 3;  ///< first
  /// Second, on a line of its own,
  /// and the next.
  int columns;
};
/// Does it.
///
/// Throws Error.
void do_it(const Thing& thing, const Thing& another_thing_with_a_long_name = {},
           int and_one_more = 0, bool last = false);
namespace cuda {
/// On the GPU.
void enable();
}
}
"""


def test_the_c_plus_plus_reference_holds_every_comment_at_its_declaration(tmp_path):
    (tmp_path / "thing.h").write_text(HEADER)
    page = cpp_reference.page(tmp_path)
    assert "## thing.h\n\nWhat this header is for.\n" in page
    assert (
        "- `int rows = 3`: first\n- `int columns`: Second, on a line of its own,\n    and the next." in page
    )
    assert "### do_it\n" in page and "    int and_one_more = 0,\n    bool last = false)" in page
    assert "`std::vector<int>` and &lt;this>" in page and "### enable" in page


def test_every_function_of_the_headers_is_in_the_reference():
    page = cpp_reference.page(ROOT / "include" / "samebits")
    for name in (
        "logp_forward",
        "linear_logp_backward",
        "matmul",
        "embedding_forward",
        "plan",
        "enable",
        "LogpOptions",
    ):
        assert f"\n### {name}\n" in page


def test_a_list_of_names_in_a_docstring_becomes_one_entry_each():
    text = "Args:\n    one, two,\n        three: as in\n        the call.\n    four: other."
    each = "".join(f"    {name}: as in\n        the call.\n" for name in ("one", "two", "three"))
    assert docstrings.NAMES.sub(docstrings._one_each, text) == f"Args:\n{each}    four: other."


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ('```python\n--8<-- "examples/a.py:first"\n```', None),
        ('```python\n--8<-- "examples/a.py"\n```', None),
        ("```python\nprint(1)\n```", "python that no test runs"),
        ('```python\n--8<-- "examples/a.py:second"\n```', "has no section 'second'"),
        ('```sh\n--8<-- "examples/b.sh"\n```', "there is no examples/b.sh"),
        ('```cpp\n--8<-- "docs/a.cpp"\n```', "cpp that no test runs"),
        ("```console\n$ make build\n$ python examples/a.py\n```", None),
        ("```console\n$ make cake\n```", "there is no make target 'cake'"),
        ("```console\n$ python examples/c.py\n```", "there is no examples/c.py"),
        ("```rust\n```", "a block of 'rust'"),
        ("```\noutput\n```", None),
    ],
)
def test_blocks_of_code_are_cut_from_tested_files(tmp_path, block, reason):
    files = {
        "Makefile": "build: setup\n",
        "examples/a.py": "# --8<-- [start:first]\n# --8<-- [end:first]\n",
        "docs/p.md": block,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = lint_snippets.problems(tmp_path, [(tmp_path / "docs/p.md").relative_to(tmp_path)])
    assert (found == []) if reason is None else (len(found) == 1 and reason in found[0])
