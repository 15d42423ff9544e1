//! Five nights in which an agent could have ordered twice: a lost reply, contents that changed, agents in parallel, a server that stalls midway,
//! and an approval that something tries to give itself. One journal, one desk; in the morning they are counted.
//!
//! `cargo run --example five_nights`; with `-- --deaf-desk` the server ignores keys, and the second orders show; with `-- --audit` the audit of
//! all five is printed as the chapter docs/audit-example.md, with `-- --jsonl` or `-- --csv` as rows for a pipe.

mod nights;
mod paper;

use nights::Shop;
use std::error::Error;

pub(crate) type Done = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let quiet = has("--audit") || has("--jsonl") || has("--csv");
    let shop = Shop::open(has("--deaf-desk")).await?;

    let mut passed = 0;
    for (n, (name, told)) in nights::play(&shop).await.into_iter().enumerate() {
        let what = match told {
            Ok(what) => {
                passed += 1;
                format!("passed: {what}")
            }
            Err(why) => format!("FAILED: {why}"),
        };
        if !quiet {
            println!("night {}  {name:<24} {what}", n + 1);
        }
    }

    match (has("--audit"), has("--jsonl"), has("--csv")) {
        (true, ..) => return paper::chapter(&shop.journal).await,
        (_, true, _) => return paper::rows(&shop.journal, uketsuke::audit::Format::JsonLines).await,
        (.., true) => return paper::rows(&shop.journal, uketsuke::audit::Format::Csv).await,
        _ => {}
    }
    println!("five_nights passed={passed} orders_doubled={}", shop.doubled());
    Ok(())
}
