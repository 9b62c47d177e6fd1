# Everything a developer runs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STORES := redis7 redis8 valkey-cluster redis7-cluster redis8-cluster valkey-sentinel redis7-sentinel redis8-sentinel
DISTRIBUTIONS := client service spark_connector
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# what the connector is run on besides the PySpark of requirements-dev.lock; Maven has what Spark needs for Kafka up to the last of them
PYSPARKS := 4.0.5 4.1.4 4.2.0

# what was compiled is kept: hundreds of processes of the tests would compile it again
unexport PYTHONDONTWRITEBYTECODE

# what the hot path of the client is compiled of, and where it lies then
CORE := client/src/acker_client/_core
COMPILED := $(CORE)/compiled

.DEFAULT_GOAL := help
.PHONY: help setup dev demo serve test test-model model model-long trust fuzz timing sbom audit test-pages faults test-rounds test-stores test-all test-bench test-integrations test-contract \
        test-clients check-clients chaos-clients test-kafka chaos-kafka test-nats test-sqs test-collector test-queues test-airflow test-browser test-docs test-runbook test-httpx test-compiled airflow coverage mutations contract-fuzz test-generated java spark spark-drivers spark-versions spark-kafka examples check-deploy kubernetes test-kubernetes image-test image-test-spark faults-cluster faults-long soak bench bench-long \
        bench-page docs docs-serve images check format lock dist wheels test-dist clean
TYPESCRIPT := client/typescript
# Maven, which says what it is needed for where it is not installed
MVN := $(or $(shell command -v mvn),sh -c 'echo "the client for Java needs Maven and a JDK 17 or later (on Debian: apt-get install maven openjdk-17-jdk-headless)"; exit 1') --batch-mode --quiet
# Go is the one that is installed, and fetches what the tests of its client need by their go.sum
GO := GOTOOLCHAIN=local go
# folders of tests/ with a target of their own
APART := clients conformance/test_scenarios.py conformance/test_together.py conformance/test_chaos.py faults spark deploy image cluster pipelines generated dist bench contract integrations collector nats sqs kafka queues browser runbook airflow model site kubernetes rounds
# tests that run the blocks of the pages and the examples, and those that start pytest
PAGES := tests/docs/test_pasting.py tests/docs/test_offsets.py tests/docs/test_more_ackers.py tests/test_readme.py tests/test_examples.py
PLUGIN := tests/unit/client/test_pytest_plugin.py
# three workers, since tests wait as long as they work; each file whole to one, since its tests share what its fixtures start;
# files in their order, so that those of the unit tests, of which none is long, are the last
PYTEST := $(BIN)/python -m pytest -p tests.support.interpreted --numprocesses 3 --dist loadfile --no-loadscope-reorder

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.compiled ## Make .venv with `acker` and the embedded store in it; find Java for Spark, or say what to install
	@$(MAKE) -s --no-print-directory java 2>/dev/null || true

dev: $(VENV)/.dev $(VENV)/.compiled ## As setup, with RabbitMQ's and Spark's Python for the examples, and all that developers use

demo: $(VENV)/.runtime ## Count the words of a book through the acker, with workers that fail and die (half a minute)
	@$(BIN)/python -m examples.word_count

serve: $(VENV)/.runtime ## Start the acker on http://127.0.0.1:8700 with its embedded store
	$(BIN)/acker serve

test: $(VENV)/.dev ## Run the quick tests: all that need no second system (under four minutes); LESS=tests/unit leaves some out
	$(PYTEST) $(addprefix --ignore ,$(addprefix tests/,$(APART) test_coverage.py) $(PAGES) $(PLUGIN) $(LESS))

test-model: $(VENV)/.dev ## Hold the state machine in Lua to the one in Python, and the store to its model (a minute)
	$(PYTEST) tests/model

model: $(VENV)/.dev ## Try every interleaving of small trees with up to three faults, over the state machine itself, and keep the sizes for docs/trust.md (minutes)
	$(BIN)/python -m tests.interleavings

