//! `Stake`: what an order is about in numbers and names, as far as its operation says so. Data for policies; the server is never shown it.

use serde::{Deserialize, Serialize};

/// What is at stake with an order, for limits and allow-lists. `None`, and an empty list, mean "not named", never "zero": a rule that asks for
/// what is not named allows nothing.
///
/// Kept in the journal beside the order, so that what was ordered today can be added up without the caller's types.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Stake {
    /// How many units, over all items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<u64>,
    /// How many different items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// What it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
    /// What is ordered: stock-keeping units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skus: Option<Vec<String>>,
    /// Whom it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer: Option<String>,
    /// Whether it carries text that a person wrote, or a mail: data, whatever it says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub free_text: bool,
}

/// Money, in the smallest unit of its currency: 12.50 EUR is 1250.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// How many of the smallest unit.
    pub minor: u64,
    /// The currency, as ISO 4217 spells it: `EUR`.
    pub currency: String,
}

impl Stake {
    /// Names how many units there are.
    #[must_use]
    pub fn quantity(mut self, units: u64) -> Self {
        self.quantity = Some(units);
        self
    }

    /// Names how many different items there are.
    #[must_use]
    pub fn items(mut self, items: u64) -> Self {
        self.items = Some(items);
        self
    }

    /// Names what it costs, in the smallest unit of the currency.
    #[must_use]
    pub fn amount(mut self, minor: u64, currency: impl Into<String>) -> Self {
        let currency = currency.into();
        self.amount = Some(Amount { minor, currency });
        self
    }

    /// Names what is ordered.
    #[must_use]
    pub fn skus(mut self, skus: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.skus = Some(skus.into_iter().map(Into::into).collect());
        self
    }

    /// Names whom it is for.
    #[must_use]
    pub fn customer(mut self, customer: impl Into<String>) -> Self {
        self.customer = Some(customer.into());
        self
    }

    /// Says whether it carries free text.
    #[must_use]
    pub fn free_text(mut self, carried: bool) -> Self {
        self.free_text = carried;
        self
    }
}

/// Shows how much, never who ordered what.
impl std::fmt::Debug for Stake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stake")
            .field("quantity", &self.quantity)
            .field("items", &self.items)
            .field("amount", &self.amount)
            .finish_non_exhaustive()
    }
}
