# Sourced by the run_*.sh scripts.
# shellcheck shell=bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=examples/gsm8k/hyperparameters.sh
source "$here/hyperparameters.sh"

# setting <name> <default>: the last value of one of launch's settings, or the default.
setting() {
  local each value=$2
  for each in "${settings[@]}"; do
    [[ $each == "$1="* ]] && value=${each#*=}
  done
  echo "$value"
}

# GPUs of training and generation; they share GPUs if colocated.
trainer_gpus() {
  local policy=$(($(setting trainer.placement.policy_num_gpus_per_node 1) * $(setting trainer.placement.policy_num_nodes 1)))
  local engines=$(($(setting generator.inference_engine.num_engines 1) * $(setting generator.inference_engine.tensor_parallel_size 1)))
  if [[ $(setting trainer.placement.colocate_all true) == true ]]; then
    echo $((policy > engines ? policy : engines))
  else
    echo $((policy + engines))
  fi
}

# from <variable> <setting>...: the settings with the variable's value, if it has one.
from() {
  local each variable=$1
  shift
  [[ -z ${!variable:-} ]] || for each in "$@"; do settings+=("$each=${!variable}"); done
}

# The key that `wandb login` has written.
wandb_key() {
  local host=${WANDB_BASE_URL:-https://api.wandb.ai}
  host=${host#*://}
  awk -v host="${host%%[:/]*}" '
    { for (i = 1; i < NF; i++) {
        if ($i == "machine") machine = $(i + 1)
        if ($i == "password" && machine == host) { print $(i + 1); exit } } }
  ' "${NETRC:-$HOME/.netrc}" 2>/dev/null || true
}

# launch <rule|judge> <sync|async> [key=value ...]: deploy the judge if needed, train, and end the
# judge if it was started here.
#
# TRAINER_PYTHON    the trainer's interpreter (python)
# DATA_DIR          folder of train.parquet, or parent of rule/ and judge/, as prepare_dataset.py
#   writes them ($HOME/data/gsm8k)
# OUT_DIR           parent of checkpoints and exports ($HOME/runs/gsm8k)
# JUDGE             qwen, bundled, openai or graded (three grades); see deploy_judge.sh
# REWARD_SERVE_URL  use this service; nothing is deployed
# JUDGE_MODEL, JUDGE_REPLICAS, JUDGE_TP, KEEP_JUDGE, REWARD_*  see deploy_judge.sh
# NUMBERS           llm_as_a_judge_local: that example's numbers: mini-batch 8, no KL loss, its judge
# NUM_POLICY_GPUS (or NUM_GPUS), NUM_INFERENCE_ENGINES, TP_SIZE, CKPT_PATH  as in SkyRL's scripts
# ENV_FILE          file of variables to export, such as OPENAI_API_KEY and WANDB_API_KEY
# LOGGER            console or wandb (wandb if WANDB_API_KEY is set or after `wandb login`)
# WANDB_PROJECT     wandb's project (gsm8k)
# PRINT_CONFIG      non-empty: only print the settings, one per line
launch() {
  local reward=$1 mode=$2
  shift 2
  # shellcheck disable=SC1090
  if [[ -n ${ENV_FILE:-} ]]; then set -a && source "$ENV_FILE" && set +a; fi
  local key=${WANDB_API_KEY:-$(wandb_key)}
  local logger=${LOGGER:-${key:+wandb}}
  [[ $logger != wandb || -z $key ]] || export WANDB_API_KEY=$key # SkyRL reads nothing else
  local data="${DATA_DIR:-$HOME/data/gsm8k}"
  [[ -f $data/train.parquet ]] || data=$data/$reward
  local out="${OUT_DIR:-$HOME/runs/gsm8k}/${reward}_$mode"
  local environment=gsm8k_judge url=${REWARD_SERVE_URL:-}
  [[ $reward == rule ]] && environment=gsm8k # skyrl_gym's own strict match
  [[ -z $url && ${JUDGE:-qwen} != qwen ]] && url=http://127.0.0.1:8000
  local settings=(
    "${HYPERPARAMETERS[@]}"
    "data.train_data=['$data/train.parquet']"
    "data.val_data=['$data/validation.parquet']"
    "environment.env_class=$environment"
    "trainer.project_name=${WANDB_PROJECT:-gsm8k}"
    "trainer.run_name=gsm8k_${reward}_$mode"
    "trainer.ckpt_path=$out/checkpoints"
    "trainer.export_path=$out/exports"
    "trainer.logger=${logger:-console}"
  )
  if [[ $reward == judge && -n $url ]]; then
    settings+=("environment.skyrl_gym.gsm8k_judge.url=$url")
  elif [[ $reward == judge ]]; then
    settings+=(environment.skyrl_gym.gsm8k_judge.app=reward)
  fi
  if [[ $reward == judge && ${JUDGE:-} == graded ]]; then
    settings+=(environment.skyrl_gym.gsm8k_judge.template=graded)
  fi
  local batch=16 # in asynchronous runs also the mini-batch, as SkyRL requires
  if [[ ${NUMBERS:-} == llm_as_a_judge_local ]]; then
    [[ $mode == sync ]] || batch=8
    settings+=(trainer.algorithm.use_kl_loss=false generator.inference_engine.gpu_memory_utilization=0.7)
    settings+=(trainer.micro_{forward,train}_batch_size_per_gpu=8 trainer.ckpt_interval=10)
  elif [[ -n ${NUMBERS:-} ]]; then
    echo "NUMBERS=$NUMBERS: llm_as_a_judge_local, or unset it" >&2
    return 2
  fi
  settings+=("trainer.train_batch_size=$batch")
  if [[ $mode == sync ]]; then
    settings+=(trainer.placement.colocate_all=true trainer.policy_mini_batch_size=8)
  else # generation at most one step ahead
    settings+=(
      trainer.placement.colocate_all=false
      "trainer.policy_mini_batch_size=$batch"
      trainer.fully_async.enabled=true
      trainer.fully_async.max_staleness_steps=1
      trainer.fully_async.num_parallel_generation_workers=16
    )
  fi
  from NUM_GPUS trainer.placement.{policy,ref}_num_gpus_per_node
  from NUM_POLICY_GPUS trainer.placement.{policy,ref}_num_gpus_per_node
  from NUM_INFERENCE_ENGINES generator.inference_engine.num_engines
  from TP_SIZE generator.inference_engine.tensor_parallel_size
  from CKPT_PATH trainer.ckpt_path
  settings+=("$@")
  local each
  for each in JUDGE_MODEL JUDGE_REPLICAS JUDGE_TP REWARD_MODEL REWARD_NUM_ENGINES REWARD_MAX_MODEL_LEN; do
    if [[ -n ${!each:-} && -n ${REWARD_SERVE_URL:-} ]]; then
      echo "$each: nothing is deployed with REWARD_SERVE_URL=$REWARD_SERVE_URL; unset one" >&2
      return 2
    fi
  done
  if [[ -n ${PRINT_CONFIG:-} ]]; then
    printf '%s\n' "${settings[@]}"
    return
  fi
  if [[ ! -f $data/train.parquet ]]; then
    echo "$data/train.parquet is missing; create it: python -m examples.gsm8k.prepare_dataset" \
      "--variant $reward --out $data" >&2
    return 1
  fi
  local trainer=("${TRAINER_PYTHON:-python}" -m reward_serve_skyrl.main "${settings[@]}")
  if [[ $reward == judge && -z ${REWARD_SERVE_URL:-} ]]; then
    TRAINER_GPUS=$(trainer_gpus) "$here/deploy_judge.sh" run "${trainer[@]}"
  else
    "${trainer[@]}"
  fi
}
