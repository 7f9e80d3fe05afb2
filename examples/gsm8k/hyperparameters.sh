# Sourced by launch.sh: settings that all four runs share. Policy, GRPO and lengths are those of the
# runs that this example replaces, so that curves are comparable.
# shellcheck shell=bash disable=SC2034
HYPERPARAMETERS=(
  trainer.policy.model.path=Qwen/Qwen2.5-0.5B-Instruct
  trainer.strategy=fsdp
  trainer.placement.policy_num_gpus_per_node=1
  trainer.placement.ref_num_gpus_per_node=1
  trainer.epochs=20
  trainer.micro_forward_batch_size_per_gpu=4
  trainer.micro_train_batch_size_per_gpu=4
  trainer.max_prompt_length=512
  trainer.eval_batch_size=256
  trainer.eval_before_train=false
  trainer.eval_interval=50
  trainer.ckpt_interval=50
  trainer.max_ckpts_to_keep=2
  trainer.policy.optimizer_config.lr=1.0e-6
  trainer.algorithm.advantage_estimator=grpo
  # SkyRL's fully asynchronous trainer requires a loss against the rollout's log-probabilities.
  trainer.algorithm.policy_loss_type=rollout_is
  generator.n_samples_per_prompt=4
  generator.batched=false
  generator.sampling_params.max_generate_length=1024
  generator.inference_engine.num_engines=1
  generator.inference_engine.tensor_parallel_size=1
  generator.inference_engine.gpu_memory_utilization=0.6
  environment.skyrl_gym.max_env_workers=64
)
