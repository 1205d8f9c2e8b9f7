# make serve    the site, both languages, from recorded results, at http://127.0.0.1:8000 (no torch needed)
# make test     every test on the CPU, snippets included
# make measure  record this machine: make measure ARGS="--only 'overview/*' --budget 480 --bundle results.bundle.json"
# make site     a strict build into site/
# make import FILE=results.bundle.json   merge a bundle from another machine

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PORT ?= 8000
ARGS ?=
export NO_MKDOCS_2_WARNING = 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help serve site test lint measure import status clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Choose one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp is written only after its installation ended well, so a broken one is done again.
$(VENV)/.site: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/.site
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

serve: $(VENV)/.site
	$(BIN)/python -m mkdocs serve --dev-addr 127.0.0.1:$(PORT)

site: $(VENV)/.site
	$(BIN)/python -m mkdocs build --strict

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Without ARGS the browser's tests run beside those that look at no clock; then come the others, alone.
test: lint
ifeq ($(strip $(ARGS)),)
	@$(BIN)/python -m pytest -m browser >$(VENV)/browser-tests.log 2>&1 & browser=$$!; \
	$(BIN)/python -m pytest -m "clockless and not browser"; first=$$?; \
	wait $$browser; shown=$$?; cat $(VENV)/browser-tests.log; \
	$(BIN)/python -m pytest -m "not clockless and not browser"; second=$$?; \
	test $$first = 0 && test $$shown = 0 && test $$second = 0
else
	$(BIN)/python -m pytest $(ARGS)
endif

# The machine's own Python where it has torch (a GPU machine has the torch that fits it), else ours.
measure:
	@if $(PYTHON) -c 'import importlib.util as u, tomllib, sys; sys.exit(not u.find_spec("torch"))' 2>/dev/null; then $(PYTHON) -m kitchen measure $(ARGS); \
	else $(MAKE) --silent --no-print-directory $(VENV)/.test && $(BIN)/python -m kitchen measure $(ARGS); fi

import:
	@test -n "$(FILE)" || { echo "Which file? make import FILE=results.bundle.json" >&2; exit 2; }
	@$(PYTHON) -m kitchen import "$(FILE)"

status:
	@$(PYTHON) -m kitchen status

clean:
	rm -rf site .cache build *.egg-info
