#!/usr/bin/env bash
# GRPO on GSM8K, rewarded by GPT-5-mini (or JUDGE), on one GPU shared by training and generation:
# no permanent CPU offload, 5 samples per prompt, 8 prompts per batch.
set -euo pipefail
export JUDGE=${JUDGE:-openai}
export OUT_DIR="${OUT_DIR:-$HOME/runs/gsm8k}/${JUDGE}_one_gpu"
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
launch judge sync \
  trainer.run_name="gsm8k_${JUDGE}_one_gpu" \
  trainer.policy.model.path=Qwen/Qwen2.5-1.5B-Instruct \
  trainer.policy.fsdp_config.cpu_offload=false \
  trainer.ref.fsdp_config.cpu_offload=false \
  trainer.train_batch_size=8 \
  trainer.policy_mini_batch_size=8 \
  generator.n_samples_per_prompt=5 \
  "$@"
