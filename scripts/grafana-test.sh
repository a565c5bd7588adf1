#!/usr/bin/env bash
# Start servers with the module, Debian's redis_exporter with grafana/dehydrator.lua, and Debian's Prometheus. Check
# that each query of the dashboard returns data, that each scaler would start the right number of workers, and that each
# alert fires when it should.
#
# The two programs are taken from PATH if they are there. Otherwise their packages are unpacked in target/grafana:
# installing them would start services.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(realpath "${DEHYDRATOR_MODULE:-target/release/libdehydrator.so}")
server=${DEHYDRATOR_SERVER:-redis-server}
cli=${DEHYDRATOR_CLI:-redis-cli}
unpacked=$PWD/target/grafana
mkdir -p "$unpacked"
PATH=$PATH:$unpacked/usr/bin

fetch() { (cd "$unpacked" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download "$1"); }
for package in prometheus-redis-exporter prometheus; do
    command -v "$package" >/dev/null && continue
    # On a fresh machine, apt has no lists yet.
    fetch "$package" 2>/dev/null || { apt-get -qq update && fetch "$package"; } || {
        echo "grafana-test.sh: please install $package" >&2
        exit 1
    }
    dpkg -x "$unpacked/$package"_*.deb "$unpacked"
    rm "$unpacked/$package"_*.deb
done

work=$(mktemp -d)
started=()
clean_up() {
    kill "${started[@]}" 2>/dev/null || :
    wait
    rm -rf "$work"
}
trap clean_up EXIT

# A free port, below the ephemeral ports.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}
exporter=$(free_port) prometheus=$(free_port)

# until_true <what> <command>...
until_true() {
    local what=$1
    shift
    for _ in {1..600}; do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "grafana-test.sh: waited in vain until $what" >&2
    tail -n 3 "$work"/*.log >&2
    exit 1
}
ask() { "$cli" -p "$port" "$@"; }
# serve <name>: starts a server, which `ask` uses until the next one starts.
serve() {
    port=$(free_port)
    "$server" --port "$port" --save '' --dir "$work" --loadmodule "$module" >"$work/$1.log" 2>&1 &
    started+=($!)
    until_true "the server is up" ask PING
}

serve server
ask DEHYDRATOR.PUSH jobs 0 element 1 >/dev/null
ask DEHYDRATOR.PUSH jobs 600000 element 2 >/dev/null
ask DEHYDRATOR.POLL jobs >/dev/null
ask DEHYDRATOR.PUSH overdue 0 element 1 >/dev/null
is_late() { ask DEHYDRATOR.LATE | grep -q overdue; }
until_true "a key is overdue" is_late

sed "s/^local queues = {}$/local queues = { 'jobs', 'work', 'paused', 'limited', 'text' }/" grafana/dehydrator.lua \
    >"$work/dehydrator.lua"
prometheus-redis-exporter -redis.addr "redis://127.0.0.1:$port" -web.listen-address "127.0.0.1:$exporter" \
    -script "$work/dehydrator.lua" >"$work/exporter.log" 2>&1 &
started+=($!)
exporter_pid=$!
metrics() { curl -sf "http://127.0.0.1:$exporter/metrics"; }
until_true "the exporter is up" metrics

# Every number of INFO arrives, with its value, unless that has changed meanwhile.
metrics >"$work/metrics"
fields=0
for field in $(ask INFO dehydrator | sed -n '/^dehydrator_git_sha1/d; s/^\(dehydrator_[a-z0-9_]*\):[0-9]*\r$/\1/p'); do
    fields=$((fields + 1))
    grep -q "^redis_script_values{.*key=\"$field\".*} [0-9]" "$work/metrics" || {
        echo "grafana-test.sh: the exporter does not tell $field" >&2
        exit 1
    }
done
[ "$fields" -gt 0 ] || { echo "grafana-test.sh: INFO dehydrator is empty" >&2; exit 1; }
looked_at=$port

. scripts/grafana-alerts.sh
start_cases

cat >"$work/prometheus.yml" <<YAML
global: {evaluation_interval: 2s}
rule_files: ["alerts.yml"]
scrape_configs:
  - job_name: redis
    scrape_interval: 2s
    scrape_timeout: 2s
    static_configs:
      - targets: ["127.0.0.1:$exporter"]
  - job_name: cases
    scrape_interval: 2s
    scrape_timeout: 2s
    metrics_path: /scrape
    file_sd_configs:
      - files: ["$work/cases.json"]
    relabel_configs:
      - {source_labels: [__address__], target_label: __param_target}
      - {replacement: "127.0.0.1:$exporter", target_label: __address__}
    metric_relabel_configs:
      - {source_labels: [key], regex: "(length|waiting|leased|oldest|groups):.*", action: drop}
YAML
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
    --web.listen-address="127.0.0.1:$prometheus" >"$work/prometheus.log" 2>&1 &
started+=($!)
api() { curl -sf "http://127.0.0.1:$prometheus/api/v1/$1" "${@:2}"; }
# answers <query>: succeeds if there is a number for it.
answers() { api query --data-urlencode "query=$1" | jq -e '.data.result | length > 0'; }
# A rate needs two samples.
until_true "Prometheus has looked twice" answers 'rate(redis_script_values[10s])'

# The variables of Grafana, replaced by this script.
# shellcheck disable=SC2016  # these are not variables of ours
jq -r '.. | .expr? // empty' grafana/dehydrator.json |
    sed 's/\$__rate_interval/10s/g; s/\$instance/.*/g; s/\$queue/jobs/g' >"$work/queries"
queries=0
while read -r query; do
    queries=$((queries + 1))
    # Retry, in case a slow machine replied late to Prometheus.
    until_true "there is an answer to $query" answers "$query"
done <"$work/queries"
# The lists of servers and of queues for selection.
# shellcheck disable=SC2016
variables=$(jq -r '.templating.list[] | select(.type == "query").query' grafana/dehydrator.json | sed 's/\$instance/.*/g')
while read -r variable; do
    selector=${variable#label_values(}
    until_true "there is an answer to $variable" answers "${selector%, *)}"
done <<<"$variables"
[ "$queries" -gt 0 ]

port=$looked_at
. scripts/grafana-scaling.sh
scaled

. scripts/grafana-random.sh
randomly
port=$looked_at

all_fire
# A missing value is not 0, which would stop all workers.
kill "$exporter_pid"
wanted_is() { [ "$(wanted "$1")" = "$2" ]; }
until_true "no number is told" wanted_is jobs unknown
echo "$fields fields of INFO exported, $queries queries of the dashboard answered," \
    "$states states of queues scaled by, $random_states random states exported, $cases cases of alerts"
