"""Exemplars: which key and which job an observation belongs to. Prometheus keeps the latest of each bucket, in OpenMetrics."""

from inductord.daemon.metrics.job_labels import short

KEY_DIGITS = 16
"""`inductord store show` takes the beginning of a key. OpenMetrics allows an exemplar 128 characters in all."""


def exemplar(*, job: str, key: str = "") -> dict[str, str]:
    """Labels of an exemplar; what is empty is left out."""
    labels = {"key": key[:KEY_DIGITS], "job": short(job)}
    return {name: value for name, value in labels.items() if value}
