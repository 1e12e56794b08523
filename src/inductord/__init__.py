"""inductord: a per-node compile daemon for PyTorch training.

Ranks that meet the same graph have it compiled once. Two ways to use it from a training script, both optional:

* ``inductord run -- torchrun ... train.py`` routes every ``torch.compile`` of an unmodified script through the daemon;
* ``torch.compile(model, backend="inductord")`` asks for it in the script.

This package imports nothing on its own: a rank pays for what it uses.
"""

__version__ = "0.1.0"
