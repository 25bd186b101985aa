"""The documents as a site, by Sphinx: `make docs` writes `site/`."""

from __future__ import annotations

import re

project = "Railgauge"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Railgauge"
exclude_patterns = ["example", "schema", "grafana"]
# Links to headings are GitHub's.
myst_heading_anchors = 4
#: A link that leads out of `docs/` to another document of the repository: no page of the site.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\.md[^)]*\)")
_SECTION = re.compile(r"^## (.+)\n((?:.*\n)*?)(?=^## |\Z)", re.MULTILINE)
_PAGE = re.compile(r"\]\(([a-z0-9-]+)\.md\)")


def _prepare(app, name: str, source: list[str]) -> None:
    """Make the navigation from the lists of the first page; name documents that are no page."""
    source[0] = _OUTSIDE.sub(r"`\1`", source[0])
    if name == "index":
        for section in _SECTION.finditer(source[0]):
            pages = "\n".join(_PAGE.findall(section[2]))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {section[1]}\n\n{pages}\n```\n"


def setup(app) -> None:
    app.connect("source-read", _prepare)
