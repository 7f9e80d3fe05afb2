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


@every_service
def test_it_serves_what_the_command_would_with_the_keys_of_the_secret(name: str) -> None:
    arguments = ["--host", "0.0.0.0", "--api-keys-file", "/etc/reward_serve/keys", "--dry-run"]
    result = CliRunner().invoke(cli, ["serve", f"{name}.yaml", *arguments])
    served = yaml.safe_load(service(name)["serveConfigV2"])
    # KubeRay's service leads to the workers, each of which needs a proxy.
    assert served == yaml.safe_load(result.stdout) | {"proxy_location": "EveryNode"}
    assert service(name)["excludeHeadPodFromServeSvc"]
    ServeDeploySchema.model_validate(served)
    secret = documents("keys")["Secret"]
    assert secret["stringData"].keys() == {"keys"}
    for template in templates(name):
        (volume,) = template["spec"]["volumes"]
        (mount,) = container(template)["volumeMounts"]
        assert volume["secret"]["secretName"] == secret["metadata"]["name"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/reward_serve")


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
def test_the_cluster_grows_with_pods_that_start_ray_as_the_command_does(name: str) -> None:
    cluster = service(name)["rayClusterConfig"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"  # models run on workers
    assert cluster["rayVersion"] == ray.__version__
    for template in templates(name):
        variables = {variable["name"]: variable["value"] for variable in container(template)["env"]}
        assert variables == START_SETTINGS


@every_service
def test_a_worker_is_asked_once_it_can_score_and_the_head_needs_no_application(name: str) -> None:
    head, worker = (container(template) for template in templates(name))
    assert worker["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "serve"}
    # KubeRay deploys the application when the head is ready, and not before.
    assert head["readinessProbe"]["httpGet"]["path"] == "/api/healthz"
    port = yaml.safe_load(service(name)["serveConfigV2"])["http_options"]["port"]
    for pod in (head, worker):
        assert {"name": "serve", "containerPort": port} in pod["ports"]


@every_service
def test_only_the_http_port_is_open_to_others(name: str) -> None:
    policy = documents(name)["NetworkPolicy"]["spec"]
    labels = [template["metadata"]["labels"] for template in templates(name)]
    pods = policy["podSelector"]["matchLabels"]
    assert all(pods.items() <= label_set.items() for label_set in labels)
    ours, operator, everyone = policy["ingress"]
    assert ours == {"from": [{"podSelector": {"matchLabels": pods}}]}
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


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", [False, True])
def test_kustomize_makes_the_bundled_judges_manifest_of_the_base_and_changes_it_by_the_overlay(
    overlay: bool, tmp_path: Path
) -> None:
    for name in ("kubernetes", "kustomize"):
        shutil.copytree(FOLDER.parent / name, tmp_path / name)
    made = CliRunner().invoke(
        cli, ["serve", "judge.yaml", "--set", "judge.mode=generate", "--dry-run"]
    )
    (tmp_path / "kustomize/serve.yaml").write_text(made.stdout, encoding="utf-8")
    (tmp_path / "kustomize/keys").write_text("trainer: 0123456789abcdef\n", encoding="utf-8")
    command = ["kubectl", "kustomize", str(tmp_path / ("kustomize" if overlay else "kubernetes"))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    by_kind = {document["kind"]: document for document in yaml.safe_load_all(text)}
    if not overlay:
        assert by_kind == documents("keys") | documents("judge")
        return
    spec = by_kind["RayService"]["spec"]
    assert yaml.safe_load(spec["serveConfigV2"]) == yaml.safe_load(made.stdout)
    (workers,) = spec["rayClusterConfig"]["workerGroupSpecs"]
    assert workers["maxReplicas"] == 8
    for pod in (spec["rayClusterConfig"]["headGroupSpec"]["template"], workers["template"]):
        assert container(pod)["image"] == "registry.example.com/reward-serve:0.1.0-cpu"
        resource = {"apiVersion": "v1", "kind": "Pod", **pod}
        kubernetes_validate.validate(resource, KUBERNETES[0], strict=True)
    keys = base64.b64decode(by_kind["Secret"]["data"]["keys"]).decode()
    assert keys == "trainer: 0123456789abcdef\n"
    assert {document["metadata"].get("namespace") for document in by_kind.values()} == {"reward"}
