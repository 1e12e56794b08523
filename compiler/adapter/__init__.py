"""The one place that touches private PyTorch. Nothing outside this package may import or read a private torch name.

``seam``            where Inductor hands a graph over, and how to let it compile in this process
``bypass``          which graphs cannot travel, and why
``fingerprint``     PyTorch's own account of what decides the code, as parts of a key
``ambient``         process-wide settings that code generation reads: described on the rank, applied on the worker
``tracing``         symbolic shapes, guards, and what else code generation reads of the tracing context
``wire``            a graph with its inputs and options as bytes, and back
``compiling``       the worker's side: bytes to compiled graph
``loading``         the rank's side: compiled graph to something that runs
``accounting``      what compiling cost this process, by PyTorch's own account
``doors``           Inductor's compile of one graph, for callers of AOTAutograd
``remote_cache``    PyTorch's own remote caches, and what their entries name
``profile``         when Dynamo reads its profile from one of them
``user_kernels``    Triton kernels of the user: described on the rank, made anew on the worker
``shared_objects``  C++ kernel libraries: captured where they are built, supplied where they are loaded

Checked against torch 2.11, 2.13 and 2.14 (``SUPPORTED``); on any other version the rank uses plain Inductor and says so.
"""

SUPPORTED = ((2, 11), (2, 16))
"""First supported (major, minor) and first that is not, as in ``pyproject.toml``."""


def supported(version: str) -> bool:
    """Whether the adapter was made for this release of torch, e.g. ``"2.13.0+cpu"``."""
    major, minor = version.split(".")[:2]
    return SUPPORTED[0] <= (int(major), int(minor)) < SUPPORTED[1]
