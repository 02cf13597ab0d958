# Everything a newcomer or CI runs. Each target does the set-up that it needs; `make help` lists them.

PYTHON ?= python3
UV_VERSION := 0.13.8
BIN := .venv/bin
UV := $(BIN)/uv
STAMP := .make
MEMBERS := $(wildcard libs/*) services
EDITABLE := $(foreach member,$(MEMBERS),-e $(member))
GO_BUILD := go build -mod=readonly -trimpath
export UV_PYTHON_DOWNLOADS := never
# Hundreds of processes are started by a run of the tests. Without bytecode on disk each of them compiles Steepest again, and
# one that imports PyTorch compiles that for ten seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup dev demo test test-all test-fresh test-frameworks test-prometheus lint format bench reproduce fidelity fuzz docs docs-generate dashboards grafana-schema kafka kafka-start kafka-stop mosquitto criu collector chromium page-libraries test-page prometheus storage links engine kubernetes kubernetes-programs kubernetes-stop test-kubernetes bench-kubernetes images chaos faults lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)/runtime ## Make .venv with everything that runs, byte-compiled

$(STAMP)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Steepest needs Python 3.11 or newer; name one with: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/runtime: $(STAMP)/venv requirements/runtime.txt $(addsuffix /pyproject.toml,$(MEMBERS))
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes --compile-bytecode -r requirements/runtime.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps $(EDITABLE)
	@touch $@

$(STAMP)/dev: $(STAMP)/runtime requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes --compile-bytecode -r requirements/dev.txt
	@touch $@

dev: $(STAMP)/dev ## Add what the tests, the linter and the reports of `reproduce` need

# Pairs of runs are compared by intervals, for which SciPy has the quantiles.
demo: $(STAMP)/$(if $(findstring --compare,$(DEMO)),dev,runtime) ## Real training jobs on an emulated cluster, to the end, with a report
	$(BIN)/steepest demo $(DEMO)

test: $(STAMP)/dev ## All tests in short form, on all cores; TEST=--long: the long form
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=loadgroup --durations=20 $(TEST)

test-all: ## CI's run with all tests of every real component, chaos and the other targets; prints what it covered
	bash .ci/run --all

test-fresh: $(STAMP)/dev ## Examples of every property test that were never tried: EXAMPLES=50000 SECONDS=600 (of each test)
	$(BIN)/python -m pytest --numprocesses=logical --maxprocesses=8 --dist=load -p tests.harness.fresh \
	  --hypothesis-profile=fresh -m hypothesis --timeout=600 --examples=$(or $(EXAMPLES),50000) --seconds=$(or $(SECONDS),600) $(TEST)

# PyTorch and its kin take 6 GB, so they have an environment of their own, which nothing else needs.
$(STAMP)/frameworks: $(STAMP)/runtime requirements/dev.txt requirements/frameworks.txt
	$(UV) venv --quiet --clear --python $(BIN)/python .venv-frameworks
	$(UV) pip install --quiet --python .venv-frameworks/bin/python --no-deps --require-hashes \
	  -r requirements/runtime.txt -r requirements/dev.txt -r requirements/frameworks.txt
	$(UV) pip install --quiet --python .venv-frameworks/bin/python --no-deps $(EDITABLE)
	@touch $@

test-frameworks: $(STAMP)/frameworks ## The SDK's callbacks in real frameworks, in a venv of their own (6 GB)
	.venv-frameworks/bin/python -m pytest -n auto tests/frameworks $(TEST)

lint: $(STAMP)/dev ## Style, types, import contracts, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)/dev ## Mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Each takes at most a minute and a half; BENCH=--full measures what the documentation quotes, over some hours.
bench: $(STAMP)/dev ## What the README's figures come from, in ten minutes or so: BENCH=--full, ONLY="start view"
	@failed=; for name in $(or $(ONLY),$(basename $(notdir $(wildcard benchmarks/*.py)))); do \
	  echo "== $$name"; $(BIN)/python -m benchmarks.$$name $(BENCH) || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

reproduce: $(STAMP)/dev ## The published experiments of SpeCon and FlowCon again, with a report of each in out/reproduce
	@for paper in specon flowcon; do $(BIN)/steepest reproduce $$paper $(REPRODUCE) || exit 1; done

$(STAMP)/docs: $(STAMP)/runtime requirements/docs.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes --compile-bytecode -r requirements/docs.txt
	@touch $@

docs: $(STAMP)/docs ## The documentation as a site in out/docs/site; a link that leads nowhere is an error
	@$(BIN)/python -m tools.docs.site

docs-generate: $(STAMP)/runtime ## Write the pages that are generated from the code
	@$(BIN)/python -m tools.docs.generate
	@$(BIN)/steepest schema --page > docs/events.md
	@$(BIN)/steepest schema > docs/asyncapi.json

dashboards: $(STAMP)/dev ## Write Grafana's dashboards, which are generated from the code
	@$(BIN)/python -m tools.monitoring.dashboards

grafana-schema: .grafana/node_modules ## Get Grafana's own types of a dashboard (by npm) for the tests

# Both packages have no dependencies, so exact versions are a lock; a lock file of npm's would name a registry.
.grafana/node_modules: tools/monitoring/package.json
	@test -n "$$(command -v npm)" || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends nodejs npm; }
	@mkdir -p .grafana && cp $< .grafana/
	npm install --prefix .grafana --no-package-lock --no-audit --no-fund --ignore-scripts
	@touch $@

fidelity: $(STAMP)/runtime ## Compare the demo with its simulation, over five runs (10 minutes)
	@$(BIN)/python -m tools.fidelity $(FIDELITY)

fuzz: $(STAMP)/dev ## A million mutated log lines; FUZZ="--lines 10000"
	$(BIN)/python -m tests.fuzz.run $(FUZZ)

kafka: .kafka/libs ## Get an Apache Kafka broker (Maven, Java 17 or newer) for the tests and `up --kafka auto`

.kafka/libs: tools/kafka/pom.xml
	mvn -q -B -f tools/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$@
	@touch $@

kafka-start: $(STAMP)/runtime .kafka/libs ## Start a Kafka broker on port 9092
	@$(BIN)/python tools/kafka/broker.py start

kafka-stop: ## Stop it
	@$(BIN)/python tools/kafka/broker.py stop

mosquitto: ## Get the Mosquitto broker (Debian, Ubuntu) for the tests of MQTT
	@test -n "$$(PATH=$$PATH:/usr/sbin command -v mosquitto)" || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends mosquitto; }

prometheus: ## Get Prometheus and promtool (Debian, Ubuntu) for the tests of rules and dashboards
	@test -n "$$(command -v prometheus)" -a -n "$$(command -v promtool)" || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends prometheus; }

test-prometheus: $(STAMP)/dev ## Rules, alerts and dashboards on a real Prometheus; the last line is one JSON object
	@$(BIN)/python -m tests.integration.prometheus.run

storage: ## Get the lighttpd storage server (Debian, Ubuntu) for jobs that stream their data
	@test -n "$$(PATH=$$PATH:/usr/sbin command -v lighttpd)" || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends lighttpd; }

# Over a link, the lab's second node mounts the volume by SFTP: no kernel module is needed for that but FUSE.
links: ## Get what joins emulated nodes, and the lab's, by links (Debian, Ubuntu); making them needs root
	@PATH=$$PATH:/usr/sbin; { command -v tc && command -v nsenter && command -v sshfs && command -v socat && command -v bindfs \
	    && test -x /usr/lib/openssh/sftp-server; } > /dev/null || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends \
	    iproute2 util-linux sshfs bindfs socat openssh-sftp-server; }

criu: .criu/criu ## Get CRIU with its own libraries (Debian, Ubuntu) for jobs that are moved unchanged; using it needs root

.criu/criu: tools/criu/install.sh
	sh $< .criu
	@touch $@

collector: .collector/collector ## Build the OpenTelemetry Collector (Go) for the test of the export of traces

.collector/collector: tools/collector/go.mod tools/collector/go.sum tools/collector/main.go
	cd tools/collector && $(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$@ .

chromium: ## Get Chromium with its driver (Debian, Ubuntu) and axe (npm) for the tests of the live page
	@{ command -v chromium && command -v chromedriver; } > /dev/null || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends chromium chromium-driver; }
	@test -e tools/page/node_modules/axe-core/axe.min.js \
	  || npm install --silent --no-package-lock --no-audit --no-fund --ignore-scripts --prefix tools/page

page-libraries: ## Copy the live page's libraries from npm into the package, at the versions of tools/page/package.json
	npm install --silent --no-package-lock --no-audit --no-fund --ignore-scripts --prefix tools/page
	@$(PYTHON) tools/page/vendor.py

test-page: $(STAMP)/dev ## The live page in a real Chromium (`make chromium`); the last line is one JSON object
	@$(BIN)/python -m pytest -q tests/integration/gateway/test_page.py $(TEST)
	@$(BIN)/python -m tests.integration.gateway.page_figures

engine: .docker/docker-compose ## Get Docker, debootstrap (Debian, Ubuntu) and Compose (Go); no image registry is ever asked
	@PATH=$$PATH:/usr/sbin; { command -v dockerd && command -v debootstrap; } > /dev/null || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends docker.io debootstrap; }

.docker/docker-compose: tools/compose/go.mod tools/compose/go.sum
	cd tools/compose && go build -mod=readonly -trimpath -ldflags "-s -w -X github.com/docker/compose/v2/internal.Version=2.40.3" \
	  -o $(CURDIR)/$@ github.com/docker/compose/v2/cmd

# Two Go modules beside the control plane's, because containerd and CoreDNS need other versions of what they share with it.
KUBERNETES := .kubernetes/bin
kubernetes_version = $(shell cd tools/kubernetes && go list -m -f '{{.Version}}' k8s.io/kubernetes)

$(KUBERNETES)/kubelet: tools/kubernetes/go.mod tools/kubernetes/go.sum
	cd tools/kubernetes && $(GO_BUILD) -o $(CURDIR)/$(KUBERNETES)/ -ldflags "-s -w \
	  -X k8s.io/component-base/version.gitVersion=$(kubernetes_version) -X k8s.io/component-base/version.gitMajor=1 \
	  -X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(kubernetes_version))) \
	  -X k8s.io/client-go/pkg/version.gitVersion=$(kubernetes_version)" \
	  k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager \
	  k8s.io/kubernetes/cmd/kube-proxy k8s.io/kubernetes/cmd/kube-scheduler \
	  k8s.io/kubernetes/cmd/kubectl k8s.io/kubernetes/cmd/kubelet
	cd tools/kubernetes && $(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$(KUBERNETES)/etcd go.etcd.io/etcd/server/v3
	@touch $@

$(KUBERNETES)/containerd: tools/kubernetes/containerd/go.mod tools/kubernetes/containerd/go.sum
	cd tools/kubernetes/containerd && $(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$(KUBERNETES)/ \
	  $(foreach name,containerd containerd-shim-runc-v2 ctr,github.com/containerd/containerd/v2/cmd/$(name))
	@touch $@

$(KUBERNETES)/coredns: tools/kubernetes/coredns/go.mod tools/kubernetes/coredns/go.sum tools/kubernetes/coredns/main.go
	cd tools/kubernetes/coredns && $(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$@ .

$(KUBERNETES)/pause: tools/kubernetes/pause/main.go
	cd tools/kubernetes/pause && CGO_ENABLED=0 $(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$@ main.go

$(KUBERNETES)/helm: tools/kubernetes/helm/go.mod tools/kubernetes/helm/go.sum
	cd tools/kubernetes/helm && $(GO_BUILD) -o $(CURDIR)/$@ -ldflags "-s -w \
	  -X helm.sh/helm/v3/internal/version.version=$(shell cd tools/kubernetes/helm && go list -m -f '{{.Version}}' helm.sh/helm/v3) \
	  -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
	  -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$(word 2,$(subst ., ,$(kubernetes_version)))" \
	  helm.sh/helm/v3/cmd/helm

.PHONY: helm
helm: $(KUBERNETES)/helm ## Build Helm with Go, for the chart and its tests

# The controllers of users' objects, each with the objects that it needs, for their tests. Go's proxy may not have one of their
# modules: the tests then skip with the reason. Any other failure is one.
# $(1): the module; $(2): the package of the program; $(3): the files of its kinds; $(4): that of its webhooks, if it has any, both
# in the module
define controller
@mkdir -p $(KUBERNETES)
@if (cd $(<D) && go mod download) > $@.unserved 2>&1; then \
  rm $@.unserved && cd $(<D) && $(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$@ $(2) \
    && cd $$(go list -m -f '{{.Dir}}' $(1)) \
    && for each in $(3); do echo ---; cat $$each; done > $(CURDIR)/$@-crd.yaml \
    $(if $(4),&& cat $(4) > $(CURDIR)/$@-webhooks.yaml); \
else tail -n 3 $@.unserved; fi
endef

$(KUBERNETES)/jobset: tools/kubernetes/jobset/go.mod tools/kubernetes/jobset/go.sum
	$(call controller,sigs.k8s.io/jobset,sigs.k8s.io/jobset,config/components/crd/bases/*.yaml,config/components/webhook/manifests.yaml)

TRAINER := github.com/kubeflow/trainer/v2
$(KUBERNETES)/trainer: tools/kubernetes/trainer/go.mod tools/kubernetes/trainer/go.sum
	$(call controller,$(TRAINER),$(TRAINER)/cmd/trainer-controller-manager,manifests/base/crds/trainer.*.yaml,manifests/base/webhook/manifests.yaml)

OPERATOR := github.com/kubeflow/training-operator
$(KUBERNETES)/training-operator: tools/kubernetes/training-operator/go.mod tools/kubernetes/training-operator/go.sum
	$(call controller,$(OPERATOR),$(OPERATOR)/cmd/training-operator.v1,manifests/base/crds/*_pytorchjobs.yaml,manifests/base/webhook/manifests.yaml)

KUEUE := sigs.k8s.io/kueue
$(KUBERNETES)/kueue: tools/kubernetes/kueue/go.mod tools/kubernetes/kueue/go.sum
	$(call controller,$(KUEUE),$(KUEUE)/cmd/kueue,config/components/crd/bases/*.yaml,config/components/webhook/manifests.yaml)

# A second scheduler that a program of ours makes of the plugin and of the control plane's own version.
$(KUBERNETES)/coscheduling: $(addprefix tools/kubernetes/coscheduling/,go.mod go.sum main.go)
	$(call controller,sigs.k8s.io/scheduler-plugins,.,manifests/coscheduling/crd.yaml)

.PHONY: jobset trainer training-operator kueue coscheduling
jobset: $(KUBERNETES)/jobset ## Build JobSet's controller with Go, for the tests of users' JobSets
trainer: $(KUBERNETES)/trainer $(KUBERNETES)/jobset ## Build Kubeflow's Trainer with Go, for the tests of users' TrainJobs
training-operator: $(KUBERNETES)/training-operator ## Build Kubeflow's training operator with Go, for the tests of users' PyTorchJobs
kueue: $(KUBERNETES)/kueue ## Build Kueue with Go (up to ten minutes, so not in CI), for the tests beside it and make bench-kubernetes
coscheduling: $(KUBERNETES)/coscheduling ## Build the coscheduling plugin's scheduler with Go, for make bench-kubernetes

kubernetes-programs: $(addprefix $(KUBERNETES)/,kubelet containerd coredns pause)
	@PATH=$$PATH:/usr/sbin; { test -x /usr/lib/cni/bridge && command -v runc && command -v iptables && command -v ip \
	    && command -v openssl; } > /dev/null || { \
	  sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	  $$sudo apt-get update -q && $$sudo apt-get install -q -y --no-install-recommends \
	    containernetworking-plugins runc iptables iproute2 openssl; }

kubernetes: $(STAMP)/runtime kubernetes-programs ## Build and start Kubernetes with two real nodes (Go, root; the first build takes minutes)
	@$(BIN)/python -m tools.kubernetes_lab start

.PHONY: kubernetes-link
kubernetes-link: $(STAMP)/runtime kubernetes-programs links ## The same, where a link of MBIT=100 joins the nodes: one reaches the volume over it
	@$(BIN)/python -m tools.kubernetes_lab link $(or $(MBIT),100)

.PHONY: kubernetes-services
kubernetes-services: $(STAMP)/runtime kubernetes-programs $(KUBERNETES)/helm .kafka/libs ## The same, with Helm and the images that the chart needs
	@$(BIN)/python -m tools.kubernetes_lab services

kubernetes-stop: ## Stop it, and remove what it left on this machine
	@$(BIN)/python -m tools.kubernetes_lab stop

CONTROLLERS := $(addprefix $(KUBERNETES)/,jobset trainer training-operator)
test-kubernetes: $(STAMP)/dev kubernetes-programs $(KUBERNETES)/helm $(if $(findstring end_to_end,$(TEST)),,$(CONTROLLERS)) .kafka/libs ## The Kubernetes adapter and the chart on two real nodes; the last line is one JSON object
	$(BIN)/python -m pytest tests/integration/kubernetes $(TEST)

# Kueue takes longer to build than all that CI builds besides.
.PHONY: test-kueue
test-kueue: $(STAMP)/dev kubernetes-programs $(KUBERNETES)/kueue ## Steepest beside the real Kueue, on two real nodes
	$(BIN)/python -m pytest tests/integration/kubernetes/kueue $(TEST)

# The second node is started twice, so that it is not run between others.
.PHONY: test-link
test-link: $(STAMP)/dev kubernetes-programs links ## Moves between two real nodes over a link of 100 Mbit/s
	$(BIN)/python -m pytest tests/integration/kubernetes/link $(TEST)

# It needs neither root nor containerd, and measures Kueue and coscheduling where they are built. docs/results.md has the figures.
bench-kubernetes: $(STAMP)/runtime $(KUBERNETES)/kubelet ## Placements compared with other schedulers' on bare nodes: NODES=1000 JOBS=10000 PAIRS=1 ONLY=kueue
	@$(BIN)/python -m benchmarks.kubernetes.run --nodes $(or $(NODES),1000) --jobs $(or $(JOBS),10000) --pairs $(or $(PAIRS),1) $(addprefix --only ,$(ONLY))

# It starts the lab, unless that runs.
.PHONY: bench-link
bench-link: $(STAMP)/dev kubernetes-programs links ## What moves over a link between the lab's nodes take, compared with the prediction: MBIT=100
	@$(BIN)/python -m benchmarks.kubernetes.link --mbit $(or $(MBIT),100)

images: $(STAMP)/runtime ## Make images for jobs from Debian packages (as root), and import them where an engine runs
	@$(BIN)/python -m steepest_lab.docker_engines.images

chaos: $(STAMP)/dev .kafka/libs ## Kill services and the broker under load, then prove that nothing was lost: SEED=1 KILLS=100
	@$(BIN)/python -m tests.chaos.run --seed $(or $(SEED),1) --kills $(or $(KILLS),100)

faults: $(STAMP)/dev ## Drawn schedules of faults in a virtual world, on all cores, until one breaks something: SEEDS=10000 FROM=0 LEAST=100
	@$(BIN)/python -m tests.faults.run --seeds $(or $(SEEDS),1000) --from $(or $(FROM),0) --least $(or $(LEAST),0)

# The demo reads the data sets that are files in scikit-learn, and never imports it: what it would import is left out.
DATA_ONLY := --no-emit-package scipy --no-emit-package joblib --no-emit-package threadpoolctl

lock: ## Resolve the dependencies again, with hashes, for every Python from 3.11 on
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --extra client --extra docker --extra gateway --extra kafka --extra kubernetes --extra mqtt --extra notify libs/steepest/pyproject.toml libs/steepest-lab/pyproject.toml \
	  --no-emit-package steepest --no-emit-package steepest-sdk --no-emit-package steepest-services $(DATA_ONLY) -o requirements/runtime.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --group dev -c requirements/runtime.txt -o requirements/dev.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links -c requirements/runtime.txt -c requirements/dev.txt \
	  requirements/frameworks.in -o requirements/frameworks.txt
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links -c requirements/runtime.txt -c requirements/dev.txt \
	  requirements/docs.in -o requirements/docs.txt
	echo 'uv==$(UV_VERSION)' | $(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links - -o requirements/uv.txt

clean: ## Remove what the targets made
	rm -rf .venv .venv-frameworks $(STAMP) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