model-long: $(VENV)/.dev ## Likewise with one fault more (an hour, and up to 16 GiB of memory)
	$(BIN)/python -m tests.interleavings --long

trust: $(VENV)/.dev ## Write docs/trust.md of the results of the last long runs, which are kept in docs/trust/runs
	$(BIN)/python -m docs.trust

test-pages: $(VENV)/.dev ## Run every block of the documentation, the examples and the pytest plugin (minutes)
	$(PYTEST) $(PAGES) $(PLUGIN)

test-clients: $(VENV)/.dev $(if $(shell command -v npm),$(TYPESCRIPT)/node_modules/.package-lock.json) ## Play the scenarios of tests/conformance with the client of each language, through a proxy that loses answers (minutes); CLIENT=python for one
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup tests/conformance $(if $(CLIENT),,tests/clients) --client $(or $(CLIENT),all)
	$(if $(filter-out go,$(CLIENT)),,cd client/go && $(GO) test ./... && cd integration && $(GO) test ./...)
	$(if $(filter-out java,$(CLIENT)),,cd client/java && $(MVN) test)

chaos-clients: $(VENV)/.dev ## Kill bolts in four languages at random, lose answers, deliver twice (half an hour), on from where it was stopped; SEED=1, TREES=10000
	$(BIN)/python -m tests.conformance.chaos $(addprefix --trees ,$(TREES)) $(addprefix --seed ,$(SEED))

check-clients: $(TYPESCRIPT)/node_modules/.package-lock.json ## Lint, format and type check the clients of other languages
	cd $(TYPESCRIPT) && npm run --silent check
	cd client/go && unformatted=$$(gofmt -l .) && test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	cd client/go/integration && $(GO) build -o ../build/staticcheck honnef.co/go/tools/cmd/staticcheck
	cd client/go && $(GO) vet ./... && build/staticcheck ./...
	cd client/go/integration && $(GO) vet ./... && ../build/staticcheck ./...
	cd examples/three_languages/stock && unformatted=$$(gofmt -l .) && test -z "$$unformatted" && $(GO) vet ./...
	cd client/java && $(MVN) fmt:check test-compile javadoc:javadoc

test-contract: $(VENV)/.dev ## Hold an acker to its OpenAPI document: examples, all forms of each field, random requests (a minute)
	$(BIN)/python -m pytest tests/contract

faults: $(VENV)/.dev ## Kill, freeze, fill up and cut off what it runs on, flood it, and see that nothing is lost
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/faults

test-rounds: $(VENV)/.dev ## Play short rounds of faults-long, find known mistakes by them, and serve one store with this commit and the one before (2 minutes)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/rounds

test-stores: $(VENV)/.dev ## Run the integration tests on every other kind of store: Redis 7.0 and 8.0, clusters, sentinels
	for kind in $(STORES); do $(BIN)/python -m pytest -q tests/integration --store $$kind || exit 1; done

test-queues: $(VENV)/.dev ## Run Celery and Dramatiq on RabbitMQ and Redis, and spouts on streams of Redis, with workers that die (under 30 minutes)
	$(BIN)/python -m pytest tests/queues --timeout 600

test-bench: $(VENV)/.dev ## Run every group of the bench with next to nothing of it (minutes)
	$(BIN)/python -m pytest tests/bench

test-integrations: $(VENV)/.dev ## Run processes, batches and web applications against a real acker (minutes)
	$(BIN)/python -m pytest tests/integrations

test-collector: $(VENV)/.dev ## Let a real OpenTelemetry Collector sample trees at the tail (minutes; needs Go, which fetches and builds it)
	$(BIN)/python -m pytest tests/collector

test-sqs: java $(VENV)/.dev ## Read queues of a real ElasticMQ, which speaks SQS, as a spout (minutes; needs Maven)
	$(BIN)/python -m pytest tests/sqs

