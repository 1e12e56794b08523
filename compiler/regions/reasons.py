"""Why a graph is compiled whole instead of in pieces. A closed set: values are stable, as labels and in reports."""

import enum


class WholeReason(enum.StrEnum):
    """Reasons of the search for repeats not to cut a graph."""

    TOO_SMALL = "too_small"
    NO_REPEATS = "no_repeats"
    SAVES_TOO_LITTLE = "saves_too_little"
