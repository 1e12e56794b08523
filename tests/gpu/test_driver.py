"""What is said in place of Triton's driver is what it says."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU; no other test does", allow_module_level=True)

_ASK = """
import json, sys
import torch
from torch._inductor import utils
from torch.utils import _triton
from triton.runtime import driver
from inductord.compiler.adapter import triton_target

if sys.argv[1] == "without":
    triton_target.install()
target = _triton.triton_backend().target
speeds = [utils.get_gpu_dram_gbps(), *(utils.get_device_tflops(dtype) for dtype in (torch.float32, torch.bfloat16))]
print(json.dumps([target.backend, target.arch, target.warp_size, *speeds, driver._active is None]))
"""


def test_target_and_speeds() -> None:
    said = {}
    for way in ("with", "without"):
        path = {"PATH": ""} if way == "without" else {}
        asked = subprocess.run(
            [sys.executable, "-c", _ASK, way], env=os.environ | path, capture_output=True, text=True, check=True
        )
        said[way] = json.loads(asked.stdout.splitlines()[-1])
    assert said["with"][-1] is False
    assert said["without"][-1] is True
    assert said["without"][:-1] == said["with"][:-1]
