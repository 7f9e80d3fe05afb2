#!/usr/bin/env bash
# deploy_judge.sh [stop]: deploy the judge, unless one answers already, and wait until it can score.
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
  if [[ $judge == qwen ]]; then
    "$python" -m ray.serve.scripts shutdown --yes
  elif [[ -f $state/pid ]]; then
    local pid
    pid=$(<"$state/pid")
    kill -TERM "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do sleep 0.5; done
    rm "$state/pid"
  fi
}

deploy_qwen() {
  export RAY_ADDRESS=${RAY_ADDRESS:-auto}
  if [[ $RAY_ADDRESS == auto ]] && ! "$python" -m ray.scripts.scripts status >/dev/null 2>&1; then
    "$python" -m ray.scripts.scripts start --head --disable-usage-stats >>"$state/log" 2>&1 || fail
  fi
  "$python" -m ray.serve.scripts run --non-blocking "$deployment" >>"$state/log" 2>&1 || fail
  ready "${READY_TIMEOUT_S:-900}" || fail
}

deploy_apart() {
  make --no-print-directory -C "$root" setup
  [[ $judge != bundled ]] || "$python" -m reward_serve prepare
  PATH=$root/.venv/bin:$PATH nohup setsid "$python" -m ray.serve.scripts run --address local \
    "$deployment" >>"$state/log" 2>&1 </dev/null &
  echo $! >"$state/pid"
  until ready 5; do
    if grep -qE 'Deploying app .* failed|Failed to update the deployments' "$state/log"; then
      stop
      fail
    fi
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
if [[ $judge == qwen ]]; then deploy_qwen; else deploy_apart; fi
echo "the judge answers at $url; to end it: JUDGE=$judge $0 stop"
