"""The page to decide from: one HTML file that asks nothing of any network.

    content.py   sections of plain texts           series.py   the numbers, in columns
    drawing.py   suspects and their partners       web/        templates, style and script
    history.py   the page of a system's campaigns
    before.py    what changed since an earlier campaign
    subnet.py    the InfiniBand subnet: switches by switches, and their ports
    gpus.py      copies between the GPUs of a node
    uplot-*/     the released library that draws curves, with its licence

Whatever comes from outside reaches the page in two ways: as text that Jinja escapes, or in the
numbers, which are packed (gzip, base64) and put into the page as text by the script. The policy in
the page runs the one script and takes the one style that are in it, by their hashes, and lets no
request leave.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from railgauge.report import located, numbers
from railgauge.report.page import before as before_after
from railgauge.report.page import content, gpus, series, subnet
from railgauge.report.visible import clean
from railgauge.verdict.campaign.finding import places_of
from railgauge.verdict.decision.verdict import Verdict

#: In the campaign's folder.
FILE = "report.html"

_HERE = Path(__file__).parent
_WEB = _HERE / "web"
_UPLOT = _HERE / "uplot-1.6.32"

#: The sign next to each word, for readers that cannot distinguish the colours.
_SIGNS = {"accept": "✓", "provisional accept": "◐", "reject": "✕", "inconclusive": "?"}


def _shown(value: Any) -> Any:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_WEB),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fold"] = content.folded
    return environment


def _own(*files: Path) -> Markup:
    """Files of ours, as they are; none of them may end the element that it stands in."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    assert not re.search("</(script|style)", text, re.IGNORECASE)
    return Markup(text)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def whole(template: str, data: dict[str, Any], **fields: Any) -> str:
    """A template with all that it says, and the data that the script draws and lists."""
    style = _own(_UPLOT / "uPlot.min.css", _WEB / "page.css")
    script = _own(
        _UPLOT / "uPlot.iife.min.js",
        *(_WEB / name for name in ("table.js", "heat.js", "curve.js", "volcano.js", "page.js")),
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # As text that no HTML can be read into.
    document = json.dumps(data, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(gzip.compress(document.encode(), compresslevel=6, mtime=0)).decode()
    return (
        _environment()
        .get_template(template)
        .render(data=packed, style=style, script=script, policy=policy, **fields)
    )


def html(verdict: Verdict) -> str:
    measured = numbers.collect(verdict, all_numbers=True)
    columns = series.as_columns(verdict, measured)
    pairs = _checks_with_pairs(columns)
    for name in ("checks", "nodes", "rails", "places", "leaves"):
        columns[name] = [clean(text) for text in columns[name]]
    before = before_after.before(verdict)
    earlier = before if isinstance(before, before_after.Before) else None
    curves = series.curves(
        [one for one in measured if one.row.measurement.value > 0],
        earlier.median if earlier else lambda *_: None,
    )
    checks = list(dict.fromkeys(case.check for case in verdict.cases if not case.of_job))
    columns["curves"] = [curve.as_dict() for curve in curves]
    columns["changes"] = before_after.as_columns(earlier.compared) if earlier else None
    shown = content.findings(verdict, measured)
    campaign = verdict.campaign
    return whole(
        "page.html.j2",
        columns,
        verdict=verdict,
        campaign=campaign,
        simulated=verdict.simulated,
        mark="SIMULATED " if verdict.simulated else "",
        sign=_SIGNS[verdict.decision],
        sentence=located.sentence(verdict),
        reasons=content.reasons(verdict),
        began=content.moment(campaign.started),
        took=content.took(campaign.started, campaign.finished),
        scope=content.scope(verdict),
        power=content.power(verdict),
        sharpest=verdict.power.sharpest,
        suspects=(suspects := content.suspects(verdict)),
        suspects_left_out=len(verdict.suspects) - len(suspects),
        left_open=located.left_open(verdict.min_good_results_of_cleared_end),
        findings=shown,
        places_count=len(places_of(verdict.findings)),
        findings_left_out=content.left_out(verdict),
        most_messages=content.MOST_MESSAGES,
        most_lines=content.MOST_LINES,
        summary=(summary := content.summary(measured)),
        folded={check for check, table in summary.items() if content.can_be_folded(table)},
        checks=checks,
        curves=curves,
        before=earlier,
        no_before="" if earlier else before,
        classes=before_after.classes(earlier.compared) if earlier else None,
        missing=before_after.missing(earlier.compared) if earlier else None,
        changed=before_after.changed(earlier.drift) if earlier else None,
        changes=columns["changes"],
        transfers=content.transfer_tables(verdict),
        subnets=subnet.subnets(verdict),
        gpus=gpus.gpus(verdict),
        counters=content.counters(verdict.cases),
        drift=content.drift(verdict),
        not_run=content.not_run(verdict),
        provenance=[
            table
            for table in (
                content.sessions(verdict),
                content.tools(verdict),
                content.references(measured),
                content.fingerprints(verdict),
            )
            if table.rows
        ],
        numbers_count=len(measured) - columns["left_out"],
        numbers_left_out=columns["left_out"],
        pairs=pairs,
    )


def _checks_with_pairs(columns: dict[str, Any]) -> set[str]:
    """The checks that have a map: two pairs or more, or several rails."""
    places: dict[int, set[int]] = {}
    for number, place in zip(*columns["rows"][:2], strict=True):
        if columns["ends"][place][1] >= 0:
            places.setdefault(columns["conditions"][number]["check"], set()).add(place)
    for check, place, _ in columns["silent"]:
        if columns["ends"][place][1] >= 0:
            places.setdefault(check, set()).add(place)
    return {columns["checks"][check] for check, pairs in places.items() if len(pairs) > 1}
