"""Manifests are valid, and speak of settings, ports, commands and files that the program has."""

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from fsspec.registry import known_implementations
from pydantic import ByteSize, TypeAdapter
from support.manifests import (
    COMBINED,
    DEPLOYED,
    EXAMPLES,
    K8S,
    OVERLAYS,
    REPO,
    ROOTS,
    containers,
    objects,
    pod_templates,
    rendered,
    the,
    tool,
)
from support.needs import needs

from inductord import __version__
from inductord.compiler.security import security_from
from inductord.compiler.settings import from_environment
from inductord.daemon.cli.app import inductord
from inductord.daemon.config import ENV_PREFIX, DaemonConfig, load_config
from inductord.worker.limits import Machine

pytestmark = pytest.mark.k8s

SHARED = REPO.parent / "shared"
# Kinds whose schema belongs to somebody else and is at hand in `SHARED`; of the others only the pods are checked.
CUSTOM = {"RayCluster", "PodMonitor", "PrometheusRule"}
UNCHECKED = {"Certificate", "Issuer", "JobSet", "PyTorchJob", "ClusterTrainingRuntime", "TrainJob"}


JOB_LABELS = {
    "job": "batch.kubernetes.io/job-name",
    "jobset": "jobset.sigs.k8s.io/jobset-name",
    "pytorchjob": "training.kubeflow.org/job-name",
    "trainer": "jobset.sigs.k8s.io/jobset-name",
}
"""Where pods of a kind have their job's name. torchrun calls every job that names no rendezvous `none`."""


