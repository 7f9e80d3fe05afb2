#!/usr/bin/env bash
# GRPO on GSM8K, rewarded by the rule verifier, synchronous: 1 GPU.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
launch rule sync "$@"
