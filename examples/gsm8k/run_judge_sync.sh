#!/usr/bin/env bash
# GRPO on GSM8K, rewarded by the judge, synchronous: 2 GPUs, or 1 with JUDGE=bundled.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
launch judge sync "$@"
