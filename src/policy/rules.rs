//! `RuleSet`: a policy that somebody who writes no Rust can read and change. Judges an order by what its operation says is at stake; its body is
//! never looked at.

mod reading;
mod tree;

use super::{Policy, Proposal};
use crate::{
    actor::folded,
    intent::Draft,
    operation::{Amount, Impact, Stake},
    ruling::{Because, DailyLimit, Otherwise, Ruling},
};
use reading::Flaw;
use std::{
    collections::HashSet,
    fmt, fs, io,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file larger than this is no rule file.
const LARGEST: u64 = 1 << 20;

/// A policy from a file of rules, in TOML or JSON: see `docs/policy.md`.
///
/// Each rule says to whom it applies (`operations`, `agents`; default: everybody), what must hold, and what is ruled where it does not
/// (`otherwise`: `"ask"`, the default, or `"deny"`). Of all rules that apply, the strictest wins: deny before ask before allow. No rule can make
/// milder what another one, or `high_impact`, says.
///
/// | in the file | default | |
/// |---|---|---|
/// | `version` | required | stands in every ruling |
/// | `ordinary` | `"allow"` | where no rule says more |
/// | `high_impact` | `"ask"` | the same, for amendments, cancellations and whatever else is of high impact |
/// | `[[rule]]` | none | in any number; each has an `id` of its own |
///
/// | in a rule | what must hold |
/// |---|---|
/// | `max_quantity`, `max_items` | at most so many units over all items; so many different items |
/// | `max_amount = { minor = 50000, currency = "EUR" }` | at most so much, in the smallest unit, in that currency and no other |
/// | `only_skus`, `only_customers`, `only_agents`, `only_operations` | nothing and nobody else |
/// | `free_text = "none"` | no note, no mail, no reason |
/// | `per_day = { orders = 20, quantity = 100, items = 50, amount = {…} }` | of one agent on one day in UTC, of the operations that the rule applies to: see [`DailyLimit`] |
///
/// A rule may have a `note` for those who read the file. A limit on something that the order's [`Stake`] does not name does not hold. Text in the
/// order, whatever it says, is never read; members such as `approved` or `policy` are the order's business.
///
/// ```
/// use uketsuke::{Actor, Draft, Origin, PlaceOrder, Policy, Proposal, RuleSet, Ruling};
/// let rules = RuleSet::from_toml(r#"
///     version = "2026-11-30"
///     [[rule]]
///     id = "large"
///     operations = ["place_order"]
///     max_quantity = 10
/// "#)?;
/// let order = PlaceOrder::new("C-100").item("SKU-1", 12);
/// let draft = Draft::sketch(&order, Origin::mail("<1@example.com>"), Actor::agent("order-agent"))?;
/// let Ruling::Ask(because) = rules.judge(&Proposal::of(&draft)) else { panic!() };
/// assert_eq!(because.rules, ["large"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RuleSet {
    version: String,
    /// `None`: allowed.
    ordinary: Option<Otherwise>,
    high_impact: Option<Otherwise>,
    rules: Vec<Rule>,
}

/// One rule. Names of agents as they are compared.
#[derive(Clone)]
struct Rule {
    id: String,
    /// Empty: every operation.
    operations: Vec<String>,
    agents: Option<HashSet<String>>,
    only_operations: Option<Vec<String>>,
    only_agents: Option<HashSet<String>>,
    only_skus: Option<HashSet<String>>,
    only_customers: Option<HashSet<String>>,
    max_quantity: Option<u64>,
    max_items: Option<u64>,
    max_amount: Option<Amount>,
    no_free_text: bool,
    per_day: Option<PerDay>,
    otherwise: Otherwise,
}

#[derive(Clone)]
struct PerDay {
    orders: Option<u64>,
    quantity: Option<u64>,
    items: Option<u64>,
    amount: Option<Amount>,
}

