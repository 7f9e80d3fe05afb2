#!/usr/bin/env bash
# GRPO on GSM8K, rewarded by the judge, fully asynchronous: 3 GPUs, or 2 with JUDGE=bundled.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/launch.sh"
launch judge async "$@"