test-nats: $(VENV)/.dev ## Read streams of a real NATS as a spout, and let subscribers of FastStream work on it (minutes; needs Go, which fetches and builds it)
	$(BIN)/python -m pytest tests/nats

test-kafka: java $(VENV)/.dev ## Read topics of a real Kafka as a spout while members and the broker are killed (minutes; needs Maven)
	$(BIN)/python -m pytest tests/kafka

chaos-kafka: java $(VENV)/.dev ## Kill members and the broker of a Kafka in random order (an hour), on from where it was stopped; SEEDS=1, RECORDS=600
	$(BIN)/python -m tests.kafka.chaos $(addprefix --seeds ,$(SEEDS)) $(addprefix --records ,$(RECORDS))

test-airflow: $(VENV)/.dev airflow ## Start a DAG of a real Airflow when a batch has landed, and kill a producer (under 10 minutes)
	$(BIN)/python -m pytest tests/airflow

test-browser: $(VENV)/.dev ## Try the page /ui/ in a real Chromium, against a real acker and Valkey (minutes)
	$(BIN)/python -m pytest tests/browser

test-docs: $(VENV)/.dev ## Build the site of the documentation, and try it in a real Chromium: links, search, a phone, axe (a minute)
	$(BIN)/python -m pytest tests/site

test-httpx: $(VENV)/.dev ## Run the unit tests of the client as where httpx2 is not installed, on httpx (a minute)
	$(BIN)/python -m pytest tests/unit/client -n 2 --dist loadfile -p tests.support.interpreted -p tests.support.without_httpx2

test-compiled: $(VENV)/.dev ## Run the unit tests of the client on its compiled hot path (a minute; needs a C compiler and Python.h)
	$(BIN)/python client/compile.py --required
	$(BIN)/python -m pytest tests/unit/client -n 2 --dist loadfile -p tests.support.compiled

test-runbook: $(VENV)/.dev ## Stage the troubles of docs/runbook.md, and see that doctor names each and its entry is right (minutes)
	$(BIN)/python -m pytest tests/runbook

coverage: $(VENV)/.dev ## Run the unit tests, and check that each pure module is covered wholly by its own (two minutes)
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -x tests/unit -n 2 --dist worksteal -p no:cov -p tests.support.coverage_contexts -p tests.support.interpreted
	$(BIN)/coverage combine --quiet
	$(BIN)/python -m pytest tests/test_coverage.py

test-all: ## Run all that has to pass before a change lands, as .ci/run does: tests/support/lanes.py has the list
	@$(PYTHON) tests/support/lanes.py

mutations: $(VENV)/.dev ## Break every rule of the state machine and the store on purpose; a test must notice each (most of an hour; goes on where it was stopped)
	$(BIN)/python -m pytest -m mutations tests/model -p tests.support.resumable --numprocesses 2
	$(BIN)/python -m tests.model.mutation_results

fuzz: $(VENV)/.dev $(VENV)/.compiled $(VENV)/fuzz/.complete ## Fuzz everything that reads bytes from outside, on from where it was stopped: decoders, the compiled hot path, arguments in Redis, sockets (a quarter of an hour); SECONDS=60 for each target, ONLY=json for one
	$(BIN)/python -m tests.fuzz $(addprefix --seconds ,$(SECONDS)) $(addprefix --only ,$(ONLY))

timing: $(VENV)/.dev ## Measure whether comparisons with keys and signatures take the same time wherever they differ (a minute)
	$(BIN)/python -m docs.trust.timing

sbom: $(VENV)/.dev $(VENV)/dependencies/.complete ## Write dist/acker.cdx.json, which names all packages that Acker needs (CycloneDX)
	$(BIN)/python -m docs.trust.dependencies sbom

audit: $(VENV)/.dev $(VENV)/dependencies/.complete ## Besides, ask pip-audit about their known vulnerabilities
	$(BIN)/python -m docs.trust.dependencies audit

