# shellcheck shell=bash
# shellcheck disable=SC2317  # functions that are called by name
# For grafana-test.sh: the numbers of workers that grafana/keda.yml and grafana/hpa.yml request for queues, calculated
# as the scalers do. KEDA runs its Prometheus trigger's query, which must return one number; more than 0
# (`activationThreshold`) scales up from zero. Then, as for each AverageValue, the number of workers is the value
# divided by the threshold, rounded up.

states=0
of_keda() { sed -n "s/^ *$1: ['\"]\(.*\)['\"]$/\1/p" grafana/keda.yml; }
of_hpa() { sed -n "s/^.* $1: ['\"]\(.*\)['\"]}*$/\1/p" grafana/hpa.yml; }
# Both use the same queries.
if [ "$(of_keda query)" != "$(of_hpa metricsQuery)" ] || [ "$(of_keda threshold)" != "$(of_hpa averageValue)" ] ||
    [ "$(of_keda query | wc -l) $(of_keda threshold | wc -l)" != "2 2" ]; then
    echo "grafana-test.sh: keda.yml and hpa.yml differ" >&2
    exit 1
fi

# number <which query> <queue>
number() {
    local query
    query=$(of_keda query | sed -n "$1s/:jobs\"/:$2\"/gp")
    api query --data-urlencode "query=$query" |
        jq -r '.data.result | if length == 1 then .[0].value[1] else "unknown" end'
}
# wanted <queue>: prints the number of workers for its work.
wanted() {
    local number
    number=$(number 1 "$1")
    jq -rn --arg number "$number" --arg per "$(of_keda threshold | sed -n 1p)" \
        'if $number == "unknown" then $number else ($number | tonumber) / ($per | tonumber) | ceil end'
}
# workers <what> <queue> <how many>
workers() {
    states=$((states + 1))
    has() { [ "$(wanted "$1")" = "$2" ]; }
    until_true "there are $3 workers of $2: $1" has "$2" "$3"
}
# Nothing of this may start a worker.
idle() {
    workers "$1" "$2" 0
    [ "$(number 2 "$2")" = 0 ] || { echo "grafana-test.sh: $1, and something is old" >&2; exit 1; }
}
hundred() {
    local elements=() id
    for id in {1..100}; do elements+=(0 element "$id"); done
    ask DEHYDRATOR.MPUSH "$1" "${elements[@]}" >/dev/null
}

scaled() {
    idle "the key is missing" work
    ask DEHYDRATOR.PUSH work 600000 element later >/dev/null
    until_true "it is there" answers 'redis_script_values{key="length:work"} == 1'
    idle "what is there is not due" work

    hundred work
    workers "a hundred are due" work 5
    # The age of the oldest is the server's, and it grows.
    older() {
        local told real
        told=$(number 2 work)
        real=$(ask DEHYDRATOR.INFO work | sed -n '/^oldest-due-ms$/{n;p}')
        jq -en --arg told "$told" --arg real "$real" \
            '($told | tonumber) as $told | (($real | tonumber) / 1000) as $real | $told > '"$1"' and $told <= $real and $real - $told < 10'
    }
    until_true "the oldest is told" older 2
    until_true "it gets older" older 4

    ids=$(ask DEHYDRATOR.POLL work COUNT 100 LEASE 600000 | paste - - - - | cut -f 1,4)
    until_true "the oldest is held" answers 'redis_script_values{key="oldest:work"} == 0'
    workers "all are held, and none is taken from its work" work 5
    while read -r id token; do echo "DEHYDRATOR.SETTLE work $token $id"; done <<<"$ids" | ask >/dev/null
    idle "all is done" work

    hundred paused
    workers "a hundred are due" paused 5
    ask DEHYDRATOR.PAUSE paused >/dev/null
    idle "it is paused: workers would get nothing" paused
    hundred limited
    ask DEHYDRATOR.LIMIT limited HELD 1 >/dev/null
    workers "a hundred are due" limited 5
    ask DEHYDRATOR.POLL limited COUNT 1 LEASE 600000 >/dev/null
    workers "one is held, and no more may be" limited 1
    # A key of another type has no metrics.
    ask SET text text >/dev/null
    workers "no queue" text unknown
    # Nor has any key on a replica, on which nothing is late, if the exporter of its primary is down.
    workers "this is the primary" paused 0
    ask REPLICAOF 127.0.0.1 1 >/dev/null
    workers "this is a replica" paused unknown
    ask REPLICAOF NO ONE >/dev/null
    workers "this is the primary again" paused 0
}