impl RuleSet {
    /// Rules in TOML.
    ///
    /// # Errors
    /// [`RuleError`] says where in the text what is wrong, and what is wanted there.
    pub fn from_toml(text: &str) -> Result<Self, RuleError> {
        let read = tree::of_toml(text).and_then(|tree| reading::rule_set(&tree));
        read.map_err(|flaw| RuleError::at(text, flaw))
    }

    /// Rules in JSON: the same names, `rule` being a list.
    ///
    /// # Errors
    /// [`RuleError`] says where in the text what is wrong, and what is wanted there.
    pub fn from_json(text: &str) -> Result<Self, RuleError> {
        let read = tree::of_json(text).and_then(|tree| reading::rule_set(&tree));
        read.map_err(|flaw| RuleError::at(text, flaw))
    }

    /// Rules in a file: `.toml` or `.json`, at most 1 MiB. Blocking. Read once; who changes the file makes a new client.
    ///
    /// # Errors
    /// [`RuleError`] names the file; it can't be read, or holds what is no rule.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RuleError> {
        let path = path.as_ref();
        let read: fn(&str) -> Result<Self, RuleError> = match path.extension().and_then(|kind| kind.to_str()) {
            Some("toml") => RuleSet::from_toml,
            Some("json") => RuleSet::from_json,
            _ => return Err(RuleError::of_file(path, "must be a file whose name ends with .toml or .json", None)),
        };
        let text = text_of(path).map_err(|error| RuleError::of_file(path, format!("must be a text file: {error}"), Some(error)))?;
        let Some(text) = text else {
            return Err(RuleError::of_file(path, "must be at most 1 MiB long", None));
        };
        read(&text).map_err(|error| RuleError {
            file: Some(path.to_owned()),
            ..error
        })
    }

    /// The file's version, as every ruling names it.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn applying<'a>(&'a self, draft: &'a Draft, agent: &'a str) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| rule.applies(draft, agent))
    }

    fn ruling(&self, level: Option<Otherwise>, rules: Vec<String>, reason: String) -> Ruling {
        let because = Because {
            rules,
            policy_version: self.version.clone(),
            reason,
        };
        match level {
            None => Ruling::Allow(because),
            Some(Otherwise::Ask) => Ruling::Ask(because),
            Some(Otherwise::Deny) => Ruling::Deny(because),
        }
    }

    fn where_no_rule_says_more(&self, impact: Impact) -> (Option<Otherwise>, &'static str, &'static str) {
        match impact {
            Impact::Normal => (self.ordinary, "ordinary", "an ordinary order"),
            Impact::High => (self.high_impact, "high_impact", "an order of high impact"),
        }
    }
}

/// `None`: too large.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    let read = fs::File::open(path)?.take(LARGEST.saturating_add(1)).read_to_string(&mut text)?;
    Ok((read as u64 <= LARGEST).then_some(text))
}

impl Policy for RuleSet {
    fn judge(&self, proposal: &Proposal<'_>) -> Ruling {
        let draft = proposal.draft;
        let agent = folded(&draft.actor().agent);
        let broken = self
            .applying(draft, &agent)
            .filter_map(|rule| Some((rule, rule.broken_by(draft, &agent)?)));
        let broken: Vec<(&Rule, String)> = broken.collect();
        let strictest = broken.iter().map(|(rule, _)| rule.otherwise).max();
        let (level, name, kind) = self.where_no_rule_says_more(draft.impact());
        if strictest.is_none() || level > strictest {
            let may = match level {
                None => "may be sent",
                Some(Otherwise::Ask) => "waits for a person",
                Some(Otherwise::Deny) => "may not be sent",
            };
            return self.ruling(level, vec![name.to_owned()], format!("{kind} {may}"));
        }
        let decided = broken.into_iter().filter(|(rule, _)| Some(rule.otherwise) == strictest);
        let (rules, reasons): (Vec<String>, Vec<String>) = decided.map(|(rule, why)| (rule.id.clone(), why)).unzip();
        self.ruling(strictest, rules, reasons.join("; "))
    }

