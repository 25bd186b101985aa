"""What ReFrame keeps of the parameter of a case."""

from __future__ import annotations

import json

from reframe.utility import jsonext

from railgauge.checks.framework.cases import NodeCase, PartitionCase


def test_the_report_and_the_history_have_the_name_of_a_case() -> None:
    entry = {"place": NodeCase("ns", "n1"), "where": PartitionCase("ns", ("n1", "n2"))}
    assert json.loads(jsonext.dumps(entry)) == {"place": "ns:n1", "where": "ns"}
