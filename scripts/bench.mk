# Benches: included by ../Makefile. Each needs an idle machine.

BENCH := cargo bench --locked --package dehydrator-benches --bench

.PHONY: bench bench-commands bench-core bench-field bench-integrations bench-tracing bench-wide

bench: build bench-core bench-commands ## Run all benches: the core, the module, delivery latency, costs, and the capacity of a node; see docs/benchmarks.md
	$(BENCH) module
	$(BENCH) lateness
	$(BENCH) wakeup
	@scripts/setup.sh examples
	scripts/examples.sh
	$(BENCH) machines
	$(BENCH) scaling
	scripts/servers.sh $(SERVERS_DIR)
	DEHYDRATOR_SERVER=$(SERVERS_DIR)/redis-8 $(BENCH) module -- hash-fields

bench-commands: build ## Count the instructions of each command, compared with Redis's own; writes docs/benchmarks.md
	@scripts/setup.sh asan
	$(BENCH) instructions

bench-core: ## Compare the core with other stores of timers; writes docs/benchmarks.md and docs/charts/
	$(BENCH) core

bench-field: build ## Compare with beanstalkd, BullMQ, pgmq, Graphile Worker, NATS, RabbitMQ and a sorted set, in half an hour on an idle machine; writes docs/benchmarks.md (OPTIONS='--help')
	@scripts/setup.sh examples field
	scripts/bench-field.sh $(SERVERS_DIR) $(OPTIONS)

bench-integrations: build ## Compare our brokers with the frameworks' own on Redis, in an hour or more on an idle machine; writes docs/benchmarks-frameworks.md (OPTIONS='--help')
	@scripts/setup.sh examples languages laravel symfony
	scripts/integrations-sidekiq.sh $(SERVERS_DIR) --bench
	scripts/bench-integrations.sh $(SERVERS_DIR) $(OPTIONS)

bench-tracing: build ## Measure what OpenTelemetry costs a worker in Python and Node, in some minutes on an idle machine (OPTIONS='--runs 3')
	@scripts/setup.sh examples
	scripts/bench-tracing.sh $(SERVERS_DIR) $(OPTIONS)

bench-wide: build ## Measure queues of several keys in Python and Node over three primaries, in some minutes (OPTIONS='--runs 1')
	@scripts/setup.sh examples
	scripts/bench-wide.sh $(SERVERS_DIR) $(OPTIONS)
