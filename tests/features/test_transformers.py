"""Models of ``transformers`` with static shapes, trained for some steps through the service: bitwise what plain Inductor gives,
no fallback."""

import pytest
from support.daemon import DaemonProcess
from support.models import MODELS, Sides

pytestmark = [pytest.mark.features, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def sides(real_daemon: DaemonProcess, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    return Sides.train(tmp_path_factory.mktemp("static"), real_daemon)


@pytest.mark.parametrize("model", MODELS)
def test_outputs_and_gradients_are_bitwise_those_of_inductor(sides: Sides, model: str) -> None:
    sides.check_numbers(model)


def test_no_graph_was_compiled_by_the_rank(sides: Sides) -> None:
    sides.check_served()
