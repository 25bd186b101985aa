"""The published example, docs/example/: pages of two campaigns of the lab, a good and a bad one.

    make example

Brings four namespace nodes of the lab up, accepts them, shapes the link of one, and accepts them
again. What tells the machine that it ran on is replaced by other names. Ends the lab where it was
not up before.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence

from railgauge import paths
from railgauge.campaign import folder as campaigns
from railgauge.cli.lab import open_lab
from railgauge.common.atomic import write_text
from railgauge.report import page
from railgauge.report.feeds import markdown
from railgauge.verdict.decision.rules import decide

EXAMPLE = paths.HOME / "docs" / "example"
AREA = paths.HOME / "results" / "example"
NODES = "n[1-4]"

#: Of one run a side nothing is known of the spread.
RUNS = "3"

#: In place of the checkout, and of this host.
_CHECKOUT, _HOST = "/opt/railgauge", "login1"

_LIMIT_S = 600


def railgauge(*words: str, codes: Sequence[int] = (0,)) -> None:
    environment = {**os.environ, "RAILGAUGE_RESULTS": str(AREA)}
    command = [str(paths.HOME / "bin" / "railgauge"), *words]
    code = subprocess.run(command, env=environment, timeout=_LIMIT_S, check=False).returncode
    assert code in codes, f"{' '.join(words)}: exit code {code}, expected {codes}"


def anywhere(text: str, checkout: str = str(paths.HOME), host: str = "") -> str:
    """A page or a summary without the checkout's path and this host's name."""
    host = host or socket.gethostname()
    packed = re.search('<script type="text/plain" id="data">([^<]*)</script>', text)
    if packed is not None:
        numbers = gzip.decompress(base64.b64decode(packed[1])).decode()
        assert checkout not in numbers, "numbers and names of places have no paths"
    text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", _HOST, text)
    return text.replace(checkout, _CHECKOUT)


def publish(name: str) -> None:
    verdict = decide(campaigns.load("latest"))
    EXAMPLE.mkdir(exist_ok=True)
    write_text(EXAMPLE / f"{name}.html", anywhere(page.html(verdict)))
    write_text(EXAMPLE / f"{name}.md", anywhere(markdown.markdown(verdict)))
    print(f"{EXAMPLE / name}.html: {verdict.decision}")


def main() -> None:
    os.environ["RAILGAUGE_RESULTS"] = str(AREA)
    accept = ("accept", "--system", "lab", "--partition", "ns", "--nodes", NODES, "--runs", RUNS)
    was_up = open_lab().init is not None
    shutil.rmtree(AREA, ignore_errors=True)
    try:
        railgauge("lab", "up", "--nodes", NODES)
        railgauge(*accept)
        publish("accept")
        railgauge("lab", "fault", "add", "rate", "n2", "0.2")
        railgauge(*accept, codes=(1,))
        publish("reject")
        railgauge("lab", "fault", "clear")
    finally:
        if not was_up:
            railgauge("lab", "down")


if __name__ == "__main__":
    main()
