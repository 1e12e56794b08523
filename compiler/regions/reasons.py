"""What became of a graph that may be cut into pieces, and why it was not. Closed sets: values are stable, as labels and in
reports."""

import enum


class RegionResult(enum.StrEnum):
    """What became of a graph of Dynamo."""

    COMPOSED = "composed"
    WHOLE = "whole"
    OFF = "off"


class WholeReason(enum.StrEnum):
    """Reasons not to cut a graph, or to give a cut up."""

    # The search for repeats.
    TOO_SMALL = "too_small"
    NO_REPEATS = "no_repeats"
    SAVES_TOO_LITTLE = "saves_too_little"
    # How the graph is to be compiled.
    CUDA_GRAPHS = "cuda_graphs"
    MODE = "mode"
    # What is in the graph.
    MUTATION = "mutation"
    ALIAS = "alias"
    EFFECTS = "effects"
    SUBCLASS = "subclass"
    RANDOM = "random"
    GRAD_MODE = "grad_mode"
    CONVENTION = "convention"
    # What nobody expected.
    ERROR = "error"


class NotCut(Exception):
    """A graph that was cut is compiled whole after all. The message is one sentence for people."""

    def __init__(self, reason: WholeReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
