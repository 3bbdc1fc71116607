# rewindow. `make help` lists the verbs.
.DEFAULT_GOAL := help
.PHONY: help build up demo down test unit check golden fuzz validate predictions prediction-errors pairs calibration distributions lab kernel-queues queues corpus bench bench-simulator bench-kernel bench-storing bench-neighbours bench-whatifs bench-dashboards bench-charts bench-load chaos soak profile docs screenshot types specs specs-full specs-mutants pictures faults conformance clean

PYTHON := .venv/bin/python
SECONDS := 60
# Compiled Python is kept, whatever the environment says: tests and services start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the library, the binding and the command line (.venv/bin/rewindow), no service
	@deploy/setup.sh build

up: ## install, build, start everything, analyse a sample capture and stay up; DETACH=1 returns, PORT= chooses the port
	@deploy/setup.sh run
	@$(PYTHON) deploy/run.py up $(if $(DETACH),--detach) $(if $(PORT),--port $(PORT))

demo: ## `make up DETACH=1` with 196 simulated captures of seven weeks and four sites; PORT= chooses the port
	@deploy/setup.sh run
	@$(PYTHON) -m deploy.demo $(if $(PORT),--port $(PORT))

down: ## stop the service that `make up DETACH=1` started; its data stays
	@if [ -x $(PYTHON) ]; then $(PYTHON) deploy/run.py down; else echo "nothing is running"; fi

test: ## install, build and run every test against services of its own
	@deploy/setup.sh test
	@deploy/test.sh

unit: ## run some tests: FILES="tests/unit/test_replays.py -k gate", FILES=core-c/tests/packet_test.c; without FILES, tests/unit
	@deploy/setup.sh test
	@deploy/unit.sh $(FILES)

check: ## run formatters, linters, type checkers and import rules
	@deploy/setup.sh check
	@deploy/check.sh

golden: ## rewrite tests/golden, each controller's windows on two captures; review the difference
	@deploy/setup.sh build
	@$(PYTHON) -m tests.goldens

fuzz: ## search for inputs that break the core; SECONDS= for each target, TARGET= picks one, JOBS= run at once
	@deploy/setup.sh fuzz
	@SECONDS_EACH=$(SECONDS) TARGET="$(TARGET)" JOBS="$(JOBS)" deploy/fuzz.sh

lab: ## run the suite of networks on real kernels, as root; then `make validate` judges the runs; OPTIONS="--only 'ecn-*'"
	@deploy/setup.sh lab
	@.venv/bin/rewindow-lab suite $(OPTIONS)

queues: ## compare RED and CoDel of the emulator with those of ns-3; needs libns3-dev (Debian)
	@deploy/setup.sh lab
	@$(PYTHON) -m bench.queues

validate: CORPUS ?= build/lab
validate: ## compare replays with the kernel's own windows; CORPUS= names the folder of runs (build/lab), OPTIONS=--write
	@deploy/setup.sh build
	@$(PYTHON) -m bench.validate $(CORPUS) $(OPTIONS)

predictions: ## compare what-ifs with real runs of the same network under other algorithms; PAIRS= names their folder
	@deploy/setup.sh run
	@$(PYTHON) -m bench.predictions $(or $(PAIRS),build/pairs) $(OPTIONS)

prediction-errors: ## fit the widths of what-ifs' intervals to the real runs in PAIRS=, those of tuned networks only
	@deploy/setup.sh run
	@$(PYTHON) -m bench.prediction_errors $(or $(PAIRS),build/pairs) $(OPTIONS)

pairs: ## run the networks of what-ifs under several algorithms on real kernels, as root, for `make predictions`; OPTIONS="--runs 5"
	@deploy/setup.sh lab
	@.venv/bin/rewindow-lab pairs $(OPTIONS)

calibration: ## judge posteriors of fitted paths on simulated captures of networks that are drawn; OPTIONS="--draws 100"
	@deploy/setup.sh build
	@$(PYTHON) -m bench.calibration $(OPTIONS)

distributions: ## compare many simulated runs of a network with as many of the kernel's; RUNS= names their folder
	@deploy/setup.sh build
	@$(PYTHON) -m bench.distributions $(or $(RUNS),build/repeated) $(OPTIONS)

kernel-queues: ## compare the emulator's drop-tail links with the kernel's token buckets, as root; OPTIONS="--runs 10"
	@deploy/setup.sh lab
	@$(PYTHON) -m bench.kernel_queues $(OPTIONS)

corpus: ## compare rewindow's findings in captures with tshark's; CAPTURES= names their folder, OPTIONS="--write FILE"
	@deploy/setup.sh corpus
	@deploy/corpus.sh $(CAPTURES) $(OPTIONS)

bench: ## measure speed and memory, also of other programs; OPTIONS="--write --churn-bytes 1g"
	@deploy/setup.sh bench
	@$(PYTHON) -m bench.speed $(OPTIONS)

