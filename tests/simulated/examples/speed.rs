//! Measures how many simple commands a second the simulated server runs: `speed <library>`.

use std::path::PathBuf;
use std::time::Instant;

use simulated::machine::{Kind, Machine};

fn main() {
    let library = PathBuf::from(std::env::args().nth(1).expect("a library"));
    let began = Instant::now();
    for _ in 0..50 {
        Machine::new(&library, Kind::Redis8, 1).start(&[]);
    }
    println!("a start: {:.2} ms", began.elapsed().as_secs_f64() * 20.0);
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    println!(
        "after 50 starts: {}",
        status.lines().find(|line| line.starts_with("VmRSS")).expect("RSS")
    );
    let mut machine = Machine::new(&library, Kind::Redis8, 1);
    let s = machine.start(&[]);
    let c = machine.connect(s);
    for (name, line, count) in
        [("PUSH and PULL, one a pass", 1, 200_000_u32), ("PUSH and PULL, ten a pass", 10, 200_000)]
    {
        let began = Instant::now();
        let mut done = 0_u32;
        while done < count {
            for at in 0..line / 2 + 1 {
                let id = (done + at).to_string();
                machine.send(c, &[b"DEHYDRATOR.PUSH", b"key", b"1000", b"element", id.as_bytes()]);
                machine.send(c, &[b"DEHYDRATOR.PULL", b"key", id.as_bytes()]);
            }
            machine.pass(s);
            done += 2 * (line / 2 + 1);
            assert_eq!(machine.replies(c).len() as u32, 2 * (line / 2 + 1));
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("{name}: {:.0} a second", f64::from(done) / seconds);
    }
}
