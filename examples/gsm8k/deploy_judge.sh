#!/usr/bin/env bash
# deploy_judge.sh [stop]: `reward-serve serve` in the background, unless a judge answers already, and
# wait until it can score.
#
# JUDGE=qwen (the default): Qwen2.5-1.5B-Instruct on a GPU of its own, in the trainer's Ray cluster
#   (RAY_ADDRESS, else the one of `ray start --head`, which is run where there is none) under its
#   interpreter, TRAINER_PYTHON. Environments reach it by handle.
# JUDGE=bundled: the bundled judge on CPU cores, in the environment of `make setup` and a cluster of
#   its own, since trainers take whole GPUs. Environments reach it by HTTP.
# JUDGE=openai: GPT-4o-mini, or another endpoint that deployments/openai.yaml names; its key in
#   OPENAI_API_KEY. Deployed as the bundled judge is. JUDGE=graded: the same, asked for grades.
#
# DEPLOYMENT  another deployments file; URL where it answers (http://127.0.0.1:8000)
# TRAINER_GPUS  GPUs that training takes beside the judge (0); with JUDGE=qwen, it ends with exit code 1
#   where the cluster has fewer than both need, since Ray would wait for ever
# STATE_DIR   the service's log and process id (.judge)
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
  echo "the judge did not come up; its log: $state/log" >&2
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

start_what_it_needs() {
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
  echo "a judge answers at $url already"
  exit
fi
echo "deploying $deployment (log: $state/log)"
start_what_it_needs
deploy
echo "the judge answers at $url; to end it: JUDGE=$judge $0 stop"
