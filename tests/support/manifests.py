"""Kubernetes manifests as ``kubectl kustomize`` renders them, and the pods in them."""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from support.needs import needs

from inductord import __version__

REPO = Path(__file__).parent.parent.parent
K8S = REPO / "k8s"
OVERLAYS = sorted(path.name for path in (K8S / "overlays").iterdir())
EXAMPLES = sorted(
    str(path.parent.relative_to(K8S)) for path in (K8S / "examples" / "ways").glob("*/*/kustomization.yaml")
)
COMPONENTS = sorted(path.name for path in (K8S / "components").iterdir())
COMBINED = [
    "base",
    *(f"base+{name}" for name in COMPONENTS if name != "monitoring-ray"),
    "base+socket+hostport",
    "base+hostport+mtls",
    "base+networkpolicy+ray+monitoring-ray",
    "+".join(["base", *COMPONENTS]),
]
"""What may be put together besides the overlays: the base with each component, those that meet in one field, and with all."""
DEPLOYED = [f"overlays/{name}" for name in OVERLAYS] + COMBINED
ROOTS = DEPLOYED + EXAMPLES

Object = dict[str, Any]


@functools.cache
def rendered(root: str) -> str:
    """What would be applied for a folder under ``k8s/``, or for one of `COMBINED`."""
    needs(shutil.which("kubectl") is not None, "kubectl 1.27 or later (https://kubernetes.io/docs/tasks/tools/)")
    if root not in COMBINED:
        return _kustomize(K8S / root)
    base, *components = root.split("+")
    with tempfile.TemporaryDirectory() as folder:
        where = os.path.relpath(K8S, Path(folder).resolve())
        overlay = {
            "resources": [f"{where}/{base}"],
            "components": [f"{where}/components/{name}" for name in components],
            # As overlays give a tag to every image that is used.
            "images": [{"name": "inductord", "newTag": __version__}, {"name": "redis", "newTag": "0"}],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        return _kustomize(Path(folder))


def _kustomize(folder: Path) -> str:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(root: str) -> list[Object]:
    """The same, read."""
    return list(yaml.safe_load_all(rendered(root)))


def the(root: str, kind: str, name: str = "inductord") -> Object:
    """The one object of this kind and name; a generated name counts without its hash."""
    generated = (
        re.compile(rf"{re.escape(name)}(-[a-z0-9]{{10}})?") if kind == "ConfigMap" else re.compile(re.escape(name))
    )
    (found,) = (
        each for each in objects(root) if each["kind"] == kind and generated.fullmatch(each["metadata"]["name"])
    )
    return found


def pod_templates(tree: Any, path: str = "") -> Iterator[tuple[str, Object]]:
    """Every pod template in an object of any kind, with where it stands."""
    if isinstance(tree, dict):
        spec = tree.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield path, tree
        for name, value in tree.items():
            yield from pod_templates(value, f"{path}/{name}")
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from pod_templates(value, f"{path}/{index}")


def containers(template: Object) -> list[Object]:
    """Init containers and containers of a pod template."""
    spec = template["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


def tool(name: str) -> str:
    """A checker of ``k8s/tools.txt``: from ``make k8s-tools``, or from PATH."""
    beside = Path(sys.prefix) / "k8s-tools" / "bin" / name
    found = str(beside) if beside.exists() else shutil.which(name)
    needs(found is not None, f"the checker {name} (make k8s-tools)")
    assert found is not None
    return found
