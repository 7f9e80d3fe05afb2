#!/usr/bin/env bash
# GRPO on GSM8K with verl 0.9.1, rewarded by the judge: 1 GPU for the trainer.
#
# The judge runs as a separate service, because verl pins other versions. It is the service at
# REWARD_SERVE_URL, or the application REWARD_SERVE_APP of the trainer's Ray cluster (same versions
# of Ray and Python, and ray[serve]). With neither, the bundled judge is deployed on CPU cores
# (JUDGE=bundled of examples/gsm8k/deploy_judge.sh) and ended with the run (KEEP_JUDGE=1 keeps it).
# If the judge refuses the first row, the run ends.
#
# TRAINER_PYTHON  the trainer's interpreter, with reward-serve-verl (python)
# DATA_DIR        parent of judge/, written by examples/gsm8k/prepare_dataset.py ($HOME/data/gsm8k)
# OUT_DIR         parent of the checkpoints ($HOME/runs/gsm8k)
# LOGGER          console or wandb (console)
# PRINT_CONFIG    non-empty: only print the settings, one per line
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${DATA_DIR:-$HOME/data/gsm8k}/judge
if [[ -n ${REWARD_SERVE_URL:-} && -n ${REWARD_SERVE_APP:-} ]]; then
  echo "REWARD_SERVE_URL and REWARD_SERVE_APP are both set; unset one" >&2
  exit 2
elif [[ -n ${REWARD_SERVE_APP:-} ]]; then
  service=app=$REWARD_SERVE_APP
else
  service=url=${REWARD_SERVE_URL:-http://127.0.0.1:8000}
fi
settings=(
  algorithm.adv_estimator=grpo
  algorithm.use_kl_in_reward=false
  "data.train_files=$data/train.parquet"
  "data.val_files=$data/validation.parquet"
  data.train_batch_size=16
  data.max_prompt_length=512
  data.max_response_length=1024
  data.filter_overlong_prompts=true
  actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct
  actor_rollout_ref.actor.optim.lr=1e-6
  actor_rollout_ref.actor.ppo_mini_batch_size=8
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4
  actor_rollout_ref.actor.use_kl_loss=true
  actor_rollout_ref.actor.kl_loss_coef=0.001
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.n=4
  actor_rollout_ref.rollout.tensor_model_parallel_size=1
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4
  # Reward workers score trajectories during the rollout.
  reward.num_workers=8
  reward.custom_reward_function.path=pkg://reward_serve_verl
  reward.custom_reward_function.name=compute_score
  # Undecided samples are left out of training.
  reward.reward_manager.source=importlib
  reward.reward_manager.name=DecidedRewardManager
  reward.reward_manager.module.path=pkg://reward_serve_verl.training
  trainer.v1.sampler.custom_sampler.path=pkg://reward_serve_verl.training
  trainer.v1.sampler.custom_sampler.name=DecidedReplayBuffer
  # The verdict log tells validation from training.
  +actor_rollout_ref.rollout.agent.agent_loop_manager_class=reward_serve_verl.training.LoopManager
  "+reward.custom_reward_function.reward_kwargs.$service"
  trainer.n_gpus_per_node=1
  trainer.nnodes=1
  trainer.total_epochs=20
  trainer.save_freq=50
  trainer.test_freq=50
  trainer.project_name=gsm8k
  trainer.experiment_name=verl_judge
  "trainer.default_local_dir=${OUT_DIR:-$HOME/runs/gsm8k}/verl_judge"
  "trainer.logger=['${LOGGER:-console}']"
  "$@"
)
if [[ -n ${PRINT_CONFIG:-} ]]; then
  printf '%s\n' "${settings[@]}"
  exit
fi
if [[ ! -f $data/train.parquet ]]; then
  echo "$data/train.parquet is missing; create it: python -m examples.gsm8k.prepare_dataset" \
    "--out $data" >&2
  exit 1
fi
trainer=("${TRAINER_PYTHON:-python}" -m reward_serve_verl.main "${settings[@]}")
if [[ -z ${REWARD_SERVE_URL:-}${REWARD_SERVE_APP:-} ]]; then
  export JUDGE=bundled
  exec "$here/../gsm8k/deploy_judge.sh" run "${trainer[@]}"
fi
exec "${trainer[@]}"
