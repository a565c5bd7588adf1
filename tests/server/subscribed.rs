//! A client that has subscribed, and can still send commands: RESP3.

use crate::sleeper::waiters;
use crate::wire::Wire;
use harness::{Ask, Server, until};

#[test]
fn a_subscribed_client_blocks_or_is_told_that_nothing_is_due() {
    let (server, mut client) = Server::with_client(&[]);
    for subscribe in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
        let mut wire = Wire::connect(&server);
        wire.send("HELLO 3");
        wire.send(&format!("{subscribe} x"));
        wire.ends_with("x\r\n:1\r\n");
        wire.send("DEHYDRATOR.POLL k BLOCK 0");
        let valkey = server.log().contains("Valkey");
        if valkey {
            // This server does not block such a client.
            wire.ends_with("*0\r\n");
        } else {
            until("it is asleep", || (waiters(&server) == 1).then_some(()));
            client.ask("DEHYDRATOR.PUSH k 0 element id");
            wire.ends_with("*1\r\n$7\r\nelement\r\n");
        }
        wire.send("ECHO in-step");
        wire.ends_with("$7\r\nin-step\r\n");
        assert_eq!(waiters(&server), 0);
        wire.send("DEHYDRATOR.MPOLL 2 j k BLOCK 0");
        if valkey {
            wire.ends_with("_\r\n");
        } else {
            until("it is asleep", || (waiters(&server) == 1).then_some(()));
            client.ask("DEHYDRATOR.PUSH k 0 element id");
            wire.ends_with("*2\r\n$1\r\nk\r\n*1\r\n$7\r\nelement\r\n");
        }
        // It gets due elements like any other client.
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        wire.send("DEHYDRATOR.POLL k BLOCK 0");
        wire.ends_with("*1\r\n$7\r\nelement\r\n");
        // And once it has unsubscribed, it blocks.
        wire.send(&subscribe.replace("SUB", "UNSUB"));
        wire.ends_with("x\r\n:0\r\n");
        wire.send("DEHYDRATOR.POLL k BLOCK 0");
        until("it is asleep", || (waiters(&server) == 1).then_some(()));
        client.ask("DEHYDRATOR.PUSH k 5 element id");
        wire.ends_with("*1\r\n$7\r\nelement\r\n");
    }
}
