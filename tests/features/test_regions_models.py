"""How models of ``transformers`` are cut. Their pieces, run one after the other, give bitwise what the graphs give."""

from typing import Any

import pytest
from support.needs import needs_module
from support.training import FINDS_SUPPORT, Running, environment, python

pytestmark = [pytest.mark.features, pytest.mark.timeout(900)]

CUT = {
    # model: how often each shape occurs
    "Llama": [1, 3, 1],
    "Qwen3": [1, 3, 1],
    "GPT-2": [1, 3, 1],
    "BERT": [1, 3, 1],
    "T5": [1, 3, 2, 1, 3, 1],
    "Mixtral": [1, 3, 1],
    "ViT": [1, 3, 1],
    "ConvNeXt": [1, 3, 1, 1, 1, 2, 1, 8, 1, 2, 1],
    "ResNet": [1, 2, 1, 2, 1, 2, 1, 1, 2, 1, 4, 1, 1, 2, 1, 1],
    "Llama, dynamic": [1, 3, 1],
    "Llama, checkpointing": [1, 4, 1],
    "Llama, autocast": [1, 3, 1],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    needs_module("transformers")
    env = environment(tmp_path_factory.mktemp("cuts"), None, **FINDS_SUPPORT)
    result: dict[str, Any] = Running(python("cuts.py"), env).finish().result
    return result


@pytest.mark.parametrize("model", CUT)
def test_layers_are_found_and_pieces_run_like_the_graph(found: dict[str, Any], model: str) -> None:
    assert isinstance(found[model], list), found[model]
    graph = found[model][0]  # GPT-2 has a second one, of the loss
    assert graph.get("counts") == CUT[model], graph
    assert graph["note"] == "cut at values that are in memory anyway"


def test_a_graph_too_small_is_left_whole(found: dict[str, Any]) -> None:
    assert [graph["whole"] for graph in found["GPT-2"][1:]] == ["too_small"]
