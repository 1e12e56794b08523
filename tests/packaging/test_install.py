"""The wheel in an environment of its own: its entry points, and how light it is for a rank."""

import json
from pathlib import Path

import pytest
from support.installs import Environment

import inductord

pytestmark = pytest.mark.packaging

# Of the extras. A rank has torch, gRPC and protobuf, and pays for no more.
EXTRAS = ("click", "rich", "pydantic", "pydantic_settings", "platformdirs", "prometheus_client", "psutil", "ray")


def test_it_is_the_wheel_that_is_imported(installed: Environment) -> None:
    """Else all that follows would test the checkout."""
    assert installed.home_of("inductord") == installed.packages / "inductord"


def test_the_console_script_answers(installed: Environment) -> None:
    assert inductord.__version__ in installed.script("inductord", "--version")
    assert "doctor" in installed.script("inductord", "--help")


def test_the_module_is_the_command_serve(installed: Environment) -> None:
    assert "inductord serve" in installed.run("-m", "inductord.daemon", "--help")


def test_dynamo_finds_the_backend(installed: Environment) -> None:
    code = "import torch, torch._dynamo as d; assert 'inductord' in d.list_backends(); print(d.lookup_backend('inductord'))"
    assert "inductord" in installed.run("-c", code, env={"HOME": str(installed.folder)})


def test_importing_torch_loads_the_hook_and_no_more(installed: Environment) -> None:
    """The hook runs in every process that imports torch, most of which have nothing to do with us."""
    code = "import json, sys, torch; print(json.dumps([name for name in sys.modules if name.startswith('inductord')]))"
    assert set(json.loads(installed.run("-c", code))) == {"inductord", "inductord.compiler", "inductord.compiler.hook"}


def test_the_hook_routes_inductor_only_when_asked(installed: Environment, tmp_path: Path) -> None:
    code = "import sys, torch._inductor.compile_fx; print('inductord.compiler.routing' in sys.modules)"
    env = {"HOME": str(tmp_path), "INDUCTORD_ADDRESS": f"unix:{tmp_path}/nobody.sock"}
    assert installed.run("-c", code, env=env).strip() == "False"
    assert installed.run("-c", code, env=env | {"INDUCTORD": "1"}).strip() == "True"


def test_a_rank_needs_none_of_the_extras(installed: Environment, tmp_path: Path) -> None:
    """A whole compile, fallback included, with the extras impossible to import."""
    script = tmp_path / "rank.py"
    script.write_text(
        "import sys\n"
        f"for name in {EXTRAS!r}: sys.modules[name] = None\n"
        "import torch\n"
        "import inductord.compiler.task\n"
        "square = torch.compile(lambda x: x @ x, backend='inductord')\n"  # a product needs no C++ compiler
        "assert torch.equal(square(torch.ones(3, 3)), torch.full((3, 3), 3.0))\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'grpc'][:1])\n"
    )
    env = {
        "HOME": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "INDUCTORD_ADDRESS": f"unix:{tmp_path}/nobody.sock",
    }
    assert "grpc" in installed.run(str(script), env=env)


def test_without_its_extra_the_command_says_what_to_install(rank_floor: Environment) -> None:
    said = rank_floor.script("inductord", "status", code=1)
    assert "pip install 'inductord[daemon]'" in said
    assert "Traceback" not in said
