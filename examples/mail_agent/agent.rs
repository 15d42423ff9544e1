//! One agent: goes through a folder of mails, orders what they ask for, and keeps a list of what a person has to look at. It knows nothing of
//! other agents; the journal's folder is all they share.

use crate::mail::{self, Asks, Mail, Ready};
use std::{error::Error, fs, path::Path, time::Duration};
use uketsuke::{Actor, Api, Journal, NextStep, OrderClient, Outcome, Receipt};

/// How often the agent goes through what is open. Each round sends such an order up to four times more, under its key; what is open after the
/// last is for the next run to resume.
const ROUNDS: u32 = 4;
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);

/// Goes through the folder, and says of each mail what was done.
///
/// # Errors
/// The journal or the folder can't be read, or an order is still open after the last round.
pub(crate) async fn run(name: &str, url: &str, journal: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let journal = Journal::open(journal).await?;
    // Named, because the address of a server may change while its memory of keys does not.
    let api = Api::builder(url).name("the desk").build()?;
    let mut agent = Agent {
        name: name.to_owned(),
        client: OrderClient::new(journal, api, Actor::agent(name)),
        for_a_person: Vec::new(),
    };
    agent.client.resume_pending().await?; // first, whatever a crash left open

    let mut waiting = mail::files(folder)?;
    for round in 1..=ROUNDS {
        let mut open = Vec::new();
        for file in waiting {
            let label = file
                .file_name()
                .unwrap_or_default()
                .display()
                .to_string()
                .escape_debug()
                .to_string();
            if agent.go_through(&label, &file).await == Done::NotYet {
                open.push(file);
            }
        }
        waiting = open;
        if waiting.is_empty() {
            break;
        }
        if round < ROUNDS {
            tokio::time::sleep(BETWEEN_ROUNDS).await;
        }
    }

    agent.say_who_has_to_look();
    match waiting.len() {
        0 => Ok(()),
        n => Err(format!("{name}: {n} mails are still open; the next run resumes them under the same keys").into()),
    }
}

struct Agent {
    name: String,
    client: OrderClient,
    for_a_person: Vec<String>,
}

/// Whether the agent has to come back to a mail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Yes,
    NotYet,
}

impl Agent {
    async fn go_through(&mut self, label: &str, file: &Path) -> Done {
        let mail = match fs::read(file) {
            Ok(bytes) => Mail::read(&bytes),
            Err(why) => return self.ask_a_person(label, &format!("the file can't be read: {why}")),
        };
        let label = format!("{label} \"{}\"", mail.subject);
        match mail.asks {
            Ok(Asks::Orders(orders)) => self.place(&label, &orders).await,
            Ok(Asks::Nothing { but: None }) => self.say(&label, "not an order"),
            Ok(Asks::Nothing { but: Some(why) }) => self.say(&label, &format!("not an order: {why}")),
            Err(why) => self.ask_a_person(&label, &why),
        }
    }

    /// Places a mail's orders one after the other. Where one needs a person, the rest of its mail waits for the person too: what is wrong with
    /// the first order of a mail is seldom right with its second.
    async fn place(&mut self, label: &str, orders: &[Ready]) -> Done {
        for Ready { origin, order, wanted } in orders {
            match self.client.submit(origin.clone(), order).await.map(Outcome::receipt) {
                Ok(Ok(receipt)) => {
                    let id = receipt.value.order_id.as_deref().unwrap_or("an order without a number");
                    self.say(label, &format!("ordered as {id} ({wanted}); {}", how_it_went(&receipt)));
                }
                Ok(Err(no)) => return self.ask_a_person(label, &no.to_string()),
                Err(error) => match error.next_step() {
                    NextStep::Resume { .. } | NextStep::FixSetup => {
                        self.say(label, &format!("not known yet, to be asked again: {error}"));
                        return Done::NotYet;
                    }
                    _ => return self.ask_a_person(label, &error.to_string()),
                },
            }
        }
        Done::Yes
    }

    fn say(&self, label: &str, what: &str) -> Done {
        println!("{}: {label}: {what}", self.name);
        Done::Yes
    }

    fn ask_a_person(&mut self, label: &str, why: &str) -> Done {
        self.for_a_person.push(label.to_owned());
        self.say(label, &format!("a person has to look: {why}"))
    }

    fn say_who_has_to_look(&self) {
        match self.for_a_person.as_slice() {
            [] => println!("{}: done, and nothing is left for a person", self.name),
            mails => println!("{}: done; for a person:\n  {}", self.name, mails.join("\n  ")),
        }
    }
}

fn how_it_went<R>(receipt: &Receipt<R>) -> String {
    let attempts = match receipt.attempts {
        1 => "1 attempt".to_owned(),
        n => format!("{n} attempts"),
    };
    match receipt.replayed {
        true => format!("{attempts}, the last answered from the desk's store"),
        false => attempts,
    }
}
