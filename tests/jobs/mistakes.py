"""What a user sees who gets the arguments of ``torch.compile`` wrong, by backend. Prints the messages."""

import json
import traceback
from typing import Any

import torch

MISTAKES: dict[str, dict[str, Any]] = {
    "mode": {"mode": "fastest"},
    "option": {"options": {"no_such_option": 1}},
    "type": {"options": {"max_autotune": "much"}},
}


def message(backend: str, arguments: dict[str, Any]) -> str:
    torch.compiler.reset()
    try:
        torch.compile(lambda x: x + 1, backend=backend, **arguments)(torch.ones(2))
    except RuntimeError as error:
        return "".join(traceback.format_exception_only(error))[:240]  # Inductor goes on to list all its options
    return "no RuntimeError"


print(
    json.dumps(
        {
            backend: {name: message(backend, arguments) for name, arguments in MISTAKES.items()}
            for backend in ("inductor", "inductord")
        }
    )
)
