#!/usr/bin/env bash
# deploy_judge.sh: run `reward-serve serve` in the background and wait until it can score; does
#   nothing if a judge is already running.
# deploy_judge.sh run COMMAND...: the same, then COMMAND, then end the judge if it was started here.
# deploy_judge.sh stop: end the judge.
#
# JUDGE=qwen (default): Qwen3-4B-Instruct-2507 on its own GPU, in the trainer's Ray cluster and under
#   its interpreter, TRAINER_PYTHON. The cluster is RAY_ADDRESS, or this machine's; if there is none,
#   the judge starts one, which COMMAND joins. Environments reach the judge by handle.
# JUDGE=bundled: the bundled judge on CPU cores, in the environment of `make setup` and its own
#   cluster, because trainers take whole GPUs. Environments reach it over HTTP.
# JUDGE=openai: GPT-5-mini, or the endpoint that deployments/openai.yaml names, with the key in
#   OPENAI_API_KEY; deployed like the bundled judge. JUDGE=graded: the same, with graded verdicts.
#
# DEPLOYMENT      another deployments file
# JUDGE_MODEL     another model: a hub id, a folder or an endpoint's name, with the settings of its
#   profile (`reward-serve serve MODEL`), or those of DEPLOYMENT
# JUDGE_REPLICAS  number of replicas, or MIN:MAX
# JUDGE_TP        GPUs per replica
# REWARD_MODEL, REWARD_NUM_ENGINES, REWARD_MAX_MODEL_LEN  SkyRL's names of the first two, and of the
#   context
# NUMBERS         llm_as_a_judge_local: as there, Qwen2.5-1.5B-Instruct, which writes up to 512 tokens
#   at temperature 0 about every sample (with JUDGE=qwen)
# KEEP_JUDGE      non-empty: `run` leaves the judge running
# ENV_FILE        file of variables to export, such as OPENAI_API_KEY and WANDB_API_KEY
# URL             the judge's URL (http://127.0.0.1:8000)
# TRAINER_GPUS    GPUs that training needs besides the judge's (0); with JUDGE=qwen, exit 1 if the
#   cluster has too few, because Ray would wait forever
# STATE_DIR       folder of the service's log and process id (.judge)
# STOP_TIMEOUT_S  seconds until a judge that does not stop is killed (60)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC1090
if [[ -n ${ENV_FILE:-} ]]; then set -a && source "$ENV_FILE" && set +a; fi
judge=${JUDGE:-qwen}
url=${URL:-http://127.0.0.1:8000}
state=${STATE_DIR:-$root/.judge}
case $judge in
  qwen) python=${TRAINER_PYTHON:-python} file=judge-gpu section=engine profile=(--device cuda) ;;
  bundled) python=$root/.venv/bin/python file=judge section=engine profile=(--device cpu) ;;
  openai | graded) python=$root/.venv/bin/python file=openai section=remote profile=(--kind remote) ;;
  *) echo "JUDGE=$judge: qwen, bundled, openai or graded" >&2 && exit 2 ;;
esac
# named <variable> <SkyRL's variable>: the value of either; they may not contradict each other.
named() {
  if [[ -n ${!1:-} && -n ${!2:-} && ${!1} != "${!2}" ]]; then
    echo "$1=${!1} and $2=${!2}: unset one" >&2 && exit 2
  fi
  echo "${!1:-${!2:-}}"
}
model=$(named JUDGE_MODEL REWARD_MODEL)
replicas=$(named JUDGE_REPLICAS REWARD_NUM_ENGINES)
fields=()
case ${NUMBERS:-} in
  '') ;;
  llm_as_a_judge_local)
    if [[ $judge == qwen ]]; then
      model=${model:-Qwen/Qwen2.5-1.5B-Instruct}
      fields+=(--set judge.mode=generate --set judge.temperature=0 --set judge.rules_first=false)
      fields+=(--set judge.template=final_score)
    fi
    ;;
  *) echo "NUMBERS=$NUMBERS: llm_as_a_judge_local, or unset it" >&2 && exit 2 ;;
esac
deployment=${DEPLOYMENT:-$root/deployments/$file.yaml}
served=("$deployment")
if [[ -n $model && -n ${DEPLOYMENT:-} ]]; then
  fields+=(--set "$section.model=$model")
elif [[ -n $model ]]; then
  served=("$model" "${profile[@]}")
  fields+=(--set name=judge)
