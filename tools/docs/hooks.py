"""What MkDocs calls while it builds the site: pages made from headers, tables made from evidence."""

import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import benchmark_tables
import cpp_reference

ROOT = Path(__file__).resolve().parents[2]


def on_files(files, config):
    """Adds the C++ reference, made from include/samebits."""
    page = cpp_reference.page(ROOT / "include" / "samebits")
    files.append(File.generated(config, "reference/cpp.md", content=page))
    return files


def on_page_markdown(markdown, page, config, files):
    """Puts a table in the place of each `<!-- table: NAME -->`."""
    return benchmark_tables.filled(markdown, ROOT)