bench-simulator: ## measure the simulator's speed beside ns-3's; needs libns3-dev (Debian); OPTIONS="--write --runs 3"
	@deploy/setup.sh build
	@$(PYTHON) -m bench.simulator $(OPTIONS)

bench-storing: ## measure time and memory to store a capture in the service, and those of the command line; OPTIONS="--runs 1"
	@deploy/setup.sh bench
	@$(PYTHON) -m bench.storing $(OPTIONS)

bench-neighbours: ## what other teams notice while a team deletes its largest capture; OPTIONS="--connections 300000"
	@deploy/setup.sh bench
	@$(PYTHON) -m bench.neighbours $(OPTIONS)

bench-whatifs: ## measure the CPU time of what-ifs of the recorded sample and of a fast capture
	@deploy/setup.sh build
	@$(PYTHON) -m bench.whatifs

bench-dashboards: ## measure the queries of the team dashboards over a million connections; OPTIONS="--captures 5000"
	@deploy/setup.sh bench
	@$(PYTHON) -m bench.dashboards $(OPTIONS)

bench-charts: ## measure the chart of a connection with ten million ACKs, API and frames; OPTIONS="--acks 1000000"
	@deploy/setup.sh test
	@$(PYTHON) -m bench.charts $(OPTIONS)

bench-kernel: ## what controllers cost in this machine's kernel, beside its reno and cubic, as root; OPTIONS="--seconds 10"
	@deploy/setup.sh kernel
	@$(PYTHON) -m bench.kernel $(OPTIONS)

bench-load: ## measure how fast the API answers with and without 200 open event streams; OPTIONS="--rounds 1"
	@deploy/setup.sh bench
	@$(PYTHON) -m bench.load $(OPTIONS)

chaos: ## break the service during uploads, and check that it kept its promises; MINUTES= or ROUNDS=, OPTIONS=--write
	@deploy/setup.sh run
	@$(PYTHON) -m bench.chaos $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(OPTIONS)

soak: ## the long forms of tests: drawn requests (EXAMPLES= for each operation), load with event streams, chaos (MINUTES=)
	@deploy/setup.sh test
	@EXAMPLES=$(or $(EXAMPLES),1000) $(PYTHON) -m pytest tests/service/test_any_request.py
	@$(PYTHON) -m bench.load $(OPTIONS)
	@$(PYTHON) -m bench.chaos --minutes $(or $(MINUTES),20)

profile: ## measure with perf which functions take the core's time; OPTIONS=--write
	@deploy/setup.sh bench
	@$(PYTHON) -m bench.profile $(OPTIONS)

docs: ## write the pages that are generated from code (docs/algorithms.md, docs/fluid.md)
	@deploy/setup.sh fluid
	.venv/bin/rewindow algorithms --markdown >docs/algorithms.md
	.venv/bin/python -m bench.fluid --write

screenshot: ## draw the dashboard's pictures in docs/; starts the demo
	@deploy/setup.sh test
	@deploy/unit.sh tests/acceptance/test_dashboard.py -q -k upload_to_windows
	@cp build/screenshots/connection.png docs/dashboard.png
	@$(PYTHON) -m deploy.demo --pictures docs

types: ## write the dashboard's types (dashboard/src/openapi.ts) from the API's OpenAPI document
	@deploy/setup.sh check
	@mkdir -p build && $(PYTHON) -m api.openapi >build/openapi.json
	@cd dashboard && PATH="$(CURDIR)/.venv/bin:$$PATH" npm run --silent types

specs: ## model-check the specifications, and their mutants; SPECS= picks some, OPTIONS="--junit FILE"
	@deploy/setup.sh specs
	@$(PYTHON) rewindow/specs.py check $(OPTIONS) $(SPECS)

faults: ## seed faults in the controllers, and print who finds them; OPTIONS=--write puts the table into docs/conformance.md
	@deploy/setup.sh specs
	@$(PYTHON) -m bench.faults $(OPTIONS)

conformance: ## measure the cost of the monitor, and the time that TLC needs to follow a long log
	@deploy/setup.sh specs
	@$(PYTHON) -m bench.conformance $(OPTIONS)

specs-full: ## the same with more subflows and without symmetry; takes minutes
	@deploy/setup.sh specs
	@$(PYTHON) rewindow/specs.py check --suite full $(OPTIONS) $(SPECS)

specs-mutants: build ## change every action of the specifications by rule, and print the property that notices; SPECS=, OPTIONS=--write; takes minutes
	@deploy/setup.sh specs
	@.venv/bin/rewindow specs mutants $(OPTIONS) $(SPECS)

pictures: ## draw the state machines of specs/ from TLC's dumps (X.dot, X.svg); SPECS= picks some
	@deploy/setup.sh pictures
	@.venv/bin/rewindow specs draw $(SPECS)

clean: ## remove build results; data in .local stays
	@rm -rf build dashboard/dist dashboard/node_modules tests/openid/node_modules .venv
