//! What both servers play.

use super::compare;

/// Each scenario is a test of its own.
macro_rules! scenarios {
    ($($name:ident: $scenario:literal)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name), $scenario);
            }
        )*
    };
}

scenarios! {
    plain_commands: "
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> DEHYDRATOR.PUSH k 600000 two 2 GROUP g
        a> DEHYDRATOR.MPUSH k 0 due 3 600000 four 4 AT 1000
        a> DEHYDRATOR.POLL k
        a> DEHYDRATOR.POLL k COUNT 5 LEASE 60000 TOKEN mine
        a> DEHYDRATOR.SETTLE k mine 3
        a> DEHYDRATOR.SETTLE k mine 4
        a> DEHYDRATOR.TOUCH k 700000 AT 1999999999999 1
        a> DEHYDRATOR.UPDATE k 1 other
        a> DEHYDRATOR.PULL k 1
        a> DEHYDRATOR.LEN k GROUP g
        a> DEHYDRATOR.PULL k 2
        a> EXISTS k
        a> DEHYDRATOR.PULL k 2
        a> DEHYDRATOR.POLL nowhere
        a> DEHYDRATOR.RANGE nowhere - +
        a> DEHYDRATOR.SCAN nowhere 0
        a> DEHYDRATOR.INFO nowhere
        a> DEHYDRATOR.LATE
        heard
    "
    errors: "
        a> NOSUCH a b
        a> DEHYDRATOR.PUSH k
        a> DEHYDRATOR.PULL k
        a> DEHYDRATOR.POLL k BLOCK x
        a> DEHYDRATOR.PUSH k x element id
        a> SET s text
        a> DEHYDRATOR.PUSH s 1000 element id
        a> DEHYDRATOR.TTN s
        a> DEHYDRATOR.PUSH k 600000 element id
        a> GET k
        a> RPUSH k item
        a> TYPE k
        a> RENAME nowhere k
        a> MOVE k 0
        a> MOVE k 99
        a> COPY k k
        a> SELECT 99
        a> EXPIRE k x
        a> XADD x 1-1 a
        a> EXEC
        a> RESTORE r 0 nonsense
        full yes
        a> DEHYDRATOR.PUSH k 600000 element other
        a> DEHYDRATOR.PULL k id
        full no
        a> DEHYDRATOR.PUSH k 600000 element other
    "
    transactions: "
        a> MULTI
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> EXEC
        a> MULTI
        a> DEHYDRATOR.PUSH k 600000 two 2
        a> SET s text
        a> DEHYDRATOR.POLL k BLOCK 0
        a> SELECT 3
        a> DEHYDRATOR.PUSH k 600000 three 3
        a> EXEC
        a> DEHYDRATOR.PULL k 3
        a> SELECT 0
        a> MULTI
        a> DEHYDRATOR.LEN k
        a> EXEC
        a> MULTI
        a> DEHYDRATOR.PUSH k
        a> SET s other
        a> EXEC
        a> DEHYDRATOR.PUSH k 600000 four 4 REPLACE
    "
    scripts: "
        script DEHYDRATOR.PUSH k 0 one 1 | DEHYDRATOR.POLL k BLOCK 0 | SET s text
        script DEHYDRATOR.POLL k BLOCK 0
        script DEHYDRATOR.TTN k
    "
    watched_keys: "
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> WATCH k
        b> DEHYDRATOR.LEN k
        b> DEHYDRATOR.PULL k nothing
        b> DEHYDRATOR.POLL k
        a> MULTI
        a> DEHYDRATOR.LEN k
        a> EXEC
        a> WATCH k
        b> DEHYDRATOR.PUSH k 600000 two 2
        a> MULTI
        a> DEHYDRATOR.LEN k
        a> EXEC
        a> WATCH k
        b> RENAME k other
        a> MULTI
        a> PING
        a> EXEC
        a> WATCH other
        b> DEHYDRATOR.PAUSE other
        a> MULTI
        a> PING
        a> EXEC
        a> WATCH other
        b> FLUSHALL
        a> MULTI
        a> PING
        a> EXEC
        a> WATCH other
        b> FLUSHALL
        a> MULTI
        a> PING
        a> EXEC
    "
    keyspace_events: "
        a> DEHYDRATOR.PUSH k 600000 one 1
        heard
        a> RENAME k l
        heard
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> RENAME k l
        a> RENAMENX l m
        a> COPY m n
        a> COPY m n
        a> COPY m n REPLACE
        a> COPY m n DB 2
        a> MOVE m 3
        heard
        a> DEL n
        a> DEHYDRATOR.PUSH k 0 due 1
        a> DEHYDRATOR.POLL k
        heard
        a> SELECT 2
        a> SWAPDB 2 0
        a> EXISTS n
        a> SELECT 0
        a> DEHYDRATOR.LEN n
        a> EXPIRE n 1000
        a> PERSIST n
        a> PERSIST n
        a> UNLINK n
        heard
        a> FLUSHDB
        a> RPUSH list a b
        a> LPOP list
        a> RPOP list
        a> XADD stream 5-1 a b
        a> XTRIM stream MAXLEN 0
        a> DEL stream list
        heard
    "
    a_listener_writes: "
        on dehydrator.push DEHYDRATOR.PULL %key 1
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> EXISTS k
        heard
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> DEHYDRATOR.PUSH k 0 two 2
        on dehydrator.poll DEHYDRATOR.PUSH %key 600000 three 3
        a> DEHYDRATOR.POLL k
        heard
        on rename_to DEL %key
        a> RENAME k l
        heard
        on del DEHYDRATOR.PUSH %key 600000 four 4
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> DEL k
        a> DEHYDRATOR.LEN k
        heard
        on dehydrator.push LPUSH %key x
        a> DEHYDRATOR.PUSH k 600000 one 1
        heard
    "
    keys_that_expire: "
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> PEXPIREAT k 5
        a> DEHYDRATOR.PUSH k 600000 one 1
        a> PEXPIRE k 300000
        a> DEHYDRATOR.PUSH k 600000 two 2
        a> DEHYDRATOR.PULL k 1
        a> PERSIST k
        a> PEXPIRE k 1
        +400
        a> DEHYDRATOR.LEN k
        heard
    "
    blocked_clients: "
        a> PING
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        c~ DEHYDRATOR.POLL k BLOCK 0 COUNT 2
        =2
        a> DEHYDRATOR.PUSH k 0 one 1
        b=
        a> DEHYDRATOR.MPUSH k 0 two 2 0 three 3
        c=
        b~ DEHYDRATOR.MPOLL 2 k l BLOCK 0 LEASE 60000 TOKEN mine
        =1
        a> SELECT 1
        a> DEHYDRATOR.PUSH k 0 four 4
        a> MOVE k 0
        b=
        b> DEHYDRATOR.SETTLE k mine 4
        b~ DEHYDRATOR.POLL k BLOCK 30
        b=
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        b!
        =0
        a> DEHYDRATOR.PUSH k 0 five 5
        a> DEHYDRATOR.LEN k
        heard
    "
    unblocked_and_killed: "
        a> PING
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> CLIENT UNBLOCK $b
        b=
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> CLIENT UNBLOCK $b ERROR
        b=
        a> CLIENT UNBLOCK $b
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> CLIENT KILL ID $b
        b=
        a> DEHYDRATOR.PUSH k 0 one 1
        a> DEHYDRATOR.LEN k
        c. HELLO 3
        c~ DEHYDRATOR.POLL l BLOCK 0 WITHIDS
        =1
        a> DEHYDRATOR.PUSH l 0 two 2
        c=
        c~ DEHYDRATOR.PURGE k GROUP g
        c=
        a> DEHYDRATOR.PURGE k PREFIX 1
        a> EXISTS k
    "
    paused_writes: "
        a> DEHYDRATOR.PUSH k 600000 one 1
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> CLIENT PAUSE 100000 WRITE
        c~ DEHYDRATOR.PUSH k 0 two 2
        =2
        a> DEHYDRATOR.LEN k
        a> CLIENT UNPAUSE
        c=
        b=
        a> CLIENT PAUSE 20 WRITE
        a> DEHYDRATOR.PULL k 1
    "
    deliveries: "
        a> DEHYDRATOR.ONDUE k LIST l
        a> DEHYDRATOR.PUSH k 0 one 1
        a> DEHYDRATOR.MPUSH k 0 two 2 0 three 3
        +300
        a> LRANGE l 0 -1
        a> DEHYDRATOR.ONDUE j HOLD DELIVERIES 1 STREAM s
        a> DEHYDRATOR.PUSH j 0 four 4
        a> DEHYDRATOR.POLL j LEASE 60000 TOKEN mine
        a> DEHYDRATOR.REJECT j mine 4
        +300
        a> XLEN s
        a> DEHYDRATOR.ONDUE i DROP
        a> DEHYDRATOR.PUSH i 0 five 5
        +300
        a> DEHYDRATOR.LEN i
        heard
    "
    rights_of_users: "
        a> ACL SETUSER u on nopass ~k* &* +@all -dehydrator.pull
        b> AUTH u x
        b> DEHYDRATOR.PUSH k 600000 one 1
        b> DEHYDRATOR.PULL k 1
        b> DEHYDRATOR.PUSH other 600000 one 1
        b> DEHYDRATOR.ONDUE k LIST elsewhere
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> ACL SETUSER u -dehydrator.poll
        a> DEHYDRATOR.PUSH k 0 two 2
        b=
        a> DEHYDRATOR.LEN k
        a> ACL DELUSER u
        b=
    "
    other_databases: "
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> SELECT 1
        a> DEHYDRATOR.PUSH k 0 one 1
        a> SWAPDB 0 1
        b=
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> DEHYDRATOR.PUSH j 0 two 2
        a> COPY j k DB 0
        a> SELECT 0
        b=
        a> DEHYDRATOR.PUSH j 0 three 3
        a> RENAME j k
        a> DEHYDRATOR.PULL k 3
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        a> DEHYDRATOR.PUSH k 600000 four 4
        a> FLUSHALL
        a> DEHYDRATOR.PUSH k 0 five 5
        b=
        heard
    "
    killed_in_a_transaction: "
        a> PING
        b~ DEHYDRATOR.POLL k BLOCK 0 LEASE 60000 TOKEN mine
        =1
        a> MULTI
        a> DEHYDRATOR.PUSH k 0 one 1
        a> CLIENT KILL ID $b
        a> EXEC
        b=
        +50
        a> DEHYDRATOR.LEN k
        a> DEHYDRATOR.PULL k 1
    "
    becoming_a_replica: "
        a> DEHYDRATOR.PUSH k 600000 one 1
        b~ DEHYDRATOR.POLL k BLOCK 0
        =1
        c~ DEHYDRATOR.PUSH k 600000 two 2
        c=
        a> REPLICAOF 127.0.0.1 1
        b=
        b=
        a> DEHYDRATOR.PUSH k 600000 three 3
        a> DEHYDRATOR.POLL k
        a> DEHYDRATOR.LEN k
        a> REPLICAOF NO ONE
        a> DEHYDRATOR.PUSH k 600000 three 3
        a> DEHYDRATOR.LEN k
    "
    subscribers: "
        a> CONFIG SET notify-keyspace-events KEA
        c> SUBSCRIBE __keyevent@0__:dehydrator.push __keyspace@0__:k
        c=
        a> DEHYDRATOR.PUSH k 600000 one 1
        c=
        c=
        a> PUBLISH __keyspace@0__:k text
        c=
        a> DEHYDRATOR.ONDUE k PUBLISH __keyspace@0__:k
        c=
        a> DEHYDRATOR.PUSH k 0 due 2
        c=
        c=
        c=
        c=
        d. HELLO 3
        d> SUBSCRIBE other
        d> DEHYDRATOR.POLL j BLOCK 20
    "
    lists_and_streams: "
        a> RPUSH l a b c
        a> LPUSH l z
        a> LRANGE l 0 -1
        a> LRANGE l -2 1
        a> LLEN l
        a> XADD s MAXLEN = 2 1-1 a b
        a> XADD s MAXLEN = 2 1-2 a b
        a> XADD s MAXLEN = 2 5-* a b
        a> XADD s 5-* a b
        a> XADD s 4-1 a b
        a> XADD s NOMKSTREAM 6-1 a b
        a> XADD t NOMKSTREAM 6-1 a b
        a> XRANGE s - +
        a> XRANGE s 5 5
        a> XRANGE s (5-0 +
        a> XRANGE s (1 + COUNT 1
        a> XDEL s 5-0 9-9
        a> XDEL s 5-0
        a> XDEL t 5-0
        a> XDEL l 5-0
        a> XLEN s
        a> XLEN l
        a> LLEN s
        a> SET s text
        a> TYPE s
        a> DEL l s t
        heard
    "
    letters_come_back: "
        a> DEHYDRATOR.ONDUE k HOLD DELIVERIES 5 STREAM s
        a> DEHYDRATOR.MPUSH k 0 one 1 0 two 2 GROUP g
        a> DEHYDRATOR.POLL k LEASE 60000 TOKEN t
        a> DEHYDRATOR.RELEASE k 0 t 1 UNCOUNTED ELEMENT other REASON why
        a> DEHYDRATOR.REJECT k t 2 REASON never
        a> DEHYDRATOR.REVIVE k
        a> XLEN s
        a> DEHYDRATOR.REVIVE k FROM 1-1 COUNT 1
        a> DEHYDRATOR.REVIVE k IDS 1 1-1
        a> DEHYDRATOR.LOOK k 1 FULL
        a> DEHYDRATOR.ONDUE k NX HOLD
        heard
    "
    schedules: "
        a> DEHYDRATOR.EVERY k 30 element s FROM 1999999999999 TIMES 1
        a> DEHYDRATOR.EVERY k 30 element s FROM 1999999999999 TIMES 1
        a> DEHYDRATOR.SCHEDULES k
        a> DEHYDRATOR.PAUSE k SCHEDULE s
        a> DEHYDRATOR.RESUME k SCHEDULE s
        a> DEHYDRATOR.UNSCHEDULE k s t
        a> EXISTS k
        heard
    "
    settings: "
        a> CONFIG GET dehydrator.reply-max
        a> CONFIG SET dehydrator.reply-max 5
        a> CONFIG GET dehydrator.reply-max
        a> CONFIG SET dehydrator.reply-max x
        a> CONFIG SET dehydrator.reply-max -1
        a> CONFIG SET dehydrator.rede-commands yes
        a> CONFIG SET dehydrator.nothing 1
        a> CONFIG SET dehydrator.default-ondue nonsense
        a> CONFIG GET dehydrator.default-ondue
    "
}
