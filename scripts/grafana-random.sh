# shellcheck shell=bash
# shellcheck disable=SC2154,SC2317  # variables of grafana-test.sh; functions that are called by name
# For grafana-test.sh: what redis_exporter shows of queues in fifty random states, compared with what was put and taken here.
# KEDA's redis trigger counts lists by LLEN too, and fails for keys of a type that it does not know.

random_states=0
random_seed=${DEHYDRATOR_SEED:-$RANDOM}

# shows <metric> <key> <number>
shows() {
    local found
    found=$(sed -n "s/^redis_$1{.*key=\"$2\".*} //p" "$work/shown")
    [ "$found" = "$3" ] || {
        echo "grafana-test.sh: redis_exporter shows ${found:-nothing} for $1 of $2 instead of ${3:-nothing}" \
            "(DEHYDRATOR_SEED=$random_seed)" >&2
        exit 1
    }
}

# elements <key> <ttl> <how many>: ids are new.
elements() {
    local words=() n
    for ((n = 0; n < $3; n++)); do words+=("$2" element "$1:$2:$n"); done
    [ ${#words[@]} = 0 ] || ask DEHYDRATOR.MPUSH "$1" "${words[@]}" >/dev/null
}

randomly() {
    local shown due later held delivered waiting groups n
    serve random
    shown=$(free_port)
    prometheus-redis-exporter -redis.addr "redis://127.0.0.1:$port" -web.listen-address "127.0.0.1:$shown" \
        -script "$work/dehydrator.lua" -check-single-keys 'db0=jobs,db0=ready' >"$work/random-exporter.log" 2>&1 &
    started+=($!)
    until_true "the exporter is up" curl -sf "http://127.0.0.1:$shown/metrics"
    RANDOM=$random_seed
    for _ in {1..50}; do
        due=$((RANDOM % 6)) later=$((RANDOM % 6)) delivered=$((RANDOM % 6)) waiting=$((RANDOM % 6))
        held=$((due > 0 ? RANDOM % (due + 1) : 0))
        ask FLUSHALL >/dev/null
        elements jobs 0 "$due"
        elements jobs 600000 "$later"
        groups=$((RANDOM % 4))
        for ((n = 0; n < groups; n++)); do
            ask DEHYDRATOR.PUSH jobs 600000 element "grouped:$n" GROUP "tenant $n" >/dev/null
        done
        [ "$held" = 0 ] || ask DEHYDRATOR.POLL jobs COUNT "$held" LEASE 600000 >/dev/null
        ask DEHYDRATOR.ONDUE later LIST ready >/dev/null
        elements later 0 "$delivered"
        elements later 600000 "$waiting"
        all_delivered() { [ "$(ask LLEN ready)" = "$delivered" ]; }
        until_true "what is due is in the list" all_delivered
        curl -sf "http://127.0.0.1:$shown/metrics" >"$work/shown"
        shows script_values "length:jobs" $((due + later + groups))
        shows script_values "groups:jobs" "$groups"
        shows script_values "leased:jobs" "$held"
        # No number for a key of a module, which would be a wrong one.
        [ $((due + later + groups)) = 0 ] || shows key_size jobs ''
        # An empty list is a missing key, of which some versions show nothing.
        [ "$delivered" = 0 ] || shows key_size ready "$delivered"
        random_states=$((random_states + 1))
    done
}
