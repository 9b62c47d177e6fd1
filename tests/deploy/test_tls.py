"""With a Secret for TLS the pods speak it alone, and everything that calls them knows."""

import json
from pathlib import Path

import pytest
import trustme

from tests.deploy.chart import CASES, Chart, container, environment, one
from tests.deploy.test_roundtrip import roundtrip
from tests.support.certificates import issue
from tests.support.servers import acker_serve

SECRET = ("tls.existingSecret=acker-serving",)


@pytest.mark.parametrize(
    ("case", "name"), [("plain", "acker-api"), ("plain", "acker-worker"), ("together", "acker-api")]
)
def test_every_pod_shows_the_certificate_and_is_probed_over_tls(chart: Chart, case: str, name: str) -> None:
    workload = one(chart.objects(*CASES[case], sets=SECRET), "Deployment", name)
    told, acker = environment(workload), container(workload)
    assert (told["ACKER_TLS_CERT"], told["ACKER_TLS_KEY"]) == ("/etc/acker/tls/tls.crt", "/etc/acker/tls/tls.key")
    assert {"name": "tls", "mountPath": "/etc/acker/tls", "readOnly": True} in acker["volumeMounts"]
    volume = {"name": "tls", "secret": {"secretName": "acker-serving", "defaultMode": 0o440}}
    assert volume in workload["spec"]["template"]["spec"]["volumes"]
    probes = [acker[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")]
    assert probes == ["HTTPS"] * 3


def test_whoever_calls_them_does_so_over_tls(chart: Chart) -> None:
    objects = chart.objects(*CASES["full"], sets=SECRET)
    for name in ("acker", "acker-api-replicas", "acker-worker-replicas"):
        assert one(objects, "Service", name)["spec"]["ports"][0]["appProtocol"] == "https"
    (scrape,) = one(objects, "PodMonitor", "acker")["spec"]["podMetricsEndpoints"]
    assert (scrape["scheme"], scrape["tlsConfig"]) == ("https", {"insecureSkipVerify": True})
    pod = one(objects, "Pod", "acker-roundtrip")["spec"]
    told = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
    assert (told["URL"], told["CERTIFICATE"]) == ("https://acker:8700", "/etc/acker/tls/tls.crt")
    (volume,) = pod["volumes"]
    assert volume["secret"]["items"] == [{"key": "tls.crt", "path": "tls.crt"}], "and not the key"
    assert pod["containers"][0]["volumeMounts"] == [{"name": "tls", "mountPath": "/etc/acker/tls", "readOnly": True}]


def test_without_one_nothing_speaks_of_it(chart: Chart) -> None:
    rendered = json.dumps(chart.objects(*CASES["production"], sets=("podMonitor.enabled=true",)))
    assert [word for word in ("https://acker", "HTTPS", "ACKER_TLS", "/etc/acker/tls") if word in rendered] == []


def test_alerts_lead_to_the_page_over_tls(chart: Chart) -> None:
    sets = (*SECRET, "podMonitor.enabled=true", "prometheusRule.enabled=true")
    rules = one(chart.objects(*CASES["plain"], sets=sets), "PrometheusRule", "acker")
    assert "https://acker.acks.svc:8700/ui/" in json.dumps(rules)
    assert "http://acker.acks.svc" not in json.dumps(rules)


def test_the_roundtrip_trusts_the_certificate_of_the_secret_and_no_other(tmp_path: Path) -> None:
    files, others = issue(tmp_path, "acker.acks.svc"), tmp_path / "others.crt"
    trustme.CA().issue_cert("127.0.0.1").cert_chain_pems[0].write_to_path(others)
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), *files.options) as acker:
        ran = roundtrip(acker.url, CERTIFICATE=str(files.certificate))
        assert ran.returncode == 0, ran.stderr
        refused = roundtrip(acker.url, CERTIFICATE=str(others), PATIENCE_S="0")
        assert (refused.returncode, "CERTIFICATE_VERIFY_FAILED" in refused.stderr) == (1, True), refused.stderr
