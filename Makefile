# `make demo` and `make test` work from a clean clone: each sets up .venv first.
PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
STAMP := $(VENV)/.installed
VERL := .venv-verl
POOL := .venv-pool
PEERS := .venv-peers
DOCS := .venv-docs
SKYRL := .skyrl
CACHE := $(or $(REWARD_SERVE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/reward_serve)
SKY := $(CACHE)/skypilot
TINKER := $(CACHE)/tinker
# pyenv's shim for a version that is not its current one fails.
PYTHON312 ?= $(firstword $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.12.*/bin/python3.12) python3.12)

empty :=
space := $(empty) $(empty)
comma := ,
# uv does not read pip's settings: pass on where wheels are found; otherwise let uv pick a CPU torch.
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS := $(subst $(space),$(comma),$(strip $(PIP_FIND_LINKS)))
else
export UV_TORCH_BACKEND := cpu
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX := $(PIP_INDEX_URL)
endif
# Importing vLLM takes 19 s from source and 7 s from bytecode.
export UV_COMPILE_BYTECODE := 1
# Tests and Ray start many processes, each of which would compile this project's sources anew.
unexport PYTHONDONTWRITEBYTECODE
export RAY_USAGE_STATS_ENABLED ?= 0
# By default Ray runs its workers, and so replicas and engines, at nice 15.
export RAY_worker_niceness ?= 0

RULES ?= on

.DEFAULT_GOAL := help
.PHONY: help setup demo serve image wheels docs train-judge grpo distil test test-all test-clients bench chaos scale compare check format lock

help:  ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## Build .venv (done by the other targets when needed)

$(STAMP): requirements/dev.txt pyproject.toml answers/pyproject.toml checkers/pyproject.toml lab/pyproject.toml judge/pyproject.toml $(wildcard clients/*/pyproject.toml)
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	    { echo "$(PYTHON) is not Python 3.11: name one, as in make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps -r requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps $(addprefix --editable ,$(WHEELS))
	@touch $@

demo: $(STAMP)  ## Deploy the bundled judge, score a labelled file (DATA= OUT= RULES=off), shut down
	$(BIN)/python -m examples.demo $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)") --rules $(RULES)

serve: $(STAMP)  ## Serve the bundled judge on 127.0.0.1:8000 until interrupted (ARGS="MODEL --port 8001")
	$(BIN)/python -m reward_serve serve $(ARGS)

WHEELS := . answers checkers lab judge $(patsubst %/pyproject.toml,%,$(wildcard clients/*/pyproject.toml))

image:  ## Build the CPU container, have it score once (needs Docker)
	NAME=reward-serve-image deploy/containers/run.sh
	docker exec reward-serve-image reward-serve wait --timeout-s 300
	docker exec reward-serve-image reward-serve ask "" "#### 18" --reference 18
	docker stop reward-serve-image

wheels: $(STAMP)  ## Build every distribution's wheel into dist/ (OUT=)
	@for each in $(WHEELS); do $(UV) build --quiet --wheel --out-dir "$(or $(OUT),dist)" $$each || exit 1; done
	@ls "$(or $(OUT),dist)"

docs: $(DOCS)/.installed  ## Rewrite the generated reference; build the documentation into site/, strictly
	$(BIN)/python -m docs.generate
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict # with --quiet, warnings do not fail

train-judge: $(STAMP)  ## Train the bundled judge's adapter from GSM8K's train file (DATA= OUT=)
	$(BIN)/python -m reward_serve_judge.training $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)")

grpo: $(STAMP) $(TINKER)/.installed  ## Warm a policy up and train it with GRPO, rewarded by the bundled judge (OUT=; ARGS=all: every run, hours)
	$(BIN)/python -m examples.grpo $(or $(ARGS),judge-sync --name short --set steps=12 --set evaluate_every=12) $(if $(OUT),--out "$(OUT)")

distil: $(STAMP)  ## Distil a served teacher into a student on this CPU (OUT= ARGS="--top-k 0")
	$(BIN)/python -m examples.distil $(ARGS) $(if $(OUT),--out "$(OUT)")

test: $(STAMP)  ## Unit tests beside service tests, which share one Ray cluster and one engine
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(STAMP) $(SKY)/.installed  ## Every test: whole tables, faults in real time, examples, load tests, the workbench in Chromium
	SKYPILOT_PYTHON="$(SKY)/bin/python" $(BIN)/python -m pytest -n 2

# An environment beside .venv: its folder, its file in requirements/, its Python, what is editable in it.
define environment
$1/.installed: $(STAMP) requirements/$2.txt $(4:%=%/pyproject.toml)
	@$3 --version >/dev/null 2>&1 || { echo "requirements/$2.txt needs $3, which does not run: install it \
	(uv python install 3.12), or name it: make $$@ PYTHON312=/path/to/python3.12" >&2; exit 1; }
	@test -x $1/bin/python || $(UV) venv --quiet --python $3 $1
	$(UV) pip install --quiet --python $1/bin/python --no-deps -r requirements/$2.txt $(4:%=--editable %)
	@touch $$@