def test_objects_fit_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    """Strictly: a field that Kubernetes does not know is an error. Pods inside custom kinds are checked as pods."""
    documents = []
    for each in (each for root in ROOTS for each in objects(root)):
        if each["kind"] not in CUSTOM | UNCHECKED:
            documents.append(each)
            continue
        documents += [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{index}"}, "spec": template["spec"]}
            for index, (_, template) in enumerate(pod_templates(each))
        ]
    texts = sorted({yaml.safe_dump(each) for each in documents})  # most are in several of them
    file = tmp_path / "objects.yaml"
    file.write_text("---\n".join(texts))
    done = subprocess.run(
        [tool("kubernetes-validate"), "--strict", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(" passed ") == len(texts)


@pytest.mark.parametrize("root", ["overlays/prod", COMBINED[-1]])
def test_custom_kinds_fit_their_definitions(root: str, tmp_path: Path) -> None:
    checker = SHARED / "tools" / "validate_crds.py"
    if not checker.exists():
        pytest.skip("the definitions of custom kinds are not in ../shared, they are no part of this project")
    file = tmp_path / "objects.yaml"
    file.write_text(rendered(root))
    done = subprocess.run(
        [sys.executable, str(checker), str(SHARED / "crds"), str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert {line.split()[2] for line in done.stdout.splitlines() if line.startswith("ok ")} == CUSTOM
    skipped = {line.split()[2] for line in done.stdout.splitlines() if line.startswith("skip ")}
    assert skipped.isdisjoint(CUSTOM)


def settings_of(root: str) -> dict[str, str]:
    data: dict[str, str] = the(root, "ConfigMap")["data"]
    return data


@pytest.mark.parametrize("root", DEPLOYED)
def test_the_daemon_takes_its_settings(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(root)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    config = load_config()
    ours = [name for name in settings if name.startswith(ENV_PREFIX)]
    assert settings.keys() - set(ours) <= {"AWS_SHARED_CREDENTIALS_FILE"}
    for name in ours:
        field = name.removeprefix(ENV_PREFIX).lower()
        assert field in DaemonConfig.model_fields
        assert config.origins[field] == f"env {name}"
    # A drain fits into the time that Kubernetes gives.
    grace = the(root, "DaemonSet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert config.drain_seconds < grace


@pytest.mark.parametrize("root", DEPLOYED)
def test_commands_and_probes_exist(root: str) -> None:
    (daemon,) = the(root, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    commands = [daemon["args"]]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        program, *arguments = daemon[probe]["exec"]["command"]
        assert program == "inductord"
        commands.append(arguments)
    for name, *arguments in commands:
        command = inductord.get_command(click.Context(inductord), name)
        assert command is not None, name
        command.make_context(name, list(arguments))  # raises for an argument that it does not have


@pytest.mark.parametrize("root", DEPLOYED)
def test_ports_are_those_on_which_the_daemon_listens(root: str) -> None:
    settings = settings_of(root)
    (daemon,) = the(root, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in daemon["ports"]}
    assert ports == {
        "grpc": int(settings["INDUCTORD_LISTEN"].rpartition(":")[2]),
        "metrics": int(settings["INDUCTORD_METRICS_ADDRESS"].rpartition(":")[2]),
    }
    host = {each["hostPort"] for each in daemon["ports"] if "hostPort" in each}
    assert host == ({ports["grpc"]} if "hostport" in root else set())
    (port,) = the(root, "Service")["spec"]["ports"]
    assert ports[port["targetPort"]] == port["port"]
    named = {
        each["port"]
        for policy in objects(root)
        if policy["kind"] == "NetworkPolicy" and policy["metadata"]["name"] == "inductord"
        for rule in policy["spec"].get("ingress", [])
        for each in rule.get("ports", [])
    }
    assert named <= ports.keys()


@pytest.mark.parametrize("root", DEPLOYED)
def test_files_that_settings_name_are_mounted(root: str) -> None:
    (daemon,) = the(root, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in daemon["volumeMounts"]}
    for name, value in settings_of(root).items():
        path = value.removeprefix("unix:")
        if not path.startswith("/"):
            continue
        (mount,) = (each for each in mounts if Path(path).is_relative_to(each))
        assert mounts[mount] == path.startswith("/etc/"), name


@pytest.mark.parametrize("root", [f"overlays/{name}" for name in OVERLAYS] + ["base"])
def test_volumes_and_memory_are_as_large_as_documented(root: str) -> None:
    """The rules of docs/deploy.md, for the number of workers that the daemon makes of its limits."""
    pod = the(root, "DaemonSet")["spec"]["template"]["spec"]
    (daemon,) = pod["containers"]
    limits = daemon["resources"]["limits"]
    size = TypeAdapter(ByteSize).validate_python
    memory = size(f"{limits['memory']}B")
    workers = Machine(int(limits["cpu"]), memory).max_workers()
    assert workers == int(limits["cpu"])
    assert memory >= size(f"{1 + 2 * workers}GiB")
    volumes = {each["name"]: each["emptyDir"] for each in pod["volumes"] if "emptyDir" in each}
    on_disk = {name: size(f"{each['sizeLimit']}B") for name, each in volumes.items() if "medium" not in each}
    assert on_disk["scratch"] >= size(f"{1 + workers}GiB")
    assert on_disk["store"] > size(settings_of(root)["INDUCTORD_STORE_MAX_BYTES"])
    assert size(f"{limits['ephemeral-storage']}B") > sum(on_disk.values())


def test_the_image_has_the_driver_of_the_shared_store() -> None:
    url = settings_of("base+shared-store")["INDUCTORD_SHARED_STORE"]
    driver = known_implementations[url.partition("://")[0]]["class"].partition(".")[0]
    for name in ("Dockerfile", "Dockerfile.slim"):
        assert f"\nARG STORE_DRIVERS={driver}\n" in (K8S / "image" / name).read_text()
    assert f"\n{driver}==" in (REPO / "requirements.lock").read_text()


@pytest.mark.parametrize("root", DEPLOYED)
def test_selectors_find_the_daemon(root: str) -> None:
    labels = the(root, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    selectors = [the(root, "DaemonSet")["spec"]["selector"]["matchLabels"], the(root, "Service")["spec"]["selector"]]
    assert all(selector.items() <= labels.items() for selector in selectors)


@pytest.mark.parametrize("root", DEPLOYED)
def test_monitors_find_pods_that_have_their_port(root: str) -> None:
    templates = [template for each in objects(root) for _, template in pod_templates(each)]
    for monitor in (each for each in objects(root) if each["kind"] == "PodMonitor"):
        found = [each for each in templates if _selects(monitor["spec"]["selector"], each["metadata"]["labels"])]
        assert found, monitor["metadata"]["name"]
        wanted = {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]}
        for template in found:
            ports = {port["name"] for part in template["spec"]["containers"] for port in part.get("ports", [])}
            assert wanted <= ports


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        each["operator"] == "In" and labels.get(each["key"]) in each["values"]
        for each in selector.get("matchExpressions", [])
    )


def test_policies_let_through_what_works_together_and_nothing_else() -> None:
    """Each kind of pod of ``prod`` with each other in its namespace; KubeRay adds a label to its pods."""
    root = "overlays/prod"
    pods = {
        labels["app.kubernetes.io/component"]: labels
        for each in objects(root)
        for _, template in pod_templates(each)
        if (labels := template["metadata"]["labels"])
    }
    for name in ("ray-head", "ray-worker"):
        pods[name] = pods[name] | {"ray.io/cluster": the(root, "RayCluster")["metadata"]["name"]}
    pods["other"] = {}
    policies = [each["spec"] for each in objects(root) if each["kind"] == "NetworkPolicy"]
    let_through = {
        (source, target) for source in pods for target in pods if _lets_through(policies, pods[source], pods[target])
    }
    assert let_through == {
        ("daemon", "ray-head"),
        ("daemon", "ray-worker"),
        *itertools.product(["ray-head", "ray-worker"], ["ray-head", "ray-worker", "redis"]),
    }


def _lets_through(policies: list[dict[str, Any]], source: dict[str, str], target: dict[str, str]) -> bool:
    """By pods alone: namespaces and ports are looked at elsewhere."""

    def allowed(way: str, peers: str, at: dict[str, str], far: dict[str, str]) -> bool:
        ours = [each for each in policies if way in each["policyTypes"] and _selects(each["podSelector"], at)]
        rules = [rule for each in ours for rule in each.get(way.lower(), [])]
        return not ours or any(
            _selects(peer["podSelector"], far) and "namespaceSelector" not in peer
            for rule in rules
            for peer in rule[peers]
            if "podSelector" in peer
        )

    return allowed("Ingress", "from", target, source) and allowed("Egress", "to", source, target)


def test_the_release_is_that_of_the_program() -> None:
    for overlay in OVERLAYS:
        for each in objects(f"overlays/{overlay}"):
            images = [part["image"] for _, template in pod_templates(each) for part in containers(template)]
            assert {image for image in images if image.startswith("inductord")} <= {f"inductord:{__version__}"}
    lock = (REPO / "requirements.lock").read_text()
    ray = the("overlays/prod", "RayCluster")["spec"]["rayVersion"]
    assert f"\nray=={ray}\n" in lock


def test_the_head_that_daemons_come_to_starts_a_process_for_each_without_fork_handlers() -> None:
    root = "overlays/prod"
    pool = the(root, "ConfigMap")["data"]["INDUCTORD_POOL"]
    (head,) = containers(the(root, "RayCluster")["spec"]["headGroupSpec"]["template"])
    assert pool.endswith(f":{ {each['name']: each['containerPort'] for each in head['ports']}['client'] }")
    assert {"name": "GRPC_ENABLE_FORK_SUPPORT", "value": "0"} in head["env"]


def test_the_ray_cluster_is_warm_on_cpus_asks_for_a_token_and_outlives_its_head() -> None:
    root = "overlays/prod"
    cluster = the(root, "RayCluster")
    spec = cluster["spec"]
    groups = {}
    for each in spec["workerGroupSpecs"]:
        (worker,) = containers(each["template"])
        groups[each["groupName"]] = (each["minReplicas"], "nvidia.com/gpu" in worker["resources"]["limits"])
    assert groups == {"cpu": (1, False), "gpu": (0, True)}
    # KubeRay puts the token into a Secret of the cluster's name, under auth_token.
    assert spec["authOptions"] == {"mode": "token"}
    pod = the(root, "DaemonSet")["spec"]["template"]["spec"]
    variables = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    folder, _, file = variables["RAY_AUTH_TOKEN_PATH"].rpartition("/")
    assert (variables["RAY_AUTH_MODE"], file) == ("token", "auth_token")
    assert volumes[mounts[folder]]["secret"]["secretName"] == cluster["metadata"]["name"]
    # What the head knows is in Redis, on a volume that stays.
    redis = the(root, "StatefulSet", "inductord-redis")["spec"]
    (port,) = the(root, "Service", "inductord-redis")["spec"]["ports"]
    kept = spec["gcsFaultToleranceOptions"]
    assert kept["redisAddress"] == f"inductord-redis:{port['port']}"
    secret = kept["redisPassword"]["valueFrom"]["secretKeyRef"]["name"]
    assert [each["secret"]["secretName"] for each in redis["template"]["spec"]["volumes"]] == [secret]
    assert [each["metadata"]["name"] for each in redis["volumeClaimTemplates"]] == ["data"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_ranks_take_what_examples_give_them(example: str) -> None:
    way, kind = Path(example).parts[2:]
    templates = [template for each in objects(example) for _, template in pod_templates(each)]
    assert templates
    for template in templates:
        (trainer,) = template["spec"]["containers"]
        given: dict[str, Any] = {each["name"]: each for each in trainer["env"]}
        env = {name: each["value"].replace("$(HOST_IP)", "10.0.0.7") for name, each in given.items() if "value" in each}
        settings = from_environment(env)
        assert settings.enabled
        assert given["INDUCTORD_JOB"]["valueFrom"]["fieldRef"] == {
            "fieldPath": f"metadata.labels['{JOB_LABELS[kind]}']"
        }
        mounts = {each["mountPath"]: each for each in trainer.get("volumeMounts", [])}
        if way == "socket":
            assert settings.address == settings_of("overlays/dev")["INDUCTORD_ADDRESS"]
            assert mounts["/run/inductord"]["readOnly"] is True
            group = settings_of("overlays/dev")["INDUCTORD_SOCKET_GROUP"]
            assert template["spec"]["securityContext"]["supplementalGroups"] == [int(group)]
        else:
            host = "10.0.0.7" if way == "hostport" else "inductord.inductord"
            assert settings.address == f"tcp://{host}:7777"
            assert given["INDUCTORD_TOKEN"]["valueFrom"]["secretKeyRef"]
            security = security_from(env | {"INDUCTORD_TOKEN": "token"})
            assert security.tls == (way == "mtls")
            files = {str(path) for path in (security.ca, security.cert, security.key) if path is not None}
            folder = "/etc/inductord/tls"
            # The names that cert-manager gives them.
            names = ("ca.crt", "tls.crt", "tls.key") if security.tls else ()
            assert files == {f"{folder}/{name}" for name in names}
            volumes = {volume["name"]: volume["secret"] for volume in template["spec"].get("volumes", [])}
            secrets = {path: volumes[mount["name"]]["secretName"] for path, mount in mounts.items()}
            made = [each["spec"]["secretName"] for each in objects("overlays/prod") if each["kind"] == "Certificate"]
            assert secrets == ({folder: "inductord-client-tls"} if security.tls else {})
            assert "inductord-client-tls" in made


def test_documents_name_what_there_is() -> None:
    text = (REPO / "docs" / "deploy.md").read_text()
    named = {path for path in re.findall(r"\bk8s/[\w./-]*\w", text) if path == path.lower() or "Dockerfile" in path}
    assert {path for path in named if not (REPO / path).exists()} == {"k8s/overlays/mine"}  # made by who deploys
    for name in ("inductord-tokens", "inductord-token", "inductord-redis"):
        assert name in text


def test_every_dashboard_is_deployed() -> None:
    deployed = the("overlays/prod", "ConfigMap", "inductord-dashboards")
    assert deployed["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert deployed["data"] == {
        path.name: path.read_text() for path in (REPO / "dashboards" / "grafana").glob("*.json")
    }


def test_every_component_is_in_an_overlay_or_explained() -> None:
    used = {
        (path.parent / each).resolve().name
        for path in (K8S / "overlays").glob("*/kustomization.yaml")
        for each in yaml.safe_load(path.read_text()).get("components", [])
    }
    text = (REPO / "docs" / "deploy.md").read_text()
    unused = {path.name for path in (K8S / "components").iterdir()} - used
    assert {name for name in unused if f"`{name}`" not in text} == set()


def test_the_image_installs_what_pyproject_says() -> None:
    needs((K8S / "image" / "requirements.py").exists(), "the image's list")
    done = subprocess.run(
        [sys.executable, str(K8S / "image" / "requirements.py"), str(REPO / "pyproject.toml"), "daemon,ray"],
        capture_output=True,
        text=True,
        check=True,
    )
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in done.stdout.splitlines()}
    wanted = project["dependencies"] + project["optional-dependencies"]["daemon"]
    assert names == {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in wanted} - {"torch"} | {"ray"}
