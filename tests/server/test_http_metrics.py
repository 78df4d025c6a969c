"""The six metrics."""

from __future__ import annotations

import pytest
from server_fakes import Broken

from server import Metrics
from server.metrics import REQUEST_SECONDS_BUCKETS

NAMES = {
    "kael_requests_total": "counter",
    "kael_generated_tokens_total": "counter",
    "kael_tokens_per_second": "gauge",
    "kael_requests_in_flight": "gauge",
    "kael_request_seconds": "histogram",
    "kael_peak_memory_bytes": "gauge",
}


def page(metrics, accept=""):
    text, _ = metrics.render(accept)
    return text.decode()


def test_there_are_these_six_and_no_other():
    types = [line.split()[2:] for line in page(Metrics()).splitlines() if line.startswith("# TYPE")]
    assert dict(types) == NAMES


def test_no_series_says_when_a_counter_was_made():  # T26
    metrics = Metrics()
    metrics.finish_generation(1, 1.0)
    for accept in ("", "application/openmetrics-text; version=1.0.0"):
        assert "_created" not in page(metrics, accept)


def test_two_servers_in_one_process_count_apart():  # T27
    one, other = Metrics(), Metrics()
    one.count_request("ok")
    assert 'kael_requests_total{status="ok"} 1.0' in page(one)
    assert 'kael_requests_total{status="ok"} 0.0' in page(other)


def test_the_histogram_is_cumulative():
    metrics = Metrics()
    for seconds in (0.4, 1.5, 7.0):
        metrics.finish_generation(10, seconds)
    sample = metrics.registry.get_sample_value
    counts = [sample("kael_request_seconds_bucket", {"le": str(float(b))}) for b in REQUEST_SECONDS_BUCKETS]
    assert counts == [0, 1, 1, 2, 2, 3, 3, 3, 3]
    assert sample("kael_request_seconds_bucket", {"le": "+Inf"}) == 3
    assert sample("kael_request_seconds_sum") == pytest.approx(8.9)
    assert sample("kael_request_seconds_count") == 3
    assert sample("kael_generated_tokens_total") == 30
    assert sample("kael_tokens_per_second") == pytest.approx(10 / 7)


def test_an_outcome_outside_the_list_is_refused():  # B005 of the label kind: a closed set
    with pytest.raises(KeyError):
        Metrics().count_request("200")


def test_peak_memory_is_in_bytes():
    peak = Metrics().registry.get_sample_value("kael_peak_memory_bytes")
    assert 10e6 < peak < 100e9


def test_each_request_counts_once_and_the_sums_agree(serve):  # B122, B124
    model = Broken(tokens=3)
    server = serve(model)
    server.generate()
    server.generate(stream=True)
    server.post(b"{}")
    assert server.counts() == {"error": 2, "rejected": 1}
    assert server.sample("kael_request_seconds_count") == 2
    assert server.sample("kael_generated_tokens_total") == 6


@pytest.mark.parametrize(
    "accept", ["text/plain;version=abc", "application/openmetrics-text;version=1.0.x", "nonsense", ";;="]
)
def test_an_accept_header_of_nonsense_gets_the_text_format(accept):
    _, content_type = Metrics().render(accept)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
