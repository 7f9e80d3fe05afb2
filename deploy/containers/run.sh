#!/usr/bin/env bash
# run.sh [MODEL [OPTION...]]: `reward-serve serve` in a container, whose image it builds if needed.
#
#   deploy/containers/run.sh                                  the bundled judge, on CPU cores
#   deploy/containers/run.sh openai.yaml                      a deployments file, yours or shipped
#   deploy/containers/run.sh Qwen/Qwen3-32B --tp 2            a model on GPUs
#
# PORT           port of this machine (8000)
# HOST           address of this machine (127.0.0.1: nobody else can connect)
# API_KEYS_FILE  file of keys, readable by everyone: the image's user is 10001
# GPUS           docker's --gpus (all for a model; a deployments file gets none unless it is set)
# ENV_FILE       file of variables, such as HF_TOKEN and OPENAI_API_KEY
# NAME           name of the container; it then runs in the background: docker logs NAME
# MODEL_ID, HF_TOKEN, DTYPE, MAX_MODEL_LEN, GPU_MEMORY_UTILIZATION and the others below: as verl's
#   run_vllm_docker.sh and run_vllm_server.py read them
# Downloads are kept in the volume reward-serve-hub.
set -euo pipefail
[[ $# -gt 0 ]] || set -- "${MODEL_ID:-bundled}"
for name in DTYPE MAX_MODEL_LEN GPU_MEMORY_UTILIZATION TENSOR_PARALLEL_SIZE MAX_NUM_SEQS \
  MAX_NUM_BATCHED_TOKENS BLOCK_SIZE TRUST_REMOTE_CODE ENABLE_PREFIX_CACHING; do
  [[ -z ${!name:-} ]] || set -- "$@" --set "engine.${name,,}=${!name}"
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=cpu options=(--shm-size 2g)
if [[ -n ${GPUS:-} || ($1 != bundled && $1 != *.yaml) ]]; then
  image=cuda options=(--shm-size 8g --gpus "${GPUS:-all}" -v reward-serve-hub:/hub)
fi
serve=("$@" --host 0.0.0.0) # all interfaces of the container
if [[ -f $1 ]]; then
  options+=(-v "$(realpath "$1"):/deployment.yaml:ro")
  serve[0]=/deployment.yaml
fi
if [[ -n ${API_KEYS_FILE:-} ]]; then
  options+=(-v "$(realpath "$API_KEYS_FILE"):/keys:ro")
  serve+=(--api-keys-file /keys)
elif [[ ${HOST:-127.0.0.1} != 127.0.0.1 ]]; then
  echo "HOST=$HOST: anyone who can connect could score; set API_KEYS_FILE" >&2
  exit 2
fi
[[ -z ${ENV_FILE:-} ]] || options+=(--env-file "$ENV_FILE")
[[ -z ${HF_TOKEN:-} ]] || options+=(-e HF_TOKEN)
[[ -z ${NAME:-} ]] || options+=(--detach --name "$NAME")
if ! docker image inspect "reward-serve:$image" >/dev/null 2>&1; then
  docker build -f "$here/$image.Dockerfile" -t "reward-serve:$image" "$here/../.."
fi
exec docker run --rm -p "${HOST:-127.0.0.1}:${PORT:-8000}:8000" "${options[@]}" \
  "reward-serve:$image" "${serve[@]}"
