# shellcheck shell=bash
# shellcheck disable=SC2154,SC2317  # variables of grafana-test.sh; functions that are called by name
# For grafana-test.sh: each case of docs/operations.md, on a server each, and the rules of grafana/alerts.yml that fire.
# Not by promtool's own tests, for which one invents the numbers: here they are those of servers in these states.
# As in tests/server/lateness/alerts.rs, a minute of a rule is a few seconds here; an hour is twenty.

# again <seconds> <command>...: repeats a command.
again() {
    "$cli" -p "$port" -r -1 -i "$@" >/dev/null 2>>"$work/cases.log" &
    started+=($!)
}
# pushes <ttl>: pushes two elements per second, due after this many milliseconds.
pushes() { again 0.5 EVAL "return redis.call('DEHYDRATOR.PUSH', 'k', $1, 'x', redis.call('INCR', 'n'))" 0; }
# works <Lua>: leases elements, and runs Lua with the id and the token of each.
works() {
    again 0.03 EVAL "local it = redis.call('DEHYDRATOR.POLL', 'k', 'COUNT', 1, 'LEASE', 60000)
        if it and it[1] then local id, token = it[1][1], it[1][4]; $1 end" 0
}
settle="redis.call('DEHYDRATOR.SETTLE', 'k', token, id)"
backlog() { for _ in {1..20}; do echo "DEHYDRATOR.PUSH k 0 x $RANDOM$RANDOM"; done | ask >/dev/null; }

down() { kill "${started[-1]}"; }
nobody_polls() { backlog; }
workers_elsewhere() { ask DEHYDRATOR.PUSH other 0 x id && pushes 5 && works "$settle"; }
nothing_due() { ask DEHYDRATOR.PUSH k 600000 x id && works "$settle"; }
ordinary_work() { pushes 5 && works "$settle"; }
delivered() { ask DEHYDRATOR.ONDUE k STREAM s && pushes 5; }
ordinary_back_off() {
    pushes 5
    works "if redis.call('INCR', 'tries') % 4 == 0 then $settle else redis.call('DEHYDRATOR.RELEASE', 'k', 400, token, id) end"
}
workers_die() {
    for id in 1 2 3; do ask DEHYDRATOR.PUSH k 5 x $id; done
    again 0.03 DEHYDRATOR.POLL k COUNT 1 LEASE 50
}
stuck_stream() { ask DEHYDRATOR.ONDUE k STREAM s && ask SET s text && pushes 5; }
stuck_dead_letters() {
    ask DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM s && ask SET s text
    ask DEHYDRATOR.EFFECT k P5@5,delivered=1 x dead && pushes 5 && works "$settle"
}
paused_backlog() { backlog && ask DEHYDRATOR.PAUSE k; }
rare_polls() {
    again 0.1 EVAL "return redis.call('DEHYDRATOR.PUSH', 'k', 5, 'x', redis.call('INCR', 'n'))" 0
    again 0.7 DEHYDRATOR.POLL k
}
dead_letters() {
    ask DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 DROP
    again 0.5 EVAL "return redis.call('DEHYDRATOR.EFFECT', 'k', 'P5@5,delivered=1', 'x', redis.call('INCR', 'n'))" 0
}

# The cases, and the alerts that fire; in alphabetical order, as Prometheus returns them.
expected='dead_letters DeadLetters
down Down
nobody_polls Backlog
paused_backlog PausedForLong
rare_polls Late
stuck_dead_letters DeliveriesFail
stuck_stream Backlog
stuck_stream DeliveriesFail
workers_die WorkersDie
workers_elsewhere Backlog'
silent='delivered nothing_due ordinary_back_off ordinary_work'

start_cases() {
    local case targets=()
    cases=0
    # shellcheck disable=SC2086  # words
    for case in $(cut -d ' ' -f 1 <<<"$expected" | uniq) $silent; do
        serve "$case"
        "$case" >/dev/null
        targets+=("{\"targets\": [\"127.0.0.1:$port\"], \"labels\": {\"instance\": \"$case\"}}")
        cases=$((cases + 1))
    done
    (IFS=, && echo "[${targets[*]}]") >"$work/cases.json"
    promtool check rules grafana/alerts.yml >/dev/null
    sed -E 's/> 60$/> 1/; s/\b(1h|10m)\b/20s/; s/\b5m\b/10s/; s/\b1m\b/2s/' grafana/alerts.yml >"$work/alerts.yml"
}

firing='ALERTS{alertstate="firing", job="cases"}'
by() { api query --data-urlencode "query=$1" | jq -r '.data.result[].metric | "\(.instance) \(.alertname)"' | sort; }
# The alerts that fired all the time in the last seconds, and those that fired at some time, both equal the expected
# ones.
fire() {
    local always ever
    # All have been observed long enough for the slowest.
    answers "count(min_over_time(up{job=\"cases\"}[6s]) == 1) == $cases and min(count_over_time(up{job=\"cases\"}[60s])) > 22" || return
    always=$(by "count_over_time(${firing}[10s]) >= 4") ever=$(by "last_over_time(${firing}[10s])")
    [ "$always" = "$expected" ] && [ "$ever" = "$expected" ]
}
all_fire() {
    (until_true "just those alerts fire that should" fire) || {
        diff <(echo "$expected") <(by "last_over_time(${firing}[10s])") >&2
        exit 1
    }
}
