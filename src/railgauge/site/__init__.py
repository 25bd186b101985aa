"""Describing one's own cluster: `railgauge system new` and `railgauge system check`."""

from __future__ import annotations

import re
from pathlib import Path

from railgauge import paths


def shown(path: Path) -> str:
    """A path as a person would type it at the root of the checkout, or of the site's folder."""
    root = next((one for one in (paths.SITE, paths.HOME) if path.is_relative_to(one)), None)
    return str(path.relative_to(root) if root else path)


def host_pattern(host: str) -> str:
    """A pattern for `hostnames` that this host alone matches."""
    # Outside of brackets a hyphen stands for itself.
    return "^" + re.escape(host).replace(r"\-", "-") + "$"