    fn daily(&self, proposal: &Proposal<'_>) -> Vec<DailyLimit> {
        if !self.has_daily_limits() {
            return Vec::new();
        }
        let agent = folded(&proposal.draft.actor().agent);
        let limits = self.applying(proposal.draft, &agent).filter_map(|rule| {
            let per_day = rule.per_day.as_ref()?;
            let because = Because::rule(
                &self.version,
                &rule.id,
                format!("rule `{}` limits what one agent orders in a day", rule.id),
            );
            Some(DailyLimit {
                operations: rule.operations.clone(),
                orders: per_day.orders,
                quantity: per_day.quantity,
                items: per_day.items,
                amount: per_day.amount.clone(),
                ..DailyLimit::new(because, rule.otherwise)
            })
        });
        limits.collect()
    }

    fn has_daily_limits(&self) -> bool {
        self.rules.iter().any(|rule| rule.per_day.is_some())
    }
}

impl Rule {
    fn limits_something(&self) -> bool {
        let lists = [&self.only_agents, &self.only_skus, &self.only_customers];
        lists.iter().any(|list| list.is_some())
            || self.only_operations.is_some()
            || self.max_quantity.is_some()
            || self.max_items.is_some()
            || self.max_amount.is_some()
            || self.no_free_text
            || self.per_day.is_some()
    }

    fn applies(&self, draft: &Draft, agent: &str) -> bool {
        let operation = self.operations.is_empty() || self.operations.iter().any(|name| name == draft.operation());
        operation && self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }

    /// What the order has that this rule does not allow; the first of it.
    fn broken_by(&self, draft: &Draft, agent: &str) -> Option<String> {
        self.broken_by_who(draft, agent)
            .or_else(|| self.broken_by_what(draft.stake()))
            .or_else(|| self.broken_by_how_much(draft.stake()))
            .or_else(|| self.broken_by_one_alone(self.per_day.as_ref()?, draft.stake()))
    }

    fn broken_by_who(&self, draft: &Draft, agent: &str) -> Option<String> {
        if self
            .only_operations
            .as_ref()
            .is_some_and(|only| only.iter().all(|name| name != draft.operation()))
        {
            return Some(format!("rule `{}` does not list this operation", self.id));
        }
        let stranger = self.only_agents.as_ref().is_some_and(|only| !only.contains(agent));
        stranger.then(|| format!("rule `{}` does not list this agent", self.id))
    }

    fn broken_by_what(&self, stake: &Stake) -> Option<String> {
        if self.no_free_text && stake.free_text {
            return Some(format!("rule `{}` allows no free text, and this order carries some", self.id));
        }
        if let Some(only) = &self.only_skus {
            let skus = stake.skus.as_deref().unwrap_or_default();
            if skus.is_empty() {
                return Some(self.unnamed("what is ordered"));
            }
            if skus.iter().any(|sku| !only.contains(sku)) {
                return Some(format!("rule `{}` does not list all that is ordered", self.id));
            }
        }
        let only = self.only_customers.as_ref()?;
        match &stake.customer {
            None => Some(self.unnamed("the customer")),
            Some(customer) if only.contains(customer) => None,
            Some(_) => Some(format!("rule `{}` does not list this customer", self.id)),
        }
    }

    fn broken_by_how_much(&self, stake: &Stake) -> Option<String> {
        self.at_most("units", self.max_quantity, stake.quantity)
            .or_else(|| self.at_most("items", self.max_items, stake.items))
            .or_else(|| self.at_most_money(self.max_amount.as_ref()?, stake))
    }

    /// What no day allows needs no day to be known.
    fn broken_by_one_alone(&self, per_day: &PerDay, stake: &Stake) -> Option<String> {
        self.at_most("orders in a day", per_day.orders, Some(1))
            .or_else(|| self.at_most("units in a day", per_day.quantity, stake.quantity))
            .or_else(|| self.at_most("items in a day", per_day.items, stake.items))
            .or_else(|| self.at_most_money(per_day.amount.as_ref()?, stake))
    }

