#!/usr/bin/env bash
# Lists source files that clang-format would change; exits 1 if there are any. With --fix, formats them.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files '*.h' '*.cc' '*.c')
if [[ "${1:-}" == --fix ]]; then
  printf '%s\0' "${files[@]}" | xargs -0 -n 20 -P 2 clang-format-14 -i
  exit 0
fi
bad=$(printf '%s\0' "${files[@]}" | xargs -0 -n 20 -P 2 clang-format-14 --dry-run 2>&1 | grep -oE '^[^ :]+\.(cc|h|c):' | sort -u || true)
if [[ -n "$bad" ]]; then
  echo "not formatted (tools/check_format.sh --fix):"
  echo "$bad"
  exit 1
fi
