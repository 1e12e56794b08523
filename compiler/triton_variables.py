"""Variables of the environment that Triton reads while it compiles (triton/knobs.py, include/triton/Tools/Sys/GetEnv.hpp).

They are a rank's: plain Inductor compiles under them. So they travel with each graph, and those of whoever started the daemon
do not reach a worker.
"""

from collections.abc import Mapping

DECIDING = frozenset(
    {
        "ALLOW_LHS_TMEM_LAYOUT_CONVERSION",
        "DISABLE_LLVM_OPT",
        "DISABLE_MMA_V3",
        "DISABLE_MMA_V5",
        "DISABLE_PTXAS_OPT",
        "LLVM_EXTRACT_DI_LOCAL_VARIABLES",
        "LLVM_PASS_PLUGIN_PATH",
        "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS",
        "TRITON_DEFAULT_FP_FUSION",
        "TRITON_DISABLE_LINE_INFO",
        "TRITON_ENABLE_ASAN",
        "TRITON_ENABLE_EXPERIMENTAL_CONSAN",
        "TRITON_F32_DEFAULT",
        "TRITON_OVERRIDE_ARCH",
        "TRITON_PREFER_TMEM_16x256_LAYOUT_CONVERSION",
        "USE_IR_LOC",
    }
)
"""What they say is in the binaries."""

LOCAL = frozenset(
    {
        "LLVM_ENABLE_TIMING",
        "LLVM_IR_ENABLE_DUMP",
        "MLIR_ENABLE_DIAGNOSTICS",
        "MLIR_ENABLE_DUMP",
        "MLIR_ENABLE_TIMING",
        "NVPTX_ENABLE_DUMP",
        "PTXAS_OPTIONS",
        "TRITON_ALWAYS_COMPILE",
        "TRITON_DUMP_MIR",
        "TRITON_DUMP_PTXAS_LOG",
        "TRITON_ENABLE_LLVM_DEBUG",
        "TRITON_FRONT_END_DEBUGGING",
        "TRITON_INSTRUMENTATION_MODE",
        "TRITON_INTERPRET",
        "TRITON_KERNEL_DUMP",
        "TRITON_KERNEL_OVERRIDE",
        "TRITON_LLVM_DEBUG_ONLY",
        "TRITON_MOCK_PTX_VERSION",
        "TRITON_REPRODUCER_PATH",
    }
)
"""They ask for something to be seen or done where kernels are compiled, or Triton reads them when it is imported, which a
worker has done before it is given a graph."""

TOOLS = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH", "TRITON_LIBDEVICE_PATH")
"""Paths of files that Triton would otherwise have from its own package; they are a matter of the machine."""


def deciding(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of ``DECIDING`` that are set."""
    return {name: value for name in sorted(DECIDING) if (value := environment.get(name))}


def local(environment: Mapping[str, str]) -> str | None:
    """One of ``LOCAL`` that is set to more than off; None if none is."""
    return next((name for name in sorted(LOCAL) if environment.get(name, "0").lower() not in _OFF), None)


_OFF = ("", "0", "false", "off", "no")
