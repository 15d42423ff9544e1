//! From a file's tree to a rule set: what is no rule is refused, with the place where it stands and what is wanted there.

use super::{
    PerDay, Rule, RuleSet,
    tree::{Member, Node, Value, dotted},
};
use crate::{
    actor::{folded, is_name, is_same_name},
    operation::Amount,
    ruling::Otherwise,
};

/// What is wrong with a file, at which byte of it.
pub(super) struct Flaw {
    pub(super) at: usize,
    pub(super) field: String,
    pub(super) wanted: String,
}

impl Flaw {
    pub(super) fn new(at: usize, field: impl Into<String>, wanted: impl Into<String>) -> Self {
        let (field, wanted) = (field.into(), wanted.into());
        Flaw { at, field, wanted }
    }
}

const FILE: [&str; 4] = ["version", "ordinary", "high_impact", "rule"];
const RULE: [&str; 14] = [
    "id",
    "operations",
    "agents",
    "only_operations",
    "only_agents",
    "only_skus",
    "only_customers",
    "max_quantity",
    "max_items",
    "max_amount",
    "free_text",
    "per_day",
    "otherwise",
    "note",
];
const PER_DAY: [&str; 4] = ["orders", "quantity", "items", "amount"];
/// Rules that the crate itself names in rulings: a rule of that name would pass for one of them.
const TAKEN: [&str; 6] = [
    "ordinary",
    "high_impact",
    "policy_failed",
    "after_a_persons_no",
    "expired",
    "approval_expired",
];

/// The rule set that a file's tree stands for.
pub(super) fn rule_set(root: &Node) -> Result<RuleSet, Flaw> {
    let file = Table::of(root, String::new(), &FILE)?;
    let version = file.needs("version")?.name()?;
    let mut rules: Vec<Rule> = Vec::new();
    let listed = file.get("rule").map(|listed| listed.list()).transpose()?;
    for field in listed.unwrap_or_default() {
        let table = Table::of(field.node, field.path, &RULE)?;
        let id = table.needs("id")?;
        let rule = rule(&table, id.name()?)?;
        if TAKEN.iter().any(|taken| is_same_name(taken, &rule.id)) {
            return Err(id.wants("must be another name: this one is the crate's own"));
        }
        if rules.iter().any(|known| is_same_name(&known.id, &rule.id)) {
            return Err(id.wants("must be a name that no other rule has"));
        }
        rules.push(rule);
    }
    Ok(RuleSet {
        version,
        ordinary: file.get("ordinary").map_or(Ok(None), |field| field.ruling())?,
        high_impact: file.get("high_impact").map_or(Ok(Some(Otherwise::Ask)), |field| field.ruling())?,
        rules,
    })
}

fn rule(table: &Table<'_>, id: String) -> Result<Rule, Flaw> {
    let rule = Rule {
        id,
        operations: table.names("operations")?.unwrap_or_default(),
        agents: table
            .names("agents")?
            .map(|agents| agents.iter().map(|agent| folded(agent)).collect()),
        only_operations: table.names("only_operations")?,
        only_agents: table
            .names("only_agents")?
            .map(|agents| agents.iter().map(|agent| folded(agent)).collect()),
        only_skus: table.names("only_skus")?.map(|skus| skus.into_iter().collect()),
        only_customers: table.names("only_customers")?.map(|customers| customers.into_iter().collect()),
        max_quantity: table.number("max_quantity")?,
        max_items: table.number("max_items")?,
        max_amount: table.get("max_amount").map(|field| field.amount()).transpose()?,
        no_free_text: table.get("free_text").map(|field| field.word(&["none"])).transpose()?.is_some(),
        per_day: table.get("per_day").map(|field| per_day(&field)).transpose()?,
        otherwise: match table.get("otherwise").map(|field| field.word(&["ask", "deny"])).transpose()? {
            Some("deny") => Otherwise::Deny,
            _ => Otherwise::Ask,
        },
    };
    table.get("note").map(|note| note.text()).transpose()?;
    match rule.limits_something() {
        true => Ok(rule),
        false => Err(Flaw::new(
            table.at,
            table.path.as_str(),
            "must limit something: a max_…, an only_…, free_text or per_day",
        )),
    }
}

