//! An agent wants to change an order from 2 to 20. A person sees exactly that, says yes, and it is sent once. A second use of the yes, and the
//! agent's own, are turned away.
//!
//! `cargo run --example approval`

use std::error::Error;
use uketsuke::{Actor, AmendOrder, Api, Base, Journal, Operator, OrderClient, OrderRef, Origin, Outcome, PlaceOrder, testkit::Desk};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (desk, folder) = (Desk::start().await, tempfile::tempdir()?);
    let journal = Journal::open(folder.path().join("journal")).await?;
    let client = OrderClient::new(journal.clone(), Api::at(desk.url())?, Actor::agent("order-agent"));

    // An ordinary order: nobody is asked.
    let order = PlaceOrder::new("C-100").item("SKU-1", 2);
    let placed = client.submit(Origin::mail("<1@example.com>"), &order).await?.receipt()?;
    println!("The agent placed {}.\n", placed.value.order_id.unwrap_or_default());

    // A change: it waits, and nothing is sent.
    let more = AmendOrder::new(OrderRef::PlacedBy(Origin::mail("<1@example.com>")), Base::Version(1))
        .set("items", serde_json::json!([{"sku": "SKU-1", "quantity": 20}]));
    let Outcome::AwaitingApproval(ticket) = client.submit(Origin::mail("<2@example.com>"), &more).await? else {
        return Err("a change has to be asked about".into());
    };
    let preview = ticket.preview.clone().ok_or("the order could not be read")?;
    println!("The agent wants to change it, and waits. What a person sees:\n\n{preview}");

    // Who asked for it can't say yes.
    let itself = Operator::new(journal.clone(), "Order-Agent");
    match itself.approve(ticket.key, &preview.digest, "looks right to me").await {
        Err(error) => println!("The agent itself: {error}\n"),
        Ok(_) => return Err("an agent approved its own order".into()),
    }

    // A person can: to exactly this.
    let ana = Operator::new(journal.clone(), "Ana");
    let told = ana.approve(ticket.key, &preview.digest, "as agreed on the phone").await?;
    println!("Ana says yes. To the agent that means: {}\n", told.next_step());
    let changed = client.decided(&ticket).await?.read::<AmendOrder>()?.receipt()?;
    println!(
        "Sent after {} attempt: the order is {}.",
        changed.attempts,
        changed.value.status.unwrap_or_default()
    );

    // Once.
    match ana.approve(ticket.key, &preview.digest, "once more").await {
        Err(error) => println!("The same yes again: {error}\n"),
        Ok(_) => return Err("a yes was used twice".into()),
    }
    let again = client.submit(Origin::mail("<2@example.com>"), &more).await?;
    let patches = desk.requests().iter().filter(|seen| seen.method == "PATCH").count();
    println!(
        "quantity={} patches={patches} same_key={} second_yes=refused",
        desk.orders()
            .first()
            .and_then(|order| order.pointer("/items/0/quantity").cloned())
            .unwrap_or_default(),
        again.key() == ticket.key,
    );
    Ok(())
}