    fn at_most(&self, what: &str, most: Option<u64>, named: Option<u64>) -> Option<String> {
        match (most?, named) {
            (_, None) => Some(self.unnamed(&format!("how many {what}"))),
            (most, Some(named)) if named > most => {
                let id = &self.id;
                Some(format!("rule `{id}` allows at most {most} {what}, and this order has {named}"))
            }
            _ => None,
        }
    }

    fn at_most_money(&self, most: &Amount, stake: &Stake) -> Option<String> {
        let (id, Amount { minor, currency }) = (&self.id, most);
        match &stake.amount {
            None => Some(self.unnamed("what it costs")),
            Some(named) if named.currency != *currency => {
                Some(format!("rule `{id}` limits {currency}, and this order is in another currency"))
            }
            Some(named) if named.minor > *minor => Some(format!(
                "rule `{id}` allows at most {minor} of the smallest unit of {currency}, and this order costs {}",
                named.minor
            )),
            Some(_) => None,
        }
    }

    fn unnamed(&self, what: &str) -> String {
        format!("rule `{}` limits {what}, which this order does not name", self.id)
    }
}

/// Shows which version it is, and its rules by name.
impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = self.rules.iter().map(|rule| rule.id.as_str()).collect();
        f.debug_struct("RuleSet")
            .field("version", &self.version)
            .field("rules", &ids)
            .finish()
    }
}

/// What is wrong with a rule file, where, and what is wanted there. Nothing of it applies.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct RuleError {
    file: Option<PathBuf>,
    place: Option<(usize, usize)>,
    field: String,
    wanted: String,
    #[source]
    source: Option<Arc<io::Error>>,
}

impl RuleError {
    fn at(text: &str, flaw: Flaw) -> Self {
        let before = text.get(..flaw.at).unwrap_or(text);
        let line_begins = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let line = before.matches('\n').count().saturating_add(1);
        let column = before.get(line_begins..).unwrap_or_default().chars().count().saturating_add(1);
        RuleError {
            file: None,
            place: Some((line, column)),
            field: flaw.field,
            wanted: flaw.wanted,
            source: None,
        }
    }

    fn of_file(path: &Path, wanted: impl Into<String>, source: Option<io::Error>) -> Self {
        RuleError {
            file: Some(path.to_owned()),
            place: None,
            field: String::new(),
            wanted: wanted.into(),
            source: source.map(Arc::new),
        }
    }

    /// The file, where it came from one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The line, from 1; `None` where the file itself is what is wrong.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }

    /// The character in the line, from 1.
    pub fn column(&self) -> Option<usize> {
        self.place.map(|(_, column)| column)
    }

