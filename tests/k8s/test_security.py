"""What pods may do, by the rules of Pod Security, and what linters say of manifests and Dockerfiles."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.manifests import DEPLOYED, EXAMPLES, K8S, Object, containers, objects, pod_templates, rendered, the, tool

pytestmark = pytest.mark.k8s

WAIVED = {
    "CKV_K8S_43": "images by digest: the image is built by who deploys it, so its digest is theirs to set (docs/deploy.md)",
    "CKV_K8S_15": "imagePullPolicy Always: a node must be able to restart its daemon while the registry is away",
}
"""Findings of checkov that do not count, with the reason."""

EXPLAINED_FINDINGS = {
    "overlays/dev": {
        "CKV_K8S_25": "added capabilities: its init container has CHOWN and FOWNER, to give a folder of the node away"
    },
    "base+hostport": {"CKV_K8S_26": "a port of the node is what this component is for"},
}
"""Waived where a component is an exception, with the reason."""

OF_KUBERAY = {
    "CKV_K8S_8": "liveness: KubeRay puts probes into its pods",
    "CKV_K8S_9": "readiness: likewise",
    "CKV2_K8S_6": "a NetworkPolicy: theirs selects by a label that KubeRay gives",
    "CKV_K8S_38": "an account's token: the autoscaler beside the head asks for pods",
}
"""Waived for the pods of the RayCluster, with the reason."""


def not_restricted(template: Object) -> Iterator[str]:
    """In what a pod is outside of the profile `restricted`
    (https://kubernetes.io/docs/concepts/security/pod-security-standards/)."""
    spec = template["spec"]
    pod = spec.get("securityContext", {})
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    for volume in spec.get("volumes", []):
        yield from (f"volume {kind}" for kind in volume.keys() - {"name"} - allowed)
    for container in containers(template):
        own = container.get("securityContext", {})
        merged = pod | own
        name = container["name"]
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: privilege escalation"
        if own.get("privileged"):
            yield f"{name}: privileged"
        if merged.get("runAsNonRoot") is not True or merged.get("runAsUser") == 0:
            yield f"{name}: root"
        if merged.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: seccomp"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []) or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name}: capabilities"
        yield from (f"{name}: hostPort" for port in container.get("ports", []) if port.get("hostPort"))


def exceptions(root: str) -> dict[str, list[str]]:
    found = {
        f"{each['kind']}/{each['metadata']['name']}{path}": sorted(not_restricted(template))
        for each in objects(root)
        for path, template in pod_templates(each)
    }
    assert found
    return {where: what for where, what in found.items() if what}


EXPLAINED = {
    "socket": ["socket-folder: capabilities", "socket-folder: root", "volume hostPath"],
    "hostport": ["daemon: hostPort"],
}
"""Exceptions of components, and what docs/deploy.md gives reasons for."""


@pytest.mark.parametrize("root", DEPLOYED)
def test_all_is_restricted_but_for_what_is_explained(root: str) -> None:
    parts = root.split("+") + (["socket"] if root == "overlays/dev" else [])
    expected = sorted(what for part in parts for what in EXPLAINED.get(part, []))
    assert exceptions(root) == ({"DaemonSet/inductord/spec/template": expected} if expected else {})
    label = "privileged" if expected or "privileged-namespace" in parts else "restricted"
    labels = the(root, "Namespace")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {label}


def test_exceptions_are_explained() -> None:
    text = (K8S.parent / "docs" / "deploy.md").read_text()
    assert all(word in text for word in ("hostPath", "init container", "hostPort"))


@pytest.mark.parametrize("example", EXAMPLES)
def test_training_pods_are_restricted_but_for_the_socket(example: str) -> None:
    expected = ["volume hostPath"] if "/socket/" in example else []
    assert list(exceptions(example).values()) == ([expected] if expected else [])


def test_nobody_has_a_right_at_the_api_server() -> None:
    for root in DEPLOYED:
        found = objects(root)
        assert not [each for each in found if each["kind"].endswith(("Role", "RoleBinding"))]
        for each in found:
            for path, template in pod_templates(each):
                if "headGroupSpec" not in path:  # Ray's autoscaler asks for pods; the operator gives it an account
                    assert template["spec"]["automountServiceAccountToken"] is False, path


@pytest.mark.parametrize("root", ["overlays/dev", "overlays/prod", "base+hostport"])
def test_checkov_finds_nothing_that_matters(root: str, tmp_path: Path) -> None:
    # A linter knows no custom kind: Ray's pods are shown to it as such.
    rays = (template for each in objects(root) if each["kind"] == "RayCluster" for _, template in pod_templates(each))
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"ray-{index}", "namespace": "inductord"},
            "spec": each["spec"],
        }
        for index, each in enumerate(rays)
    ]
    file = tmp_path / "objects.yaml"
    file.write_text(rendered(root) + "".join(f"---\n{yaml.safe_dump(each)}" for each in pods))
    command = [tool("checkov"), "--skip-download", "--framework", "kubernetes", "--compact", "--quiet"]
    command += ["--output", "json", "--file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    report = json.loads(done.stdout)
    waived = WAIVED | EXPLAINED_FINDINGS.get(root, {})
    failed = {(each["check_id"], each["check_name"], each["resource"]) for each in report["results"]["failed_checks"]}
    matters = {each for each in failed if each[0] not in (waived | OF_KUBERAY if ".ray-" in each[2] else waived)}
    assert matters == set()
    assert report["summary"]["passed"] > 50


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.slim"])
def test_dockerfiles_pass_hadolint(name: str) -> None:
    done = subprocess.run([tool("hadolint"), str(K8S / "image" / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