fn per_day(field: &Field<'_>) -> Result<PerDay, Flaw> {
    let table = Table::of(field.node, field.path.clone(), &PER_DAY)?;
    let per_day = PerDay {
        orders: table.number("orders")?,
        quantity: table.number("quantity")?,
        items: table.number("items")?,
        amount: table.get("amount").map(|field| field.amount()).transpose()?,
    };
    match table.members.is_empty() {
        false => Ok(per_day),
        true => Err(field.wants("must limit something: orders, quantity, items or amount")),
    }
}

/// A table of which every member has a name that is known.
struct Table<'a> {
    path: String,
    at: usize,
    members: &'a [Member],
}

impl<'a> Table<'a> {
    fn of(node: &'a Node, path: String, known: &[&str]) -> Result<Self, Flaw> {
        let at = node.at;
        let Value::Table(members) = &node.value else {
            return Err(Flaw::new(at, path, format!("must be a table of {}", known.join(", "))));
        };
        match members.iter().find(|member| !known.contains(&member.name.as_str())) {
            None => Ok(Table { path, at, members }),
            Some(unknown) => Err(Flaw::new(
                unknown.at,
                dotted(&path, &unknown.name),
                format!("must be one of {}", known.join(", ")),
            )),
        }
    }

    fn get(&self, name: &str) -> Option<Field<'a>> {
        let member = self.members.iter().find(|member| member.name == name)?;
        let path = dotted(&self.path, name);
        Some(Field { path, node: &member.value })
    }

    fn needs(&self, name: &str) -> Result<Field<'a>, Flaw> {
        let missing = || Flaw::new(self.at, dotted(&self.path, name), "must be there");
        self.get(name).ok_or_else(missing)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Flaw> {
        self.get(name).map(|field| field.number()).transpose()
    }

    fn names(&self, name: &str) -> Result<Option<Vec<String>>, Flaw> {
        let Some(field) = self.get(name) else { return Ok(None) };
        let names: Vec<String> = field.list()?.iter().map(Field::name).collect::<Result<_, _>>()?;
        match names.is_empty() {
            false => Ok(Some(names)),
            true => Err(field.wants("must name at least one: leave it out where it is not meant")),
        }
    }
}

/// A value, and what leads to it.
struct Field<'a> {
    path: String,
    node: &'a Node,
}

impl<'a> Field<'a> {
    fn wants(&self, wanted: impl Into<String>) -> Flaw {
        Flaw::new(self.node.at, self.path.as_str(), wanted)
    }

    fn text(&self) -> Result<&'a str, Flaw> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wants("must be text")),
        }
    }

    fn name(&self) -> Result<String, Flaw> {
        match self.text()? {
            text if is_name(text) => Ok(text.to_owned()),
            _ => Err(self.wants("must be text that can be read, on one line and without control characters")),
        }
    }

    fn number(&self) -> Result<u64, Flaw> {
        match self.node.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.wants(format!("must be a whole number from 0 to {}", u64::MAX))),
        }
    }

    fn list(&self) -> Result<Vec<Field<'a>>, Flaw> {
        let Value::List(nodes) = &self.node.value else {
            return Err(self.wants("must be a list"));
        };
        let path = |n: usize| format!("{}[{n}]", self.path);
        Ok(nodes.iter().enumerate().map(|(n, node)| Field { path: path(n), node }).collect())
    }

    fn word(&self, known: &[&'static str]) -> Result<&'static str, Flaw> {
        let quoted = || known.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
        let found = self.text().ok().and_then(|text| known.iter().find(|word| **word == text));
        found.copied().ok_or_else(|| self.wants(format!("must be {}", quoted())))
    }

    /// `None`: it may be sent.
    fn ruling(&self) -> Result<Option<Otherwise>, Flaw> {
        Ok(match self.word(&["allow", "ask", "deny"])? {
            "allow" => None,
            "ask" => Some(Otherwise::Ask),
            _ => Some(Otherwise::Deny),
        })
    }

    fn amount(&self) -> Result<Amount, Flaw> {
        let table = Table::of(self.node, self.path.clone(), &["minor", "currency"])?;
        let currency = table.needs("currency")?;
        let text = currency.text()?;
        if text.len() != 3 || !text.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err(currency.wants("must be a currency by its three capital letters, such as EUR"));
        }
        Ok(Amount {
            minor: table.needs("minor")?.number()?,
            currency: text.to_owned(),
        })
    }
}
