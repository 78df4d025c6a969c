"""The six metrics of old, and what is measured beside them."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from server_fakes import Broken, BrokenTokenizer, Echo, EndlessModel, EndlessRing, Paced, SlowTokenizer
from server_live import read_response, read_until, wait_for

from server import Metrics, __version__, errors
from server.generate import GenerationHandler
from server.metrics import REQUEST_SECONDS_BUCKETS

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"

SIX = {
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


FURTHER = {
    "kael_rejected_total": "counter",
    "kael_prompt_tokens_total": "counter",
    "kael_cached_prompt_tokens_total": "counter",
    "kael_guessed_tokens_total": "counter",
    "kael_time_to_first_token_seconds": "histogram",
    "kael_time_between_tokens_seconds": "histogram",
    "kael_cancel_seconds": "histogram",
    "kael_slot_busy_seconds_total": "counter",
    "kael_slot_held_seconds": "gauge",
    "kael_requests_waiting": "gauge",
    "kael_build_info": "gauge",
}


def test_the_six_of_old_have_their_names_and_types_and_there_are_these_others():
    types = [line.split()[2:] for line in page(Metrics("int8")).splitlines() if line.startswith("# TYPE")]
    assert dict(types) == {**SIX, **FURTHER}


@pytest.mark.parametrize("model", [Echo(), Broken(tokens=2)])
def test_both_formats_are_what_their_parsers_read(serve, model):  # B127, B128
    server = serve(model)
    server.generate()
    server.post(b"{}")
    plain = list(parser.text_string_to_metric_families(page(server.generator.metrics)))
    strict = openmetrics_parser.text_string_to_metric_families(page(server.generator.metrics, OPEN_METRICS))
    values = [
        {(sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples}
        for families in (plain, strict)
    ]
    assert values[0] == values[1]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say():
    subprocess.run(
        ["promtool", "check", "metrics"], input=page(Metrics("int8")).encode(), check=True, timeout=60
    )


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


def test_what_is_rejected_is_counted_by_reason(serve):
    server = serve(Paced(), context=64, api_keys=("key",), allowed_hosts=("a.org",))
    key = {"Authorization": "Bearer key"}
    prompt = b'{"prompt": "hi", "max_tokens": 1}'

    def post(body=prompt, **headers):
        return server.request("POST", "/generate", body, {**key, **headers}).status

    assert post(b"x" * 60_000) == 413
    assert post(b"{}") == 422
    assert post(b'{"prompt": "hi", "max_tokens": 500}') == 413
    assert post(Authorization="Bearer other") == 401
    assert post(Host="evil.example") == 403
    assert post(Origin="https://evil.example") == 403
    server.generator.reserve()
    assert post() == 429
    server.generator.release()
    server.generator.shutting_down.set()
    assert post() == 503
    reasons = (*errors.BUSY_REASONS, *errors.REJECTED_REASONS)
    assert [server.sample("kael_rejected_total", reason=reason) for reason in reasons] == [1] * 8
    assert server.counts() == {"busy": 2, "rejected": 6}


def test_every_refusal_has_an_outcome_and_one_of_its_reasons():
    refusals = [
        errors.invalid([]),
        errors.body_too_large(1),
        errors.outgrows_context(1, 2, 3),
        errors.no_key(),
        errors.wrong_host(),
        errors.wrong_origin(),
        errors.busy(1),
        errors.shutting_down(),
    ]
    reasons = {"busy": errors.BUSY_REASONS, "rejected": errors.REJECTED_REASONS}
    assert all(refusal.reason in reasons[refusal.outcome] for refusal in refusals)
    assert {refusal.reason for refusal in refusals} == {*errors.BUSY_REASONS, *errors.REJECTED_REASONS}


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_counted_before_the_end_of_its_answer_is_sent(serve, stream, monkeypatch):
    server = serve(Echo())
    counted = []

    async def send(self, data, bridge, original=GenerationHandler._send):
        counted.append(server.counts())
        await original(self, data, bridge)

    monkeypatch.setattr(GenerationHandler, "_send", send)
    assert server.generate(stream=stream, max_tokens=2).status == 200
    assert counted[-1] == {"ok": 1}


def test_the_time_to_the_first_token_counts_from_the_arrival(serve):
    model = Paced()
    encoding = 0.2
    server = serve(model, SlowTokenizer(seconds=encoding), queue=1)
    clients = [server.begin(max_tokens=1)]
    assert server.generator.tokenizer.started.wait(20)
    clients.append(server.begin(max_tokens=1))
    wait_for(lambda: server.sample("kael_requests_waiting") == 1)
    arrived = time.monotonic()
    wait_for(lambda: model.awaits == 0)  # the first has been encoded, and the second has waited for it
    waited = time.monotonic() - arrived
    model.step(2)
    assert [read_response(client).status for client in clients] == [200, 200]
    assert server.sample("kael_time_to_first_token_seconds_sum") >= 2 * encoding + waited


@pytest.mark.parametrize("stream", [False, True])
def test_times_of_tokens_are_those_of_every_generation(serve, stream):
    model = Paced()
    server = serve(model)
    client = server.begin("hello", stream=stream, max_tokens=3)
    for number in range(3):
        model.step()
        wait_for(lambda number=number: server.received == number + 1)
    assert read_response(client).status == 200
    assert server.sample("kael_time_to_first_token_seconds_count") == 1
    assert server.sample("kael_time_between_tokens_seconds_count") == 2
    assert server.sample("kael_time_to_first_token_seconds_sum") > 0
    assert server.sample("kael_prompt_tokens_total") == 5
    assert server.sample("kael_cancel_seconds_count") == 0


def test_a_generation_without_a_token_has_no_time_to_its_first(serve):
    server = serve(Broken())
    server.generate()
    assert server.sample("kael_time_to_first_token_seconds_count") == 0
    server.generator.model = Broken(tokens=2)
    server.generate()
    assert server.sample("kael_time_to_first_token_seconds_count") == 1
    assert server.sample("kael_time_between_tokens_seconds_count") == 1


@pytest.mark.parametrize("model", [EndlessModel, EndlessRing])
def test_a_client_that_leaves_is_timed_until_the_slot_is_free(serve, model):
    server = serve(model(seconds=0.03))
    client = server.begin(stream=True)
    read_until(client, b"data: ")
    client.close()
    server.wait_until_free()
    assert server.sample("kael_cancel_seconds_count") == 1
    assert 0 < server.sample("kael_cancel_seconds_sum") < 5


def test_a_client_that_leaves_while_its_prompt_is_encoded_is_timed_too(serve):
    server = serve(Echo(), SlowTokenizer(seconds=5))
    client = server.begin()
    assert server.generator.tokenizer.started.wait(5)
    client.close()
    server.wait_until_free()
    server.generator.tokenizer.released.set()
    assert server.sample("kael_cancel_seconds_count") == 1
    assert server.sample("kael_cancel_seconds_sum") < 1
    assert server.sample("kael_prompt_tokens_total") == 0


def test_the_time_of_the_slot_is_counted_whoever_held_it(serve):
    server = serve(Echo(), BrokenTokenizer())
    assert server.sample("kael_slot_held_seconds") == 0
    server.generate()
    after_a_failure = server.sample("kael_slot_busy_seconds_total")
    assert 0 < after_a_failure < 5
    server.generator.reserve()
    wait_for(lambda: server.sample("kael_slot_held_seconds") > 0.02)
    server.generator.release()
    assert server.sample("kael_slot_busy_seconds_total") >= after_a_failure + 0.02
    assert server.sample("kael_slot_held_seconds") == 0


def test_those_who_wait_are_counted(serve):
    model = Paced()
    server = serve(model, queue=2)
    clients = [server.begin(max_tokens=1) for _ in range(3)]
    wait_for(lambda: server.sample("kael_requests_waiting") == 2)
    model.step(3)
    assert [read_response(client).status for client in clients] == [200] * 3
    assert server.sample("kael_requests_waiting") == 0


def test_the_versions_are_told():
    (family,) = (
        f for f in parser.text_string_to_metric_families(page(Metrics("int8"))) if f.name == "kael_build_info"
    )
    (sample,) = family.samples
    assert sample.labels["version"] == sample.labels["library"] == __version__
    assert sample.labels["dtype"] == "int8"
    assert set(sample.labels) == {"version", "library", "python", "tornado", "dtype"}
