"""A real Prometheus that tests may ask: with the project's rules, and targets of the test's own."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RULES = Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yml"

SCRAPE_S = 1


def missing() -> str:
    """Why there is no Prometheus here; empty where there is one."""
    absent = [program for program in ("prometheus", "promtool") if shutil.which(program) is None]
    return f"there is no {' and no '.join(absent)}: run `make prometheus`" if absent else ""


class PrometheusServer:
    """One server with data of its own.

    Attributes:
        url: Where it answers.
    """

    def __init__(self, folder: Path, targets: Mapping[str, str], rules: str) -> None:
        """Start it.

        Args:
            folder: Its own, which it makes.
            targets: Addresses by the name that they have as instances, and that their pools have.
            rules: The text of its rules.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        folder.mkdir()
        (folder / "rules.yml").write_text(rules)
        configuration = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {
                    "job_name": "steepest",
                    "static_configs": [
                        {"targets": [address], "labels": {"instance": name}} for name, address in targets.items()
                    ],
                    "metric_relabel_configs": [
                        {
                            "source_labels": ["pool", "instance"],
                            "regex": "(.+);(.+)",
                            "target_label": "pool",
                            "replacement": "$2",
                        }
                    ],
                }
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(configuration))
        self._output = folder / "prometheus.log"
        self.url = f"http://127.0.0.1:{port}"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=output,
                stderr=output,
            )

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        assert self._process.poll() is None, self._output.read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **arguments: str) -> Any:
        """The data that its API has at a path.

        Raises:
            ValueError: It refuses the question, and says why.
        """
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error).get("error", str(error))) from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that an expression has now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def course(self, expression: str, since_s: float, until_s: float) -> list[dict[str, Any]]:
        """The series that an expression has had between two moments, as a graph shows them."""
        span = {"start": str(since_s), "end": str(until_s), "step": str(SCRAPE_S)}
        found: list[dict[str, Any]] = self.ask("query_range", query=expression, **span)["result"]
        return found

    def firing(self) -> set[tuple[str, str]]:
        """Alerts that fire: name and, where it has one, instance or pool."""
        return {
            (alert["labels"]["alertname"], alert["labels"].get("instance") or alert["labels"].get("pool", ""))
            for alert in self.ask("alerts")["alerts"]
            if alert["state"] == "firing"
        }

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
