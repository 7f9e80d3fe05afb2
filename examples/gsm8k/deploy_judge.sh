#!/usr/bin/env bash
# deploy_judge.sh [stop]: run `reward-serve serve` in the background and wait until it can score;
# does nothing if a judge is already running.
#
# JUDGE=qwen (default): Qwen2.5-1.5B-Instruct on its own GPU, in the trainer's Ray cluster and under
#   its interpreter, TRAINER_PYTHON. The cluster is RAY_ADDRESS, or this machine's; if there is none,
#   `ray start --head` starts one. Environments reach the judge by handle.
# JUDGE=bundled: the bundled judge on CPU cores, in the environment of `make setup` and its own
#   cluster, because trainers take whole GPUs. Environments reach it over HTTP.
# JUDGE=openai: GPT-4o-mini, or the endpoint that deployments/openai.yaml names, with the key in
#   OPENAI_API_KEY; deployed like the bundled judge. JUDGE=graded: the same, with graded verdicts.
#
# DEPLOYMENT    another deployments file
# URL           the judge's URL (http://127.0.0.1:8000)
# TRAINER_GPUS  GPUs that training needs besides the judge's (0); with JUDGE=qwen, exit 1 if the
#   cluster has too few, because Ray would wait forever
# STATE_DIR     folder of the service's log and process id (.judge)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
judge=${JUDGE:-qwen}
url=${URL:-http://127.0.0.1:8000}
state=${STATE_DIR:-$root/.judge}
case $judge in
  qwen) python=${TRAINER_PYTHON:-python} deployment=${DEPLOYMENT:-$root/deployments/judge-gpu.yaml} ;;
  bundled) python=$root/.venv/bin/python deployment=${DEPLOYMENT:-$root/deployments/judge.yaml} ;;
  openai | graded) python=$root/.venv/bin/python deployment=${DEPLOYMENT:-$root/deployments/openai.yaml} ;;
  *) echo "JUDGE=$judge: qwen, bundled, openai or graded" >&2 && exit 2 ;;
esac
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
  while [[ $(ps -o stat= -p "$pid") == [!Z]* ]]; do sleep 0.5; done
  rm "$state/pid"
}

joins=()
if [[ $judge == qwen ]]; then
  joins=(--address "${RAY_ADDRESS:-auto}")
fi

check_gpus() { "$python" "$root/examples/gsm8k/gpus.py" "$deployment" "${TRAINER_GPUS:-0}" "$1"; }

prepare() {
  if [[ $judge != qwen ]]; then
    make --no-print-directory -C "$root" setup
  elif [[ ${RAY_ADDRESS:-auto} == auto ]] && ! "$python" -m ray.scripts.scripts status >/dev/null 2>&1; then
    check_gpus local
    "$python" -m ray.scripts.scripts start --head --disable-usage-stats >>"$state/log" 2>&1 || fail
  else
    check_gpus "${RAY_ADDRESS:-auto}"
  fi
}

deploy() {
  nohup setsid "$python" -m reward_serve serve "$deployment" ${joins[@]+"${joins[@]}"} \
    >>"$state/log" 2>&1 </dev/null &
  echo $! >"$state/pid"
  until ready 5; do
    kill -0 "$(<"$state/pid")" 2>/dev/null || fail
  done
}

if [[ ${1:-} == stop ]]; then
  stop
  exit
fi
: >"$state/log"
if ready 0; then
  echo "a judge is already running at $url"
  exit
fi
echo "deploying $deployment (log: $state/log)"
prepare
deploy
echo "the judge is ready at $url; stop it with: JUDGE=$judge $0 stop"