fi
[[ -z ${JUDGE_TP:-} ]] || fields+=(--set "engine.tensor_parallel_size=$JUDGE_TP")
[[ -z ${REWARD_MAX_MODEL_LEN:-} ]] || fields+=(--set "$section.max_model_len=$REWARD_MAX_MODEL_LEN")
[[ -z $replicas ]] || fields+=(
  --set "autoscaling.min_replicas=${replicas%:*}"
  --set "autoscaling.max_replicas=${replicas#*:}"
)
asked="${served[*]} ${fields[*]-}"
mkdir -p "$state"

ready() { "$python" -m reward_serve wait --url "$url" --timeout-s "$1" --quiet; }

fail() {
  tail -n 40 "$state/log" >&2
  echo "the judge did not start; log: $state/log" >&2
  exit 1
}

stop() {
  [[ -f $state/pid ]] || return 0
  local pid
  pid=$(<"$state/pid")
  kill -TERM "$pid" 2>/dev/null || true
  local end=$((SECONDS + ${STOP_TIMEOUT_S:-60}))
  while [[ $(ps -o stat= -p "$pid") == [!Z]* ]]; do
    if ((SECONDS >= end)); then
      echo "the judge did not stop in ${STOP_TIMEOUT_S:-60} s and is killed; log: $state/log" >&2
      kill -KILL -- "-$pid" || true
      break
    fi
    sleep 0.5
  done
  rm "$state/pid"
}

check_gpus() { "$python" "$root/examples/gsm8k/gpus.py" "$deployment" "${TRAINER_GPUS:-0}" "$1"; }

# The deployments file with the fields that variables set, if any.
configure() {
  [[ ${#fields[@]} -gt 0 ]] || return 0
  "$python" -m reward_serve serve "${served[@]}" "${fields[@]}" --dry-run >"$state/judge.yaml"
  deployment=$state/judge.yaml
}

# Ray of `reward-serve serve` asks for this token, and any other ignores it.
use_ray_token() {
  local token=$HOME/.ray/reward_serve_token
  if [[ -z ${RAY_AUTH_MODE:-} && -r $token ]]; then
    export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$token
  fi
}

joins=()
prepare() {
  if [[ $judge != qwen ]]; then
    make --no-print-directory -C "$root" setup
    configure
    return
  fi
  configure
  use_ray_token
  if [[ ${RAY_ADDRESS:-auto} == auto ]] && ! "$python" -m ray.scripts.scripts status >/dev/null 2>&1; then
    check_gpus local # the judge starts a cluster, and ends it
  else
    joins=(--address "${RAY_ADDRESS:-auto}")
    check_gpus "${RAY_ADDRESS:-auto}"
  fi
}

deploy() {
  nohup setsid "$python" -m reward_serve serve "$deployment" ${joins[@]+"${joins[@]}"} \
    >>"$state/log" 2>&1 </dev/null &
  echo $! >"$state/pid"
  trap stop EXIT
  until ready 5; do
    kill -0 "$(<"$state/pid")" 2>/dev/null || fail
  done
}

start() {
  if ready 0; then
    if [[ ${#fields[@]} -gt 0 && $asked != "$(cat "$state/asked" 2>/dev/null)" ]]; then
      echo "a judge is already running at $url, not $asked; stop it: JUDGE=$judge $0 stop" >&2
      exit 1
    fi
    echo "a judge is already running at $url"
    return
  fi
  : >"$state/log"
  echo "$asked" >"$state/asked"
  echo "deploying $deployment (log: $state/log)"
  prepare
  deploy
  [[ -z ${KEEP_JUDGE:-} && ${1:-} == run ]] && return
  trap - EXIT
  echo "the judge is ready at $url; stop it with: JUDGE=$judge $0 stop"
}

# The cluster that the judge started, or this machine's.
cluster() {
  local started
  started=$(sed -n 's/^REWARD_SERVE_APP=.* RAY_ADDRESS=//p' "$state/log" 2>/dev/null | tail -n 1)
  echo "${started:-auto}"
}

case ${1:-} in
  stop) stop ;;
  run)
    start run
    shift
    if [[ $judge == qwen ]]; then
      use_ray_token
      export RAY_ADDRESS=${RAY_ADDRESS:-$(cluster)}
    fi
    "$@"
    ;;
  *) start ;;
esac
