"""What a daemon's metrics say, read as Prometheus reads them."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families
from support.daemon import DaemonProcess

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(daemon: DaemonProcess, *, openmetrics: bool = False) -> str:
    """One scrape; in the format with exemplars if asked for."""
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"} if openmetrics else {}
    request = urllib.request.Request(f"http://{daemon.status().metrics_address}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def samples(text: str) -> Samples:
    """Values by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(seen: Samples, name: str, **labels: str) -> float:
    """One of them."""
    return seen[(name, frozenset(labels.items()))]


def nonzero(daemon: DaemonProcess, name: str) -> dict[str, int]:
    """A counter with one label, where it is not zero: by that label."""
    return {
        label: int(count)
        for (sample, labels), count in samples(page(daemon)).items()
        if sample == name and count
        for _, label in labels
    }
