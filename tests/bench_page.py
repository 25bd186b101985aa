"""The page of a large campaign: how long it takes to write, how large it is, until it is usable."""

from __future__ import annotations

import dataclasses
import os
import shutil
import statistics
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from railgauge.model.record import Row
from railgauge.report import page
from railgauge.verdict.decision.verdict import Verdict
from tests import pages

#: As many numbers as a place needs for 100,000 of 1,152 nodes with eight rails.
_SIZES = pages.SIZES[:11]


def campaign(folder: Path, nodes: int, rails: int, sizes: int) -> Verdict:
    """Every node with the next one on each rail, at so many message sizes."""
    verdict = pages.cluster(folder, nodes, rails, bad=(1, 1))
    cases = []
    for case in verdict.cases:
        first = case.rows[0]
        more = [
            Row(
                dataclasses.replace(
                    first.measurement, size_bytes=size, value=first.measurement.value * 0.9
                ),
                None,
                first.limit,
                gates=False,
            )
            for size in _SIZES[: sizes - 1]
        ]
        cases.append(dataclasses.replace(case, rows=(*case.rows, *more)))
    return dataclasses.replace(verdict, cases=tuple(cases))


_DRAW = """() => {
  const select = document.querySelector('.heat select');
  const canvas = document.querySelector('.heat canvas[role=application]');
  return [...select.options].slice(0, 3).map((option) => {
    const began = performance.now();
    select.value = option.value;
    select.dispatchEvent(new Event('change'));
    canvas.getContext('2d').getImageData(0, 0, 1, 1);
    return [option.textContent, performance.now() - began];
  });
}"""


#: A move of the pointer draws the whole plot where it takes the focus.
_VOLCANO = """() => {
  const canvas = document.querySelector('#volcano canvas');
  const began = performance.now();
  canvas.focus();
  canvas.getContext('2d').getImageData(0, 0, 1, 1);
  return performance.now() - began;
}"""


def figures(area: Path, times: int = 3) -> None:
    """Of 100,000 measurements over 1,152 nodes, of 36,864 links, and of these before and after."""
    program = shutil.which("chromium-headless-shell") or "chromium"
    for nodes, rails, sizes in ((1152, 8, 11), (4608, 8, 1), (0, 0, 0)):
        if nodes:
            verdict = pages.on_leaves(campaign(area, nodes, rails, sizes), 32)
        else:
            os.environ["RAILGAUGE_RESULTS"] = str(area)
            verdict = pages.after_accepted(area, many=9216)
        nodes = nodes or 2 * 9216
        count = sum(len(case.rows) for case in verdict.cases)
        path, written, opened, drawn = area / "page.html", [], [], []
        for _ in range(times):
            began = time.monotonic()
            path.write_text(page.html(verdict), encoding="utf-8")
            written.append(time.monotonic() - began)
        size = path.stat().st_size
        print(
            f"page of {count} numbers, {nodes} nodes: {size / 1e6:.2f} MB, written in "
            f"{statistics.median(written):.1f} s (n={times})"
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for _ in range(times):
                tab = browser.new_page(viewport={"width": 1280, "height": 900})
                began = time.monotonic()
                tab.goto(path.as_uri())
                tab.wait_for_selector("html[data-ready]", timeout=120_000)
                opened.append(time.monotonic() - began)
                tab.wait_for_selector("html[data-drawn]", timeout=120_000)
                drawn.append(time.monotonic() - began)
            print(
                f"  usable {statistics.median(opened):.2f} s after opening "
                f"({min(opened):.2f} to {max(opened):.2f}, n={times}), all drawn after "
                f"{statistics.median(drawn):.2f} s ({min(drawn):.2f} to {max(drawn):.2f})"
            )
            if tab.locator("#volcano").count():
                print(f"  volcano plot: {tab.evaluate(_VOLCANO):.0f} ms")
            else:
                for title, took in tab.evaluate(_DRAW):
                    print(f"  map {title}: {took:.0f} ms")
            browser.close()
