"""Alert rules that are shipped: sound, firing when they should, about metrics that a server exports."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.contracts.engine_contract import until
from tests.server.house import House
from tests.server.process import ServerProcess
from tests.server.test_dashboard import NAME, exported
from tests.telemetry.processes.test_prometheus import Server

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "grus-alerts.yaml"
TESTS = RULES.with_name("grus-alerts-test.yaml")
PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="needs Debian's package prometheus")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("words", [("check", "rules", str(RULES)), ("test", "rules", str(TESTS))])
def test_promtool_accepts_the_rules_and_their_tests(words: tuple[str, ...]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_and_has_a_severity_and_a_summary() -> None:
    tested = TESTS.read_text()
    for rule in rules():
        assert f'alertname="{rule["alert"]}"' in tested, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def test_every_metric_of_the_rules_is_exported(house: House) -> None:
    house.submit(resources={"gpu": 1})
    for _ in range(3):
        house.engine.now += 1.0
        house.measure()
    there = exported(house)
    asked = {name for rule in rules() for name in NAME.findall(rule["expr"])}
    assert len(asked) > 10
    assert asked - set(there) == set()


class Scraper(Server):
    """A Prometheus that scrapes a Grus server under the shipped rules, without their waiting times."""

    def alerts_on(self, folder: Path, place: str, token: Path) -> None:
        at_once = re.sub(r"(?m)^        for: .*$", "        for: 0s", RULES.read_text())
        (folder / "rules.yaml").write_text(at_once)
        job = {
            "job_name": "grus",
            "authorization": {"credentials_file": str(token)},
            "static_configs": [{"targets": [place]}],
        }
        pace = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config = {"global": pace, "rule_files": [str(folder / "rules.yaml")], "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def firing(self) -> set[str]:
        return {labels["alertname"] for labels in self.labels('ALERTS{alertstate="firing"}')}

    def health(self) -> list[tuple[str, str]]:
        answer = httpx2.get(f"{self.url}/api/v1/rules", trust_env=False).json()
        return [
            (rule["name"], rule["health"]) for group in answer["data"]["groups"] for rule in group["rules"]
        ]


def test_a_real_prometheus_fires_when_a_real_server_is_killed_and_not_before(tmp_path: Path) -> None:
    server, scraper = ServerProcess(tmp_path / "home"), Scraper(tmp_path)
    server.start()
    try:
        with server.client() as client:
            place = client.address.removeprefix("http://")
        scraper.alerts_on(tmp_path, place, server.places.token_file)
        scraper.start()
        until(lambda: any(one["job"] == "grus" for one in scraper.labels('up{job="grus"} == 1')))
        until(lambda: {state for _, state in scraper.health()} == {"ok"})
        until(lambda: "GrusDown" not in scraper.firing())  # it fired before the first scrape
        server.kill()
        until(lambda: "GrusDown" in scraper.firing())
    finally:
        scraper.stop()
        server.end()
