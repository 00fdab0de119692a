# Two commands from a clean clone: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-browser test-lowest test-newest attack docs lint types bench clean

demo: $(VENV)/installed
	$(BIN)/sparsid identify --out results --overwrite

test: $(VENV)/installed-test
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile

# The lowest versions that pyproject.toml declares, and the newest Python at hand.
test-lowest: $(VENV)/uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --resolution lowest-direct .
	$(VENV)-lowest/bin/python tools/smoke.py

NEWEST ?= $(lastword $(sort $(foreach n,11 12 13 14,$(shell command -v python3.$(n)))))
test-newest: $(VENV)/uv
	$(BIN)/uv venv --quiet --clear --python $(NEWEST) $(VENV)-newest
	$(BIN)/uv pip install --quiet --python $(VENV)-newest .
	$(VENV)-newest/bin/python tools/smoke.py

# A thousand malformed inputs, a thousand hostile model files, a hundred kills.
attack: $(VENV)/installed
	PYTHONPATH=tools nice -n 10 $(BIN)/python -m attack $(ATTACK)
# Needs Chromium on this computer: apt-get install chromium.
test-browser: $(VENV)/installed-test
	$(BIN)/pip install --quiet --editable ".[browser]"
	$(BIN)/pytest -m browser tests/app/test_browser.py

docs: $(VENV)/installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/installed
	$(BIN)/python benchmarks/one_step.py --out docs/results/one_step.json
	$(BIN)/python benchmarks/curvature.py --out docs/results/curvature.json
	$(BIN)/python benchmarks/layer_hessian.py --out docs/results/layer_hessian.json
	$(BIN)/python benchmarks/starts.py --out docs/results/starts.json
	$(BIN)/python benchmarks/choices.py --seeds 2 --out docs/results/choices.json
	$(BIN)/python benchmarks/narx_objectives.py tanks --out docs/results/narx_objectives.json
	$(BIN)/python benchmarks/narx_objectives.py systems --seeds 1 --out docs/results/narx_predictors.json
	$(BIN)/python benchmarks/free_run.py blocks --out docs/results/free_run_blocks.json
	$(BIN)/python benchmarks/free_run.py blocks --set '{"prior": "shape"}' --out docs/results/free_run_blocks_shape.json
	$(BIN)/python benchmarks/free_run.py members --out docs/results/free_run_members.json
	$(BIN)/python benchmarks/free_run.py stacking --out docs/results/stacking.json
	$(BIN)/python benchmarks/candidates.py --workers 2 --out docs/results/candidates.json
	$(BIN)/python benchmarks/free_run.py simulated-tanks --set '{"starts": 8}' --out docs/results/free_run_simulated.json
	$(BIN)/python benchmarks/free_run.py systems --auto --out docs/results/free_run_systems.json
	$(BIN)/python benchmarks/calibration.py tanks --out docs/results/calibration_tanks.json
	$(BIN)/python benchmarks/calibration.py simulated-tanks --models state-space --set '{"starts": 8}' --workers 2 --out docs/results/calibration_simulated_states.json
	$(BIN)/python benchmarks/calibration.py simulated-tanks --models narx --workers 2 --out docs/results/calibration_simulated_narx.json
	$(BIN)/python benchmarks/draws.py --out docs/results/draws.json
	$(BIN)/python benchmarks/limit.py --out docs/results/limit.json
	$(BIN)/python benchmarks/growth.py --out docs/results/growth.json
	$(BIN)/python benchmarks/start_up.py --out docs/results/start_up.json
	$(BIN)/python benchmarks/c_step.py --out docs/results/c_step.json
	$(BIN)/python benchmarks/rivals/run.py --out docs/results/rivals.json
	$(BIN)/python benchmarks/speed.py --out docs/results/speed.json
	$(BIN)/python benchmarks/waiting.py --out docs/results/waiting.json
	$(BIN)/python benchmarks/fill_pages.py

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/pip install --quiet --editable ".[test,docs]"
	touch $@

$(VENV)/uv: $(VENV)/installed
	$(BIN)/pip install --quiet uv
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-newest results site .pytest_cache .mypy_cache .ruff_cache
