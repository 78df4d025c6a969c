"""The dashboard and the alerts ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
import server_process

from server import Metrics, errors
from server.metrics import OUTCOMES

FOLDER = server_process.ROOT / "packaging" / "monitoring"
ALERTS = FOLDER / "prometheus-alerts.yml"


@pytest.fixture(scope="module")
def dashboard():
    return json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def samples():
    """The name of every series."""
    page = Metrics().render("")[0].decode()
    return set(re.findall(r"^(kael_\w+)", page, re.MULTILINE))


def metrics_in(text):
    return set(re.findall(r"\bkael_\w+", text))


def test_the_dashboard_asks_for_metrics_that_there_are(dashboard, samples):
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert all(metrics_in(query) <= samples for query in queries)
    shown = set().union(*map(metrics_in, queries))
    histograms = {name for name in samples if name.endswith(("_bucket", "_sum", "_count"))}
    assert samples - shown - histograms == set()  # and leaves none out
    assert {name for name in samples if name.endswith("_bucket")} <= shown


def test_every_panel_has_a_title_a_description_a_unit_and_a_place_of_its_own(dashboard):
    places = set()
    for panel in dashboard["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        places.add((panel["gridPos"]["x"], panel["gridPos"]["y"]))
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    assert len(places) == len(dashboard["panels"]) == len({panel["id"] for panel in dashboard["panels"]})


def test_the_alerts_ask_for_metrics_and_labels_that_there_are(samples):
    text = ALERTS.read_text(encoding="utf-8")
    assert metrics_in(text) <= samples
    assert set(re.findall(r'status="(\w+)"', text)) <= set(OUTCOMES)
    assert set(re.findall(r'reason="(\w+)"', text)) <= {*errors.BUSY_REASONS, *errors.REJECTED_REASONS}
    assert text.count("- alert: Kael") == text.count("summary: ") == text.count("action: ") > 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_reads_the_alerts():
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True, timeout=60)
