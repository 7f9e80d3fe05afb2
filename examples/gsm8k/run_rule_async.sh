#!/usr/bin/env bash
# GRPO on GSM8K, rewarded by the rule verifier, fully asynchronous: 2 GPUs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
launch rule async "$@"
