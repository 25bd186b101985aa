# Two commands: `make accept` shows the gate at work, `make test` checks the project.
.PHONY: help setup accept test release lint changelog package docs golden bench example soak drill compat next-reframe mutants lab-up lab-down stack mirror lock-check distclean

SHELL_FILES = activate.sh bin/bootstrap bin/railgauge bin/reframe bin/package bin/stack bin/venv.sh .ci/run tests/on_gpu.sh $(wildcard src/railgauge/lab/boot/*) $(wildcard jobs/*.sbatch) $(wildcard findings/*.sh findings/common/*.sh) jobs/gate/railgauge.nhc

# The branch that a change goes to. Its commits since then need a fragment in changelog.d/.
CHANGED_SINCE ?= $(shell git rev-parse --quiet --verify main >/dev/null && echo main || echo origin/main)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## install the pinned Python packages into .venv (all that a cluster needs): [WHEELS=dir]
	bin/bootstrap python

accept: ## bring the embedded cluster up and print its verdict
	bin/bootstrap lab python
	bin/railgauge lab up
	bin/railgauge accept
	@echo 'The lab is still up: `railgauge lab shell`, `railgauge lab fault add --help`; `make lab-down` ends it.'

test: ## the tests of a change, with the embedded cluster
	bin/bootstrap lab dev browser
	.venv/bin/python -m pytest --numprocesses=5 -m "not release"

release: lint ## before each tag: lint, the packages, every test, the mutants, other versions; hours
	bin/bootstrap lab dev browser
	$(MAKE) package
	.venv/bin/python -m pytest --numprocesses=5 --hypothesis-profile=full
	.venv/bin/python -m tests.mutants
	.venv/bin/python -m tests.lab.compat

lint: ## formatting, types and style of Python, shell and YAML
	bin/bootstrap dev
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	shellcheck $(SHELL_FILES)
	shfmt --indent 2 --case-indent --diff $(SHELL_FILES)
	.venv/bin/yamllint --strict configs results/references examples .yamllint
	@# Without that branch, as in a clone of one commit, it is not known what has changed.
	if git rev-parse --quiet --verify "$(CHANGED_SINCE)" >/dev/null; then .venv/bin/towncrier check --compare-with "$(CHANGED_SINCE)"; fi

changelog: ## move the fragments of changelog.d/ into CHANGELOG.md, for the version of src/railgauge/__init__.py
	bin/bootstrap dev
	.venv/bin/towncrier build --yes --version "$$(.venv/bin/python -c 'import railgauge; print(railgauge.__version__)')"

package: ## packages of HEAD into dist/: wheel, sdist, deb, RPM; the same bytes each time, with SBOM and hashes
	bin/bootstrap dev nfpm
	rm -rf dist
	bin/package dist
	.venv/bin/python -m package.system_packages dist

docs: ## write the generated parts of the documents, then the site: site/index.html, and the manual pages: site/man/man1
	bin/bootstrap dev
	.venv/bin/python -m railgauge.site.schema
	.venv/bin/sphinx-build --quiet --fail-on-warning --keep-going docs site
	.venv/bin/python -m railgauge.cli.manual site/man/man1

golden: ## write tests/data/golden again
	bin/bootstrap dev
	.venv/bin/python -m tests.unit.checks.test_golden --write

bench: ## figures: start-up, harness cost, iperf2 through the suite over by hand: [AGAINST=commit]
	bin/bootstrap lab dev browser
	.venv/bin/python -m tests.bench $(AGAINST:%=--against %)

example: ## write docs/example again: the pages of two campaigns of the lab
	bin/bootstrap lab python
	.venv/bin/python -m tests.example

soak: ## many acceptances and starts of MPI on a loaded machine, hours: [ACCEPTS=20] [STARTS=300] [RDMA=100]
	bin/bootstrap lab dev
	.venv/bin/python -m tests.soak $(ACCEPTS:%=--accepts %) $(STARTS:%=--starts %) $(RDMA:%=--rdma %)

drill: ## the gate, patrol and locate against real faults: what they did, and how long it took
	bin/bootstrap lab dev
	.venv/bin/python -m tests.lab.drill
	.venv/bin/python -m tests.lab.drill_locate

compat: ## the suite, the gate and a new user's first ten minutes with other versions: [RELEASES="bookworm trixie"]
	bin/bootstrap lab dev
	.venv/bin/python -m tests.lab.compat $(RELEASES)

next-reframe: ## the tests of the guard and the checks with another ReFrame: CHECKOUT=DIR [LAB=1]
	bin/bootstrap lab dev
	.venv/bin/python -m tests.next_reframe "$(CHECKOUT)" $(LAB:%=--lab)

mutants: ## take each protection away in turn, and see its test fail
	bin/bootstrap lab dev
	.venv/bin/python tests/mutants.py

lab-up: ## bring the embedded cluster up
	bin/bootstrap lab python
	bin/railgauge lab up

lab-down: ## end the embedded cluster
	bin/railgauge lab down

stack: ## build the pinned tools by Spack: SYSTEM=... [MIRROR=dir] [ONLY="perftest iperf2"] [JOBS=n]
	bin/bootstrap python
	bin/stack build "$(SYSTEM)" $(if $(MIRROR),--mirror "$(MIRROR)") $(ONLY:%=--only %) $(JOBS:%=--jobs %)

mirror: ## fetch all that `make stack MIRROR=dir` needs: SYSTEM=... MIRROR=dir
	bin/bootstrap python
	bin/stack mirror "$(SYSTEM)" "$(MIRROR)"

lock-check: ## compare Spack's locks with spack.yaml; with SPACK_ROOT=dir also solve them again
	bin/bootstrap python
	bin/stack check
	@if [ -n "$$SPACK_ROOT" ]; then bin/stack solve; fi

distclean: ## as after a fresh clone, without what Spack built (.stack); campaigns and references stay
	@if [ -x .venv/bin/python ]; then bin/railgauge lab down; fi
	rm -rf --one-file-system .lab .stack .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
