"""No secret stays in a text for a ticket, whatever form it has; plain words stay."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.site import redaction

SECRETS = st.text(string.ascii_letters + string.digits + "-_", min_size=8, max_size=40).map(
    lambda text: f"Zq7{text}"
)


@given(
    SECRETS,
    st.sampled_from(
        [
            "https://hooks.example.org/services/{}",
            "https://example.org/?token={}",
            "https://example.org#{}",
            "https://user:{}@example.org/path",
            "https://user:p/{}@example.org/path",
            "https://{}@example.org",
            "curl -u ops:{} https://example.org",
            "curl --user ops:{}",
            "tell --token {} n1",
            "tell --api-key {}",
            "tell --token={}",
            "tell --password '{} two'",
            "curl --header 'Authorization: Bearer {}'",
            "API_KEY: {}",
            'webhook="{}"',
        ]
    ),
)
def test_a_secret_does_not_stay_in_a_text(secret: str, form: str) -> None:
    assert secret not in redaction.text(form.format(secret))


@given(st.text(string.ascii_letters + string.digits, min_size=20, max_size=60).map("a1{}".format))
def test_a_long_word_does_not_stay_in_a_variable(secret: str) -> None:
    for form in ("{}", "tell {}", "x={}", "{}.{}", "ab/{}"):
        assert secret not in redaction.variable("RAILGAUGE_ON_VERDICT", form.format(secret, secret))


@pytest.mark.parametrize(
    "name",
    ["SLURM_JWT", "RAILGAUGE_TOKEN", "RAILGAUGE_WEBHOOK_URL", "RFM_API_KEY", "db_password", "pwd"],
)
def test_a_variable_that_is_named_as_a_secret_is_hidden(name: str) -> None:
    assert redaction.variable(name, "short") == redaction.HIDDEN


@pytest.mark.parametrize(
    "value",
    [
        "/usr/local/bin:/opt/spack/opt/linux-debian12-x86_64_v3/gcc-12.2.0/iperf-2.2.1-abcdefgh1234",
        "/etc/railgauge/tell --to ops",
        "n[1-4],login01.cluster.example.org",
        "--account=hpc --qos=maintenance",
        "http://proxy.example.org:3128",
        "host 'vm' matches no `hostnames` in configs/systems/*/reframe.yaml",
        "the key teeth is now called enforcement",
    ],
)
def test_plain_words_stay(value: str) -> None:
    assert redaction.text(value) == value
    assert redaction.variable("RFM_X", value) == value


def test_a_commit_stays_in_a_text() -> None:
    words = "0.1.0+dev (commit a3213b8e3395+changes)"
    assert redaction.text(words) == words


def test_of_a_url_the_host_stays() -> None:
    assert redaction.text("to https://hooks.example.org:8443/T0/B1 now") == (
        "to https://hooks.example.org:8443/(hidden) now"
    )
