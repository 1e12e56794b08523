"""Models of ``transformers`` composed of regions: the gradients are those of eager mode."""

from typing import Any

import pytest
from support.needs import needs_module
from support.training import FINDS_SUPPORT, Running, environment, python

pytestmark = [pytest.mark.features, pytest.mark.timeout(900)]

# Relative, over all parameters. Where it is larger, the model computes in float32: Llama and Qwen3 their rotary positions.
ERROR = {
    "Llama": 1e-6,
    "Qwen3": 1e-6,
    "GPT-2": 1e-12,
    "BERT": 1e-12,
    "T5": 1e-12,
    "Mixtral": 1e-5,
    "ViT": 1e-12,
    "ConvNeXt": 1e-12,
    "ResNet": 1e-9,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    needs_module("transformers")
    env = environment(tmp_path_factory.mktemp("composed"), None, **FINDS_SUPPORT)
    result: dict[str, Any] = Running(python("composed.py", *ERROR), env).finish().result
    return result


@pytest.mark.parametrize("model", ERROR)
def test_gradients_are_those_of_eager_mode(found: dict[str, Any], model: str) -> None:
    assert isinstance(found[model], dict), found[model]
    pieces, distinct = found[model]["graphs"][0]
    assert distinct < pieces
    assert found[model]["gradient_error"] < ERROR[model]
    assert found[model]["buffers_equal"]