    /// The field, from the file's top, rules counted from 0: `rule[2].max_quantity`. Empty where the text is wrong before it has fields.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wanted there, as an instruction: "must be text".
    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    fn sentence(&self) -> String {
        let file = self.file.as_ref().map_or("rules".to_owned(), |file| file.display().to_string());
        let place = self
            .place
            .map(|(line, column)| format!(", line {line}, column {column}"))
            .unwrap_or_default();
        let field = if self.field.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.field)
        };
        format!("{file}{place}: {field}{}", self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        actor::Actor,
        operation::{OrderRef, Route},
        order::{CancelOrder, JsonOrder, PlaceOrder},
        origin::Origin,
    };

    fn rules(text: &str) -> RuleSet {
        RuleSet::from_toml(&format!("version = \"v\"\n{text}")).unwrap()
    }

    fn sketch(op: &impl crate::operation::Operation) -> Draft {
        Draft::sketch(op, Origin::mail("1"), Actor::agent("order-agent")).unwrap()
    }

    fn judge(rules: &RuleSet, op: &impl crate::operation::Operation) -> (&'static str, Vec<String>, String) {
        let ruling = rules.judge(&Proposal::of(&sketch(op)));
        let word = match &ruling {
            Ruling::Allow(_) => "allow",
            Ruling::Ask(_) => "ask",
            Ruling::Deny(_) => "deny",
        };
        assert_eq!(ruling.because().policy_version, "v");
        (word, ruling.because().rules.clone(), ruling.because().reason.clone())
    }

    fn order() -> PlaceOrder {
        PlaceOrder::new("C-100").item("SKU-1", 8).item("SKU-2", 4)
    }

    fn costing(minor: u64, currency: &str) -> JsonOrder {
        let stake = Stake::default().amount(minor, currency);
        JsonOrder::new(Route::post("orders"), serde_json::json!({})).stake(stake)
    }

    #[test]
    fn each_limit_holds_up_to_its_number_and_no_further() {
        for (limit, word) in [
            ("max_quantity = 12", "allow"),
            ("max_quantity = 11", "ask"),
            ("max_items = 2", "allow"),
            ("max_items = 1", "ask"),
            ("only_skus = [\"SKU-2\", \"SKU-1\", \"SKU-3\"]", "allow"),
            ("only_skus = [\"SKU-1\"]", "ask"),
            ("only_customers = [\"C-100\"]", "allow"),
            ("only_customers = [\"C-10\"]", "ask"),
            ("only_agents = [\"Order - AGENT\"]", "allow"),
            ("only_agents = [\"other\"]", "ask"),
            ("only_operations = [\"place_order\"]", "allow"),
            ("only_operations = [\"place\"]", "ask"),
            ("free_text = \"none\"", "allow"),
            ("per_day = { quantity = 12 }", "allow"),
            ("per_day = { quantity = 11 }", "ask"),
            ("per_day = { orders = 0 }", "ask"),
            ("agents = [\"other\"]\nmax_quantity = 0", "allow"),
            ("agents = [\"ORDER-AGENT\"]\nmax_quantity = 0", "ask"),
            ("operations = [\"cancel_order\"]\nmax_quantity = 0", "allow"),
        ] {
            let told = judge(&rules(&format!("[[rule]]\nid = \"r\"\n{limit}")), &order());
            assert_eq!(told.0, word, "{limit}: {told:?}");
        }
        let no_text = rules("[[rule]]\nid = \"r\"\nfree_text = \"none\"\notherwise = \"deny\"");
        assert_eq!(judge(&no_text, &order().note("please")).0, "deny");
    }

    #[test]
    fn money_is_compared_in_its_own_currency_only() {
        let rules = rules("[[rule]]\nid = \"r\"\nmax_amount = { minor = 500, currency = \"EUR\" }");
        assert_eq!(judge(&rules, &costing(500, "EUR")).0, "allow");
        for order in [costing(501, "EUR"), costing(1, "USD"), costing(1, "eur")] {
            assert_eq!(judge(&rules, &order).0, "ask");
        }
    }

    #[test]
    fn what_is_not_named_holds_no_limit_and_the_reason_says_so() {
        let nothing = JsonOrder::new(Route::post("orders"), serde_json::json!({"quantity": 1, "approved": true}));
        for limit in [
            "max_quantity = 9",
            "max_items = 9",
            "max_amount = { minor = 9, currency = \"EUR\" }",
            "only_skus = [\"A\"]",
            "only_customers = [\"A\"]",
            "per_day = { amount = { minor = 9, currency = \"EUR\" } }",
        ] {
            let (word, _, reason) = judge(&rules(&format!("[[rule]]\nid = \"r\"\n{limit}")), &nothing);
            assert_eq!(word, "ask", "{limit}");
            assert!(reason.contains("does not name"), "{reason}");
        }
    }

    #[test]
    fn every_rule_at_the_strictest_level_is_named_in_the_files_order() {
        let rules = rules(concat!(
            "[[rule]]\nid = \"b\"\nmax_quantity = 1\notherwise = \"deny\"\n",
            "[[rule]]\nid = \"mild\"\nmax_quantity = 2\n",
            "[[rule]]\nid = \"held\"\nmax_quantity = 99\notherwise = \"deny\"\n",
            "[[rule]]\nid = \"a\"\nmax_items = 1\notherwise = \"deny\"\n",
        ));
        let (word, named, reason) = judge(&rules, &order());
        assert_eq!((word, named), ("deny", vec!["b".to_owned(), "a".to_owned()]));
        assert_eq!(
            reason,
            "rule `b` allows at most 1 units, and this order has 12; rule `a` allows at most 1 items, and this order has 2"
        );
    }

    #[test]
    fn where_no_rule_says_more_the_impact_decides() {
        let cancel = CancelOrder::new(OrderRef::id("ord-1"), "why");
        assert_eq!(judge(&rules(""), &order()).1, ["ordinary"]);
        assert_eq!(
            (judge(&rules(""), &cancel).0, judge(&rules(""), &cancel).1),
            ("ask", vec!["high_impact".to_owned()])
        );
        let strict = rules("ordinary = \"deny\"\nhigh_impact = \"allow\"\n[[rule]]\nid = \"r\"\nmax_quantity = 1");
        assert_eq!(judge(&strict, &order()).1, ["ordinary"], "a milder rule names nothing");
        // A cancellation names no quantity.
        assert_eq!(judge(&strict, &cancel).1, ["r"]);
    }

    #[test]
    fn both_spellings_of_a_file_are_one_rule_set() {
        let toml = rules("[[rule]]\nid = \"r\"\nmax_quantity = 11\nnote = \"why\"\n");
        let json = RuleSet::from_json(r#"{"version":"v","rule":[{"id":"r","max_quantity":11,"note":"why"}]}"#).unwrap();
        assert_eq!(judge(&toml, &order()), judge(&json, &order()));
        assert_eq!((format!("{toml:?}"), toml.version()), (format!("{json:?}"), "v"));
    }

    #[test]
    fn days_are_told_with_the_operations_they_count() {
        let rules = rules("[[rule]]\nid = \"d\"\noperations = [\"place_order\"]\nper_day = { orders = 2 }\notherwise = \"deny\"");
        let [limit] = &rules.daily(&Proposal::of(&sketch(&order())))[..] else {
            panic!()
        };
        assert_eq!((limit.orders, limit.otherwise, limit.quantity), (Some(2), Otherwise::Deny, None));
        assert_eq!(limit.operations, ["place_order"]);
        assert!(rules.has_daily_limits() && rules.daily(&Proposal::of(&sketch(&costing(1, "EUR")))).is_empty());
    }

    #[test]
    fn no_text_whatever_makes_it_panic() {
        let seeds = [
            "version = \"v\"\n[[rule]]\nid = \"r\"\nper_day = { orders = 2, amount = { minor = 1, currency = \"EUR\" } }",
            r#"{"version":"v","rule":[{"id":"r\u00e9","max_quantity":11,"only_skus":["é","\ud83d\ude00"]}]}"#,
        ];
        for seed in seeds {
            for at in (0..seed.len()).filter(|at| seed.is_char_boundary(*at)) {
                let (head, tail) = seed.split_at(at);
                for text in [
                    head.to_owned(),
                    format!("{head}\"{tail}"),
                    format!("{head}[{tail}"),
                    format!("{head}\\ud800{tail}"),
                ] {
                    for read in [RuleSet::from_toml, RuleSet::from_json] {
                        if let Err(error) = read(&text) {
                            assert!(error.line().is_some_and(|line| line <= 5), "{error}");
                        }
                    }
                }
            }
        }
        let deep = "[".repeat(100_000);
        assert!(RuleSet::from_json(&deep).is_err() && RuleSet::from_toml(&format!("a = {deep}")).is_err());
        let closed = format!("{{\"version\":{}{}}}", deep, "]".repeat(100_000));
        assert!(RuleSet::from_json(&closed).is_err());
    }
}