endef
$(eval $(call environment,$(DOCS),docs,$(PYTHON)))
$(eval $(call environment,$(SKY),sky,$(PYTHON)))
$(eval $(call environment,$(VERL),verl,$(PYTHON),. answers clients/verl))
# verifiers, NeMo Gym and OpenEnv: their adapters, and judges of the first two that ask over HTTP.
ENVIRONMENTS := clients/nemo-gym clients/openenv clients/verifiers
$(eval $(call environment,$(POOL),pool,$(PYTHON312),. answers $(ENVIRONMENTS)))
$(eval $(call environment,$(PEERS),peers,$(PYTHON312)))
# 6 GB, hence in the cache, where checkouts share it.
$(eval $(call environment,$(TINKER),tinker,$(PYTHON312)))

# skyrl asks for Python 3.12, for which there is no CPU build of torch everywhere.
$(SKYRL)/.installed: $(STAMP) requirements/skyrl.txt
	$(UV) pip install --quiet --target $(SKYRL) --python $(BIN)/python --python-version 3.12 --no-deps \
	    -r requirements/skyrl.txt
	@touch $@

test-clients: $(VERL)/.installed $(SKYRL)/.installed $(POOL)/.installed  ## The adapters in the code of verl, SkyRL, TRL, verifiers, OpenEnv and NeMo Gym
	REWARD_SERVE_BIN="$(abspath $(BIN))" $(VERL)/bin/python -m pytest -c clients/pytest.ini clients/verl/tests
	PYTHONPATH="$(SKYRL):." $(BIN)/python -m pytest -c clients/pytest.ini --rootdir . clients/skyrl/tests
	$(BIN)/python -m pytest -c clients/pytest.ini --rootdir . clients/trl/tests
	$(BIN)/python -m pytest -c clients/pytest.ini --rootdir . clients/distillation/tests
	REWARD_SERVE_BIN="$(abspath $(BIN))" $(POOL)/bin/python -m pytest -c clients/pytest.ini --rootdir . \
	    clients/pool/tests $(ENVIRONMENTS:%=%/tests)

bench: $(STAMP)  ## What each part costs, and against what; loadtests/results/bench.json (ONLY= DATA= OUT=)
	$(BIN)/python -m loadtests.bench $(if $(ONLY),--only "$(ONLY)") $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)")

chaos: $(STAMP)  ## Break the service in every way known, under load; loadtests/results/chaos.json (ONLY= OUT=)
	$(BIN)/python -m loadtests.chaos $(if $(ONLY),--only "$(ONLY)") $(if $(OUT),--out "$(OUT)")

scale: $(STAMP)  ## How far a deployment scales, on sixteen Ray nodes of this machine; loadtests/results/scale.json (ONLY= OUT=)
	$(BIN)/python -m loadtests.scale $(if $(ONLY),--only "$(ONLY)") $(if $(OUT),--out "$(OUT)")

compare: $(STAMP) $(POOL)/.installed $(VERL)/.installed $(PEERS)/.installed  ## Other projects' judges beside this one; loadtests/results/compare.json (ONLY= DATA= OUT=)
	$(BIN)/python -m loadtests.peers stand-in $(if $(ONLY),--only "$(ONLY)") $(if $(OUT),--out "$(OUT)")
	$(BIN)/python -m loadtests.peers engine $(if $(ONLY),--only "$(ONLY)") $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)")

check: $(STAMP)  ## Format, lint, types, which folder imports which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache . # what is first-party depends on more than a file
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)  ## Rewrite files in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

LOCK := pip compile --quiet --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
CPU_LOCK := $(LOCK) --python-version 3.11 --override requirements/overrides.txt \
    --override requirements/cpu-overrides.txt --no-emit-package reward-serve-answers --no-emit-package reward-serve-checkers \
    --extra checkers --extra serve --extra bundled --extra remote

lock:  ## Recompile requirements/*.txt (needs uv)
	$(UV) $(CPU_LOCK) -o requirements/cpu.txt pyproject.toml requirements/cpu.in
	$(UV) $(CPU_LOCK) --constraint requirements/cpu.txt --extra train --extra grpo --extra load --extra dev \
	    --no-emit-package reward-serve -o requirements/dev.txt pyproject.toml answers/pyproject.toml lab/pyproject.toml \
	    requirements/cpu.in
	env -u UV_FIND_LINKS -u UV_TORCH_BACKEND $(UV) $(LOCK) --python-version 3.12 \
	    --python-platform x86_64-manylinux_2_35 --override requirements/overrides.txt \
	    --no-emit-package reward-serve-answers --no-emit-package reward-serve-checkers --extra checkers --extra serve --extra vllm --extra bundled --extra remote \
	    -o requirements/cuda.txt pyproject.toml
	$(UV) $(LOCK) --python-version 3.11 -o requirements/verl.txt requirements/verl.in
	$(UV) $(LOCK) --python-version 3.12 -o requirements/tinker.txt requirements/tinker.in
	$(UV) $(LOCK) --python-version 3.12 --override requirements/pool-overrides.txt -o requirements/pool.txt requirements/pool.in
	$(UV) $(LOCK) --python-version 3.12 -o requirements/peers.txt requirements/peers.in
	$(UV) $(LOCK) --python-version 3.11 -o requirements/docs.txt requirements/docs.in
	$(UV) $(LOCK) --python-version 3.11 -o requirements/sky.txt requirements/sky.in
