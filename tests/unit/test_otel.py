"""When there are traces, and what is made of a context from outside."""

import pytest

from inductord.compiler import otel

pytestmark = pytest.mark.unit

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4317"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console,otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_the_standard_variables_decide(variables: dict[str, str], wanted: bool) -> None:
    assert otel.wanted(variables) is wanted


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", False),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", False),
        ("01-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
        (b"\xff\xfe", False),
        ("", False),
        (None, False),
    ],
)
def test_contexts_from_outside_are_whole_or_none(given: str | bytes | None, taken: bool) -> None:
    assert bool(otel.checked(given)) is taken


def test_without_traces_there_is_nothing_to_carry() -> None:
    span = otel.NoSpans().begin("inductord.graph", {"inductord.nodes": 3})
    span.child("wait", 0.0, 1.0)
    span.link("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    span.end({}, error="lost")
    assert span.traceparent == ""
