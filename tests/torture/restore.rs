//! Mutated payloads. DEHYDRATOR_MUTANTS makes a run longer or shorter: 10,000 at least, of which the first 5,500 warm up.

use redis::{Connection, Value};

use harness::{Ask, Server, setting, until};

const MUTANTS: u64 = 100_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn dump(client: &mut Connection, key: &str) -> Vec<u8> {
    let Value::BulkString(dump) = client.ask(&format!("DUMP {key}")) else { panic!("a dump") };
    dump
}

/// Dumps of several shapes, and of both encodings.
fn seeds() -> Vec<Vec<u8>> {
    let rede = std::path::Path::new("tests/data/rede-0.5-due.rdb");
    let server = Server::start_with_files(&["--rdbcompression", "no"], &[(rede, "dump.rdb")]);
    let mut client = server.connect();
    for number in 0..20 {
        client.ask(&format!("DEHYDRATOR.PUSH small {} element-{number} id-{number}", number % 3));
    }
    for number in 0..300 {
        client.ask(&format!("DEHYDRATOR.PUSH many {number} e {number}"));
    }
    client.ask("DEHYDRATOR.PUSH ruled 600000 element id");
    client.ask("DEHYDRATOR.ONDUE ruled HOLD DELIVERIES 300 STREAM s MAXLEN ~ 5");
    client.ask("DEHYDRATOR.PAUSE ruled AT 4102444799999");
    let keys = ["small", "many", "single", "binary", "emptied", "ruled"];
    keys.map(|key| dump(&mut client, key)).into()
}

#[test]
fn mutants_are_refused_or_harmless_and_leak_no_memory() {
    let mutants = setting("DEHYDRATOR_MUTANTS", MUTANTS) as usize;
    let seeds = seeds();
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    let mut random = Random(1);
    let mut accepted = 0;
    let mut before = 0;
    for number in 0..mutants / 500 {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for mutant in 0..500 {
            let seed = &seeds[random.below(seeds.len())];
            let mut bytes = seed.clone();
            for _ in 0..=random.below(4) {
                // Keeps type and module id at the start, or the payload would not reach the module.
                let at = 10 + random.below(bytes.len() - 20);
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] ^= 1 << random.below(8),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, random.below(256) as u8),
                }
            }
            // Both encodings: the last bits of the id select one.
            if random.below(10) == 0 {
                bytes[9] ^= 1;
            }
            pipe.cmd("RESTORE").arg(format!("m{mutant}")).arg(0).arg(bytes);
        }
        let replies: Vec<Value> = pipe.query(&mut client).expect("replies");
        accepted += replies.iter().filter(|reply| **reply == Value::Okay).count();
        for (mutant, reply) in replies.iter().enumerate() {
            if *reply == Value::Okay {
                client.ask(&format!("DEHYDRATOR.POLL m{mutant}"));
                client.ask(&format!("DEHYDRATOR.TTN m{mutant}"));
            }
        }
        client.ask("FLUSHALL SYNC");
        until("all is freed", || {
            (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
        });
        if number == 10 {
            before = client.info("memory", "used_memory");
        }
    }
    let after = client.info("memory", "used_memory");
    assert!(after < before + 200_000, "{before} bytes before, {after} after");
    assert!(accepted > 0 && accepted < mutants / 2, "{accepted} mutants were accepted");
}
