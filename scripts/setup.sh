#!/usr/bin/env bash
# Makes .venv, installs the pinned packages, finds or installs a Chromium, reads the tiny model's probe.
# Quick when repeated: a stamp names what was installed. Settings: PYTHON, RMSWEB_CHROMIUM, RMSWEB_SKIP_PROBE=1.
set -euo pipefail
cd "$(dirname "$0")/.."
started=$(date +%s)
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2; exit 2; }
stamp=.venv/.rmsweb-setup
wanted=$(cat pyproject.toml constraints.txt scripts/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ] || [ ! -x .venv/bin/rmsweb ]; then
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  echo "setup: installing packages (torch first: its CPU file where pip has one)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,miniwob,dev]'
  echo "$wanted" > "$stamp"
fi
if ! browser=$(.venv/bin/python -m rmsweb.web.chromium 2>/dev/null); then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: no Chromium found; installing the system's package"
    apt-get update -qq && { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }
  else
    echo "setup: no Chromium found; downloading Playwright's"
    timeout 300 .venv/bin/python -m playwright install chromium-headless-shell
  fi
  browser=$(.venv/bin/python -m rmsweb.web.chromium) || { echo "setup: still no Chromium; install one and set RMSWEB_CHROMIUM=/path/to/it" >&2; exit 2; }
fi
echo "setup: browser $browser"
if [ "${RMSWEB_SKIP_PROBE:-0}" != 1 ] && [ "$(cat .venv/.rmsweb-probe 2>/dev/null || true)" != "$wanted $browser" ]; then
  OMP_NUM_THREADS=1 .venv/bin/rmsweb doctor --probe && echo "$wanted $browser" > .venv/.rmsweb-probe
fi
echo "setup: ready in $(( $(date +%s) - started )) s"
