"""What MkDocs calls while it builds the site: pages from headers, tables from evidence, a check of links."""

import logging
import sys
from http.client import HTTPException
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import benchmark_tables
import cpp_reference
import links
from cells import TornFile

LOG = logging.getLogger("mkdocs.hooks.links")  # a warning ends a strict build
ROOT = Path(__file__).resolve().parents[2]


def on_files(files, config):
    """Adds the C++ reference, made from include/samebits."""
    page = cpp_reference.page(ROOT / "include" / "samebits")
    files.append(File.generated(config, "reference/cpp.md", content=page))
    return files


def on_page_markdown(markdown, page, config, files):
    """Puts a table in the place of each `<!-- table: NAME -->`."""
    try:
        return benchmark_tables.filled(markdown, ROOT)
    except TornFile as error:
        raise PluginError(str(error)) from None


def on_post_build(config):
    """Looks up every link of what was built; addresses elsewhere are asked for where there is a network."""
    for problem in links.problems(Path(config.site_dir)):
        LOG.warning(problem)
    for address in links.ELSEWHERE:
        try:
            if problem := links.gone(address):
                LOG.warning("%s %s", address, problem)
        except (OSError, HTTPException) as error:
            LOG.info("%s could not be asked for (%s)", address, error)
