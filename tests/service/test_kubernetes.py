from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import ray
import yaml
from ray.serve.schema import ServeDeploySchema
from typer.testing import CliRunner

from reward_serve.app import deployment_options
from reward_serve.cli.launch import START_SETTINGS
from reward_serve.cli.main import cli
from reward_serve.config.app import AppConfig
from reward_serve.config.base import ConfigError
from reward_serve.keys import read_key_digests

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
SERVICES = ("judge", "judge-gpu")
KUBERNETES = ("1.29", "1.37")  # what KubeRay 1.7 is tested on; the newest with schemas here

every_service = pytest.mark.parametrize("name", SERVICES)


def documents(name: str) -> dict[str, dict[str, Any]]:
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


def service(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = documents(name)["RayService"]["spec"]
    return spec


def templates(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pods of the head and of the workers."""
    cluster = service(name)["rayClusterConfig"]
    (workers,) = cluster["workerGroupSpecs"]
    return cluster["headGroupSpec"]["template"], workers["template"]


def container(template: dict[str, Any]) -> dict[str, Any]:
    (only,) = template["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def keys_file(name: str) -> str:
    """Where the pods have the Secret's file; the same in all of them."""
    secret = documents("keys")["Secret"]
    (file,) = secret["stringData"]
    folders = set()
    for template in templates(name):
        (volume,) = template["spec"]["volumes"]
        (mount,) = container(template)["volumeMounts"]
        assert volume["secret"]["secretName"] == secret["metadata"]["name"]
        assert mount["name"] == volume["name"]
        folders.add(mount["mountPath"])
    (folder,) = folders
    return f"{folder}/{file}"


@every_service
def test_it_serves_what_the_command_would(name: str) -> None:
    arguments = ["--host", "0.0.0.0", "--api-keys-file", keys_file(name), "--dry-run"]
    result = CliRunner().invoke(cli, ["serve", f"{name}.yaml", *arguments])
    served = yaml.safe_load(service(name)["serveConfigV2"])
    # KubeRay's service leads to the workers, each of which needs a proxy.
    assert served == yaml.safe_load(result.stdout) | {"proxy_location": "EveryNode"}
    assert service(name)["excludeHeadPodFromServeSvc"]
    ServeDeploySchema.model_validate(served)


@every_service
def test_workers_have_room_for_every_replica(name: str) -> None:
    (app,) = yaml.safe_load(service(name)["serveConfigV2"])["applications"]
    (model,) = AppConfig.parse(app["args"]).models
    options = deployment_options(model)
    (workers,) = service(name)["rayClusterConfig"]["workerGroupSpecs"]
    scaling = options["autoscaling_config"]
    assert workers["minReplicas"] >= scaling["min_replicas"]
    assert workers["maxReplicas"] >= scaling["max_replicas"]
    limits = container(workers["template"])["resources"]["limits"]
    assert float(limits["cpu"]) >= options["ray_actor_options"]["num_cpus"]
    assert float(limits.get("nvidia.com/gpu", 0)) == options["ray_actor_options"]["num_gpus"]


@every_service
def test_the_cluster_grows_and_no_model_runs_on_its_head(name: str) -> None:
    cluster = service(name)["rayClusterConfig"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["rayVersion"] == ray.__version__


@every_service
def test_every_pod_starts_ray_as_the_command_does(name: str) -> None:
    for template in templates(name):
        variables = {each["name"]: each["value"] for each in container(template)["env"]}
        assert variables == START_SETTINGS


@every_service
def test_a_worker_is_asked_once_it_can_score_and_the_head_needs_no_application(name: str) -> None:
    head, worker = (container(each) for each in templates(name))
    assert worker["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "serve"}
    # KubeRay deploys the application when the head is ready, and not before.
    assert head["readinessProbe"]["httpGet"]["path"] == "/api/healthz"
    port = yaml.safe_load(service(name)["serveConfigV2"])["http_options"]["port"]
    for each in (head, worker):
        assert {"name": "serve", "containerPort": port} in each["ports"]


@every_service
def test_only_the_http_port_is_open_to_others(name: str) -> None:
    policy = documents(name)["NetworkPolicy"]["spec"]
    labels = [template["metadata"]["labels"] for template in templates(name)]
    pods = policy["podSelector"]["matchLabels"]
    assert all(pods.items() <= each.items() for each in labels)
    own, operator, everyone = policy["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": pods}}]}
    assert {tuple(peer) for peer in operator["from"]} == {("namespaceSelector", "podSelector")}
    assert [port["port"] for port in operator["ports"]] == [8265]
    assert everyone == {"ports": [{"protocol": "TCP", "port": 8000}]}


@pytest.mark.parametrize("version", KUBERNETES)
@every_service
def test_manifests_match_kubernetes_definitions(name: str, version: str) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", **template} for template in templates(name)]
    for resource in (*pods, documents(name)["NetworkPolicy"], documents("keys")["Secret"]):
        kubernetes_validate.validate(resource, version, strict=True)


def test_the_placeholder_is_refused(tmp_path: Path) -> None:
    ((_, content),) = documents("keys")["Secret"]["stringData"].items()
    file = tmp_path / "keys"
    file.touch(mode=0o600)
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="9 characters"):
        read_key_digests(str(file), None)


def rendered(folder: Path) -> dict[str, dict[str, Any]]:
    """What Kustomize makes of the folder, by kind."""
    command = ["kubectl", "kustomize", str(folder)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {document["kind"]: document for document in yaml.safe_load_all(text)}


needs_kubectl = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")


@needs_kubectl
def test_the_base_is_the_bundled_judges_manifest() -> None:
    assert rendered(FOLDER) == documents("keys") | documents("judge")


@needs_kubectl
def test_an_overlay_changes_image_size_keys_and_deployments_file(tmp_path: Path) -> None:
    for name in ("kubernetes", "kustomize"):
        shutil.copytree(FOLDER.parent / name, tmp_path / name)
    overlay = tmp_path / "kustomize"
    own = ["--set", "judge.template=solution", "--set", "proxy_location=EveryNode"]
    served = ["judge.yaml", "--host", "0.0.0.0", "--api-keys-file", keys_file("judge"), *own]
    made = CliRunner().invoke(cli, ["serve", *served, "--dry-run"])
    (overlay / "serve.yaml").write_text(made.stdout, encoding="utf-8")
    (overlay / "keys").write_text("trainer: 0123456789abcdef\n", encoding="utf-8")

    found = rendered(overlay)
    spec = found["RayService"]["spec"]
    assert yaml.safe_load(spec["serveConfigV2"]) == yaml.safe_load(made.stdout)
    assert "template: solution" in spec["serveConfigV2"]
    (workers,) = spec["rayClusterConfig"]["workerGroupSpecs"]
    pods = [spec["rayClusterConfig"]["headGroupSpec"]["template"], workers["template"]]
    assert {container(pod)["image"] for pod in pods} == {
        "registry.example.com/reward-serve:0.1.0-cpu"
    }
    assert workers["maxReplicas"] == 8
    keys = base64.b64decode(found["Secret"]["data"]["keys"]).decode()
    assert keys == "trainer: 0123456789abcdef\n"
    assert {each["metadata"].get("namespace") for each in found.values()} == {"reward"}
    resources = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods]
    for resource in (*resources, found["NetworkPolicy"], found["Secret"], found["ConfigMap"]):
        kubernetes_validate.validate(resource, KUBERNETES[0], strict=True)
