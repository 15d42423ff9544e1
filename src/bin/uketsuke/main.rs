//! The program `uketsuke`. Its one verb so far is `desk`, the test desk for agents in any language.

mod desk;

use clap::{CommandFactory as _, Parser, Subcommand, error::ErrorKind};
use std::process::ExitCode;

/// The client side of never ordering twice, and a desk to test it against.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Uketsuke {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Plays an order API on this machine: honest, or as ugly as its script says.
    Desk(desk::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Verb::Desk(options) = Uketsuke::parse().verb;
    if let Err(why) = options.check() {
        Uketsuke::command().error(ErrorKind::ValueValidation, why).exit();
    }
    match desk::run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
