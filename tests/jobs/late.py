"""A script whose first import of Inductor is of a part that the table of lowerings needs, so that some of what PyTorch itself
registers there comes after the table. Prints what is taken for the job's."""

import json

import torch
import torch._inductor.choices

from inductord.compiler.adapter import replaced_parts

print(json.dumps([torch._inductor.choices.__name__, *replaced_parts.found()]))
