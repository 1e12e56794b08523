"""Runs a script under a torch that calls itself another version: the release that nobody knows yet.

python with_torch.py VERSION SCRIPT [ARGUMENT ...]
"""

import runpy
import sys

import torch

_, version, script, *arguments = sys.argv
torch.__version__ = version
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