contract-fuzz: $(VENV)/.dev ## Hold an acker to its /openapi.json with many requests, others each time (minutes)
	$(BIN)/python -m pytest -m fuzz

test-generated: $(VENV)/.dev ## Generate clients in Python, Go and TypeScript from /openapi.json and call an acker with each (minutes)
	$(BIN)/python -m pytest tests/generated

java: ## Find Java 17 or later, which Spark runs on; on Debian, as root, install it where there is none
	@major() { "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p'; }; \
	fits() { [ "$$(major)" -ge 17 ] 2>/dev/null; }; \
	install() { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -yqq --no-install-recommends default-jre-headless; }; \
	fits || { install >/dev/null 2>&1 && fits; } || \
		{ echo "Spark needs Java 17 or later: install one, or set JAVA_HOME; on Debian: apt-get install default-jre-headless"; exit 1; }

airflow: $(VENV)/airflow/.complete ## Install Airflow, for its example, in an environment of its own

spark: java $(VENV)/.dev ## Run the tests of the PySpark connector (they need Java 17)
	$(BIN)/python -m pytest tests/spark $(addprefix --ignore tests/spark/,drivers kafka)

spark-drivers: java $(VENV)/.dev ## Run those of its tests that start whole Spark clusters and drivers (minutes)
	$(BIN)/python -m pytest tests/spark/drivers

spark-versions: java $(PYSPARKS:%=$(VENV)/spark-%/.complete) ## Run the connector's quick tests on PySpark 4.0, 4.1 and 4.2, each in an environment of its own (half an hour); PYSPARKS=4.1.4 for one
	for version in $(PYSPARKS); do \
		$(VENV)/spark-$$version/bin/python -m pytest tests/spark $(addprefix --ignore tests/spark/,drivers kafka) || exit 1; done

spark-kafka: java $(VENV)/spark-$(lastword $(PYSPARKS))/.complete ## Run jobs of Spark between topics of a real Kafka: headers, aborted transactions, a killed driver (minutes; needs Maven)
	$(VENV)/spark-$(lastword $(PYSPARKS))/bin/python -m pytest tests/spark/kafka

examples: java $(VENV)/.dev ## Run the example pipelines, with RabbitMQ and Spark, and kill them in the middle
	$(BIN)/python -m pytest tests/pipelines

check-deploy: $(VENV)/.dev ## Lint and render the chart and the manifests of deploy/, and check them against the service
	$(BIN)/python -m pytest tests/deploy

kubernetes: $(VENV)/.dev ## Run a Kubernetes of two nodes on this machine until Ctrl-C (as root; Go builds it first, half an hour)
	$(BIN)/python -m tests.kubernetes

test-kubernetes: $(VENV)/.dev ## Install, roll out, scale and break the chart in that Kubernetes, under load (half an hour, once Kubernetes is built)
	$(BIN)/python -m pytest tests/kubernetes

image-test: $(VENV)/.dev ## Build the image and run it as the chart would (as root, on Debian)
	$(BIN)/python -m pytest tests/image --ignore tests/image/spark

image-test-spark: $(VENV)/.dev ## Build the image of the Spark example on a stand-in and count words in it (as root, on Debian)
	$(BIN)/python -m pytest tests/image/spark

faults-cluster: $(VENV)/.dev ## Cut, freeze and kill a cluster of several hosts (as root, half an hour); ONLY=split SETTING=replica:1 for one
	$(BIN)/python -m tests.cluster $(addprefix --only ,$(ONLY)) $(addprefix --setting ,$(SETTING))

faults-long: $(VENV)/.dev ## Hours of faults under the load of many clients, each of whose answers is audited; FAULTS=1000, OPERATIONS=5000000, SEED=1, RESUME=1 goes on, SCHEDULE=1 prints it
	$(BIN)/python -u -m tests.faults_long $(addprefix --faults ,$(FAULTS)) $(addprefix --operations ,$(OPERATIONS)) $(addprefix --seed ,$(SEED)) $(if $(RESUME),--resume) $(if $(SCHEDULE),--schedule)

soak: $(VENV)/.dev ## Load an acker for an hour with half of what it can do: nothing grows, and no key is left in the end; MINUTES=5 for a first look
	$(BIN)/python -u -m tests.faults_long.soak $(addprefix --minutes ,$(MINUTES))

bench: $(VENV)/.dev $(VENV)/.compiled ## Measure what the acker costs (about three quarters of an hour); ONLY=memory for one group, ROUNDS=1 for a first look
	$(BIN)/python -m bench $(addprefix --only ,$(ONLY)) $(addprefix --rounds ,$(ROUNDS))

bench-long: $(VENV)/.dev $(VENV)/.compiled ## Measure for hours, on from where it was stopped: GROUP=store, queues, dramatiq, celery, bullmq or storm; CASE="…" for some
	$(BIN)/python -m bench.long --group $(GROUP) --only "$(CASE)" $(addprefix --rounds ,$(ROUNDS))

bench-page: $(VENV)/.dev ## Write the figures of the last bench and bench-long into the pages, and draw the plots; nothing where the machine's speed changed
	$(BIN)/python -m bench.page

docs: $(VENV)/.dev ## Build the site of the documentation into .site/html
	$(BIN)/python -m docs.site

docs-serve: $(VENV)/.dev ## Build the site of the documentation, and show it on http://127.0.0.1:8800; PORT=8801 for another port
	$(BIN)/python -m docs.site --serve $(addprefix --port ,$(PORT))

images: $(VENV)/.dev ## Draw the documentation's pictures again, and record the demo (a minute)
	$(BIN)/python -m docs.images demo

check: $(VENV)/.dev ## Lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Format the code, and copy the runbook into the page
	cp docs/runbook.md service/src/acker_service/web/runbook.md
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(VENV)/.dev ## Choose dependency versions again and write the hashed requirements
	$(BIN)/uv lock --upgrade --quiet
	$(BIN)/uv export --frozen --no-emit-workspace --no-annotate --no-header --quiet --no-default-groups --group build -o requirements.lock
	$(BIN)/uv export --frozen --no-emit-workspace --no-annotate --no-header --quiet --no-default-groups --group build --group dev \
		-o requirements-dev.lock
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet \
		tests/generated/python/requirements.in -o tests/generated/python/requirements.lock
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet \
		examples/airflow/requirements.in -o examples/airflow/requirements.lock
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet \
		client/wheels.in -o client/wheels.lock
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet \
		tests/fuzz/requirements.in -o tests/fuzz/requirements.lock
	$(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet \
		docs/trust/dependencies.in -o docs/trust/dependencies.lock
	for version in $(PYSPARKS); do \
		echo "pyspark==$$version" | $(BIN)/uv pip compile --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
			--quiet - -o tests/spark/versions/$$version.lock || exit 1; done

dist: $(VENV)/.runtime $(if $(shell command -v npm),$(TYPESCRIPT)/node_modules/.package-lock.json) ## Build a wheel and a source distribution of each distribution, the package for npm, the module for Go and the jars for Java, into dist/, the same bytes each time
	@rm -rf dist && mkdir dist
	@for folder in $(DISTRIBUTIONS); do for kind in sdist wheel; do \
		(cd $$folder && ../$(BIN)/uv-build build-$$kind ../dist) || exit 1; done; done
	@if command -v npm >/dev/null; then cd $(TYPESCRIPT) && rm -rf dist && umask 022 && chmod 644 LICENSE README.md package.json && \
		npm run --silent build && npm pack --silent --pack-destination ../../dist >/dev/null; \
		else echo "left out, the package for npm: npm is not installed (on Debian: apt-get install npm)"; fi
	@if command -v go >/dev/null; then cd client/go/integration && version=v$$(sed -n 's/^version = "\(.*\)"/\1/p' ../../pyproject.toml) && \
		$(GO) run ./modzip $$version .. ../../../dist/acker-go-$$version.zip; \
		else echo "left out, the module for Go: Go is not installed"; fi
	@if command -v mvn >/dev/null; then cd client/java && rm -rf target && umask 022 && $(MVN) package -DskipTests && cp target/acker-client-*.jar ../../dist; \
		else echo "left out, the jars for Java: Maven is not installed (on Debian: apt-get install maven)"; fi

wheels: dist ## Besides, make wheels of the client with its compiled hot path into dist/, for six platforms and this release of Python (minutes)
	@$(PIP) --no-deps --require-hashes --requirement client/wheels.lock
	@$(BIN)/python client/wheels.py dist/acker_client-*-py3-none-any.whl dist

test-dist: $(VENV)/.dev ## Build all distributions twice, and try the wheels in empty environments (minutes; every Python from 3.11 on that is on the PATH or in pyenv)
	$(BIN)/python -m pytest tests/dist

clean: ## Remove .venv and the caches of the tools
	rm -rf $(VENV) dist .site $(COMPILED) $(addprefix $(TYPESCRIPT)/,node_modules dist build) client/go/build client/java/target .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .ci/logs

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Acker needs Python 3.11 or later; say which with: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
	@echo "Making a virtual environment in $(VENV): some seconds"
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "This Python cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }

# Editable, built by the uv_build of the lock (it looks for its program on the PATH), so nothing unhashed is fetched.
$(VENV)/.runtime: requirements.lock client/pyproject.toml service/pyproject.toml | $(BIN)/python
	@echo "Installing the acker and its packages into $(VENV): about a minute, once"
	@$(PIP) --no-deps --require-hashes --requirement requirements.lock
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-deps --no-build-isolation --editable client --editable service
	@touch $@

# Where there are no compiler or no headers of Python, the client runs interpreted; so does one whose sources have changed since.
$(VENV)/.compiled: client/compile.py $(CORE)/hot_path.py $(wildcard $(CORE)/*.pxd) $(CORE)/hot_path_form.py $(VENV)/.runtime
	@rm -rf $(COMPILED)
	@$(BIN)/python client/compile.py
	@touch $@

$(VENV)/.dev: requirements-dev.lock spark_connector/pyproject.toml $(VENV)/.runtime
	@echo "Installing PySpark, RabbitMQ's client and the tools of developers into $(VENV): some minutes, once"
	@$(PIP) --no-deps --require-hashes --requirement requirements-dev.lock
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-deps --no-build-isolation --editable spark_connector
	@touch $@

$(TYPESCRIPT)/node_modules/.package-lock.json: $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

# Another PySpark, before all else that .venv has.
$(VENV)/spark-%/.complete: tests/spark/versions/%.lock | $(VENV)/.dev
	@echo "Installing PySpark $* into $(VENV)/spark-$*: some minutes, once"
	@$(BIN)/python -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@site() { "$$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
		echo "import site; site.addsitedir('$$(site $(VENV))')" >"$$(site $(@D))/after.pth"
	@touch $@

# The fuzzer, with what .venv has behind it.
$(VENV)/fuzz/.complete: tests/fuzz/requirements.lock | $(VENV)/.dev
	@echo "Installing the fuzzer into $(VENV)/fuzz: some seconds, once"
	@$(BIN)/python -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@site() { "$$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
		echo "import site; site.addsitedir('$$(site $(VENV))')" >"$$(site $(@D))/after.pth"
	@touch $@

$(VENV)/dependencies/.complete: docs/trust/dependencies.lock | $(BIN)/python
	@echo "Installing CycloneDX and pip-audit into $(VENV)/dependencies: some seconds, once"
	@$(BIN)/python -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@

$(VENV)/airflow/.complete: examples/airflow/requirements.lock | $(BIN)/python
	@echo "Installing Airflow into $(VENV)/airflow: some minutes, once"
	@$(BIN)/python -m venv --clear $(VENV)/airflow
	@$(VENV)/airflow/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@
