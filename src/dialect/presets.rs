//! The vendors' dialects, a function each: what differs from [`Dialect::new`], with what is not known. From the vendors' pages as they could
//! be read in November 2026; vendors change.
//!
//! One reading for all where nothing is published: a 409 whose code says nothing is waited for under the same key, since told as a no it would
//! be "corrected" into a second order; and a refusal that speaks of the key, not of the order, is for a person.

use super::{DAY, Dialect, Duplicates, LookupReads, Reading};
use crate::{answer::Answer, intent::KeyPlace};
use http::StatusCode;
use serde_json::Value;
use std::{borrow::Cow, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The vendors' presets. Each begins with [`Dialect::new`], so whatever it does not name is as that says. Their lookups find what was created; for
/// an order that acts on another one they know no way to ask, and a person looks.
impl Dialect {
    /// Stripe, API v1. Source: <https://docs.stripe.com/api/idempotent_requests>.
    ///
    /// The key stands raw in `Idempotency-Key`; after 24 hours it may be gone, and then it executes again. Code `idempotency_key_in_use`: still
    /// running; type `idempotency_error`: other contents. Whatever was executed is stored and comes back with `Idempotent-Replayed: true`, a
    /// 500 too: a replayed 5xx is not repeated any more. What fails validation is not stored.
    ///
    /// *Not known:* the status of a mismatch, whose a key is, any lookup by key. Not for v2, which runs failed work again and keeps a key for
    /// 30 days.
    pub fn stripe() -> Self {
        Dialect::new("stripe").retention(DAY).reads(stripe)
    }

    /// GoCardless. Source: <https://gocardless.com/blog/idempotency-keys>, and the vendor's client libraries.
    ///
    /// A key that has made something is answered 409 `idempotent_creation_conflict` with `links.conflicting_resource_id`, whatever the
    /// contents: the resource is fetched below the order's own path and compared.
    ///
    /// *Not known:* how long a key is kept (say so by [`retention`](Dialect::retention)), what is said while the first request runs, whether
    /// contents are compared, whose a key is.
    pub fn gocardless() -> Self {
        Dialect::new("gocardless")
            .reads(gocardless)
            .duplicates(Duplicates::Refused)
            .lookup(|asked| Some(asked.created_at()?.segment(asked.named()?)))
            .lookup_reads(LookupReads::Orders)
    }

    /// Increase. Source: <https://increase.com/documentation/idempotency-keys>.
    ///
    /// A repeat gets the object of the first request, with `Idempotent-Replayed: true`; other contents are 409
    /// `idempotency_key_already_used_error`. Found again by the list filter `idempotency_key`.
    ///
    /// *Not known:* whether keys expire (say so by [`retention`](Dialect::retention)), what is said while the first request runs, whether
    /// errors are stored, whose a key is.
    pub fn increase() -> Self {
        Dialect::new("increase")
            .reads(increase)
            .lookup(|asked| Some(asked.created_at()?.query("idempotency_key", asked.key().to_string())))
            .list_at("/data")
            .lookup_reads(LookupReads::Orders)
    }

    /// Checkout.com. Source: <https://www.checkout.com/docs/payments/manage-payments/retry-a-payment>.
    ///
    /// `Cko-Idempotency-Key`, kept for 24 hours. 409, formerly 429, while the first request runs; the vendor asks for 30 seconds of patience.
    /// Only successes are stored: anything else is tried anew.
    ///
    /// *Not known:* what other contents are told, a marker of replays, any lookup by key, whose a key is; and whether a 5xx can follow on work
    /// that was done, which would then be done again: if you know that it can, say so by [`commit_before_5xx`](Dialect::commit_before_5xx).
    pub fn checkout() -> Self {
        Dialect::new("checkout")
            .key(header("Cko-Idempotency-Key"))
            .retention(DAY)
            .reads(checkout)
    }

    /// Square. Source: <https://developer.squareup.com/docs/working-with-apis/idempotency>.
    ///
    /// The key is the body's `idempotency_key`. Other contents are 400 `IDEMPOTENCY_KEY_REUSED`; a repeat is 200 with what exists now.
    ///
    /// *Not known:* how long a key is kept (say so by [`retention`](Dialect::retention)), what is said while the first request runs, whether
    /// errors are stored, any lookup by key (there is a cancellation by key, which is not used), whose a key is.
    pub fn square() -> Self {
        Dialect::new("square")
            .key(body("/idempotency_key"))
            .reads(square)
            .duplicates(Duplicates::CurrentState)
    }

    /// PayPal, Orders v2. Source: <https://developer.paypal.com/reference/guidelines/idempotency>.
    ///
    /// `PayPal-Request-Id`, kept for 6 hours. Other APIs of PayPal's keep it for 3 hours (vault v3), 72 hours (subscriptions, catalog), 30 days
    /// (payments v1, payouts) or 45 (payments v2): say so by [`retention`](Dialect::retention). A repeat is 200, not 201, with the resource as
    /// it is now; a first answer may be 200 as well, so that is no marker. `PREVIOUS_REQUEST_IN_PROGRESS`: still running;
    /// `DUPLICATE_REQUEST_ID`, `PAYPAL_REQUEST_ID_PREVIOUSLY_USED`: other contents.
    ///
    /// *Not known:* the status of a mismatch, whether errors are stored, any lookup by key, whose a key is.
    pub fn paypal() -> Self {
        Dialect::new("paypal")
            .key(header("PayPal-Request-Id"))
            .retention(HOUR.saturating_mul(6))
            .reads(paypal)
            .duplicates(Duplicates::CurrentState)
    }

    /// Adyen. Source: <https://docs.adyen.com/development-resources/api-idempotency>.
    ///
    /// The key stands raw in `Idempotency-Key` and lives for at least 7 days, in the region of its base URL. Code 704, in a 422 or a 409: still
    /// running; so is any refusal with `transient-error: true`. A repeat gets the first answer.
    ///
    /// *Not known:* what other contents are told, what exactly is stored, any lookup by key, whose a key is.
    pub fn adyen() -> Self {
        Dialect::new("adyen").retention(DAY.saturating_mul(7)).reads(adyen)
    }

    /// Alpaca, orders. Source: <https://docs.alpaca.markets> and <https://github.com/alpacahq/alpaca-py/issues/260>.
    ///
    /// The key is the body's `client_order_id`. A duplicate is 422 with code 40010001, without the order: that is fetched by
    /// `GET <path>:by_client_order_id` and compared.
    ///
    /// *Not known:* how long a key is kept (it outlives a cancellation; say so by [`retention`](Dialect::retention)), what is said while the
    /// first request runs, whose a key is. The code may stand for other faults of a request too; then the lookup finds nothing, and a person
    /// looks.
    pub fn alpaca() -> Self {
        Dialect::new("alpaca")
            .key(body("/client_order_id"))
            .reads(alpaca)
            .duplicates(Duplicates::Refused)
            .lookup(|asked| {
                let found = asked.created_at()?.suffix(":by_client_order_id");
                Some(found.query("client_order_id", asked.key().to_string()))
            })
            .lookup_reads(LookupReads::Orders)
    }

    /// Coinbase Advanced Trade, orders. Source: <https://docs.cdp.coinbase.com/coinbase-app/advanced-trade-apis>.
    ///
    /// The key is the body's `client_order_id`. A repeat gets the original order, whatever its own contents: it is compared, as far as
    /// both name a member at the same place (what stands in the answer's `success_response` alone is not). There is no lookup;
    /// the repeat is the query. Reason `DUPLICATE_CLIENT_ORDER_ID` exists too, and is for a person. `"success": false` in a 200 is no success.
    ///
    /// *Not known:* how long a key is kept (say so by [`retention`](Dialect::retention)), what is said while the first request runs, when
    /// which of the two answers comes, whose a key is.
    pub fn coinbase() -> Self {
        Dialect::new("coinbase").key(body("/client_order_id")).reads(coinbase)
    }

    /// Toast, orders. Source: <https://doc.toasttab.com/doc/devguide/apiHandlingRequestTimeouts.html>.
    ///
    /// The key is the body's `externalId`. A duplicate fails; the order is fetched by that id and compared. An order may take the server 30
    /// seconds: let an attempt take longer.
    ///
    /// *Not known:* how long an id is kept (the life of the order; say so by [`retention`](Dialect::retention)), status and code of a duplicate
    /// (a refusal that speaks of a duplicate or of the id is taken for one), what is said while the first request runs, whose a key is.
    pub fn toast() -> Self {
        Dialect::new("toast")
            .key(body("/externalId"))
            .reads(toast)
            .duplicates(Duplicates::Refused)
            .lookup(|asked| Some(asked.created_at()?.query("externalId", asked.key().to_string())))
            .lookup_reads(LookupReads::Orders)
    }

    /// OASIS repeatable requests, as Azure Communication Services speak them. Source:
    /// <https://learn.microsoft.com/en-us/rest/api/communication/repeatable-requests>.
    ///
    /// `Repeatability-Request-ID` and `Repeatability-First-Sent`. What was first sent more than 5 minutes ago is 412 and not run; 409 while the
    /// first request runs; `Repeatability-Result: rejected` says that a request was refused for its repeatability. Answers are stored but for
    /// 5xx, which is run again. Time limits have to be short: a quarter of the 5 minutes has to cover an attempt and 30 s of clock skew.
    ///
    /// *Not known:* the code of a mismatch (a 400 that was `rejected` is taken for one), whether the key is looked at before the contents,
    /// whether a 5xx may follow work that was done, any lookup by key, whose a key is.
    pub fn repeatability() -> Self {
        Dialect::new("repeatability")
            .key(header("Repeatability-Request-ID"))
            .first_sent_header("Repeatability-First-Sent")
            .retention(MINUTE.saturating_mul(5))
            .reads(repeatability)
            .refusals_stored(true)
    }

    /// Worldpay WPG. Source: <https://developer.worldpay.com/docs/wpg/idempotency>.
    ///
    /// The key stands raw in `Idempotency-Key`. An XML error with code 9, in a 200, says that the first request still runs; any other XML error
    /// is neither a success nor a refusal, but for a person. **It fails open:** while its store of keys is down it runs every request,
    /// and a retry then is a second order that no client can prevent. A success that is XML is not read as a receipt: the order stays open as
    /// [`UnexpectedContent`](crate::ErrorKind::UnexpectedContent).
    ///
    /// *Not known:* how long your contract keeps a key (1 to 365 days; say so by [`retention`](Dialect::retention)), what other contents are
    /// told, whether errors are stored, any lookup by key, whose a key is.
    pub fn worldpay() -> Self {
        Dialect::new("worldpay").reads(worldpay)
    }
}

fn header(name: &str) -> KeyPlace {
    KeyPlace::RawHeader(name.to_owned())
}

fn body(pointer: &str) -> KeyPlace {
    KeyPlace::BodyMember(pointer.to_owned())
}

fn stripe(answer: &Answer) -> Reading {
    // The type is the same for both.
    match (answer.code("/error/code"), answer.code("/error/type")) {
        (Some("idempotency_key_in_use"), _) => Reading::InProgress,
        (_, Some("idempotency_error")) => Reading::Mismatch,
        (code, _) => unpublished(answer, code),
    }
}

fn gocardless(answer: &Answer) -> Reading {
    let errors = answer.json().and_then(|body| body.pointer("/error/errors")?.as_array());
    let text = |error: &'_ Value, at: &str| error.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let conflicts = |error: &&Value| text(error, "/reason").is_some_and(|reason| reason == "idempotent_creation_conflict");
    match errors.into_iter().flatten().find(conflicts) {
        Some(error) => Reading::Exists {
            named: text(error, "/links/conflicting_resource_id"),
        },
        None => unpublished(answer, listed(answer, "/error/errors", "reason").next()),
    }
}

fn increase(answer: &Answer) -> Reading {
    match answer.code("/type") {
        Some("idempotency_key_already_used_error") => Reading::Mismatch,
        code => unpublished(answer, code),
    }
}

fn checkout(answer: &Answer) -> Reading {
    match answer.status() {
        // A rate limit is waited for just the same; read so, it proves nothing of the order.
        StatusCode::TOO_MANY_REQUESTS => Reading::InProgress,
        _ => unpublished(answer, answer.code("/error_codes/0")),
    }
}

fn square(answer: &Answer) -> Reading {
    let mut codes = listed(answer, "/errors", "code");
    match codes.any(|code| code == "IDEMPOTENCY_KEY_REUSED") {
        true => Reading::Mismatch,
        false => unpublished(answer, answer.code("/errors/0/code")),
    }
}

fn paypal(answer: &Answer) -> Reading {
    let issues = listed(answer, "/details", "issue").chain(answer.code("/name"));
    for issue in issues {
        match issue {
            "PREVIOUS_REQUEST_IN_PROGRESS" => return Reading::InProgress,
            "DUPLICATE_REQUEST_ID" | "PAYPAL_REQUEST_ID_PREVIOUSLY_USED" => return Reading::Mismatch,
            _ => {}
        }
    }
    unpublished(answer, answer.code("/name"))
}

fn adyen(answer: &Answer) -> Reading {
    let code = word(answer, "/errorCode");
    let transient = answer
        .header("transient-error")
        .is_some_and(|says| says.trim().eq_ignore_ascii_case("true"));
    match code.as_deref() {
        Some("704") => Reading::InProgress,
        _ if transient && answer.status().is_client_error() => Reading::InProgress,
        code => unpublished(answer, code),
    }
}

fn alpaca(answer: &Answer) -> Reading {
    let code = word(answer, "/code");
    match code.as_deref() {
        Some("40010001") => Reading::Exists { named: None },
        code => unpublished(answer, code),
    }
}

fn coinbase(answer: &Answer) -> Reading {
    const REASONS: [&str; 6] = [
        "/failure_reason",
        "/error_response/error",
        "/error_response/new_order_failure_reason",
        "/error_response/preview_failure_reason",
        "/reason",
        "/error",
    ];
    let mut reasons = REASONS.iter().filter_map(|at| answer.code(at));
    if reasons.any(|reason| reason == "DUPLICATE_CLIENT_ORDER_ID") {
        return Reading::Exists { named: None };
    }
    let failed = answer.json().and_then(|body| body.get("success")?.as_bool()) == Some(false);
    match failed && answer.status().is_success() {
        // In a 200, and for reasons that are not all known: neither booked nor told as a no.
        true => Reading::Uncertain,
        false => unpublished(answer, answer.code("/error")),
    }
}

fn toast(answer: &Answer) -> Reading {
    let said = [word(answer, "/code"), word(answer, "/message")];
    let speaks_of_it = said.iter().flatten().any(|said| {
        let said = said.to_ascii_lowercase().replace(['_', '-', ' '], "");
        ["duplicate", "externalid", "already"].iter().any(|word| said.contains(word))
    });
    match is_refusal(answer) && speaks_of_it {
        true => Reading::Exists { named: None },
        false => unpublished(answer, answer.code("/code")),
    }
}

fn repeatability(answer: &Answer) -> Reading {
    let says = |word| {
        let result = answer.header("repeatability-result");
        result.is_some_and(|says| says.trim().eq_ignore_ascii_case(word))
    };
    let (accepted, rejected) = (says("accepted"), says("rejected"));
    match answer.status() {
        // Taken as a repeat, and refused for its `If-Match`.
        StatusCode::PRECONDITION_FAILED if accepted => Reading::ByStatus,
        StatusCode::PRECONDITION_FAILED => Reading::OutOfWindow,
        StatusCode::BAD_REQUEST if rejected => Reading::Mismatch,
        // Repeatability is not for this operation, and it was not run.
        StatusCode::NOT_IMPLEMENTED if rejected => Reading::Refused,
        _ => unpublished(answer, answer.code("/error/code")),
    }
}

fn worldpay(answer: &Answer) -> Reading {
    match xml_error(answer) {
        Some("9") => Reading::InProgress,
        Some(_) if answer.status().is_success() || is_refusal(answer) => Reading::Uncertain,
        code => unpublished(answer, code),
    }
}

/// What is left to the status, by what nobody published: see the head of this file.
fn unpublished(answer: &Answer, code: Option<&str>) -> Reading {
    let of_the_key = code.is_some_and(|code| code.to_ascii_lowercase().contains("idempot"));
    match answer.status() {
        StatusCode::CONFLICT => Reading::InProgress,
        _ if of_the_key && is_refusal(answer) => Reading::Mismatch,
        _ => Reading::ByStatus,
    }
}

/// The statuses by which servers refuse an order, or a key.
fn is_refusal(answer: &Answer) -> bool {
    matches!(
        answer.status(),
        StatusCode::BAD_REQUEST | StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// Text or number at a pointer, as text.
fn word<'a>(answer: &'a Answer, pointer: &str) -> Option<Cow<'a, str>> {
    match answer.json()?.pointer(pointer)? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

/// That member of each object in a list.
fn listed<'a>(answer: &'a Answer, list: &str, member: &'static str) -> impl Iterator<Item = &'a str> + use<'a> {
    let list = answer.json().and_then(|body| body.pointer(list)?.as_array());
    list.into_iter().flatten().filter_map(move |one| one.get(member)?.as_str())
}

/// The code of the first `<error code="…">` of an XML body.
fn xml_error(answer: &Answer) -> Option<&str> {
    let text = std::str::from_utf8(answer.body()).ok()?;
    text.split("<error").skip(1).find_map(|after| {
        let (tag, _) = after.split_once('>')?;
        let (_, code) = tag.strip_prefix(char::is_whitespace)?.split_once("code")?;
        let code = code.trim_start().strip_prefix('=')?.trim_start();
        let quote = code.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        code.split(quote).nth(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Head;
    use bytes::Bytes;
    use http::{HeaderMap, HeaderName, HeaderValue};

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let kind = if body.starts_with('<') { "text/xml" } else { "application/json" };
        let pairs = [&[("content-type", kind)], headers].concat();
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()));
        let head = Head::new(StatusCode::from_u16(status).unwrap(), HeaderMap::from_iter(pairs));
        Answer::new(head, Bytes::copy_from_slice(body.as_bytes()))
    }

    const PLAIN: &[(&str, &str)] = &[];
    const NOTHING_NAMED: Reading = Reading::Exists { named: None };

    /// Status, headers, body, and what they are read as.
    type Row<'a> = (u16, &'a [(&'a str, &'a str)], &'a str, Reading);

    /// What a dialect makes of each answer.
    fn reads<const N: usize>(dialect: &Dialect, table: [Row<'_>; N]) {
        for (status, headers, body, reading) in table {
            let read = dialect.read(&answer(status, headers, body));
            assert_eq!(read, reading, "{} {status} {body}", dialect.name());
        }
    }

    #[test]
    fn stripe_is_read_by_code_then_by_type() {
        let running = r#"{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}"#;
        let other =
            r#"{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters"}}"#;
        let declined = r#"{"error":{"type":"card_error","code":"card_declined"}}"#;
        reads(
            &Dialect::stripe(),
            [
                (409, PLAIN, running, Reading::InProgress),
                (400, PLAIN, other, Reading::Mismatch),
                // Its status is not published.
                (409, PLAIN, other, Reading::Mismatch),
                (422, PLAIN, other, Reading::Mismatch),
                (409, PLAIN, "{}", Reading::InProgress),
                (402, PLAIN, declined, Reading::ByStatus),
                (400, PLAIN, r#"{"error":{"type":"invalid_request_error"}}"#, Reading::ByStatus),
                (429, PLAIN, r#"{"error":{"code":"lock_timeout"}}"#, Reading::ByStatus),
                (
                    500,
                    &[("idempotent-replayed", "true")],
                    r#"{"error":{"type":"api_error"}}"#,
                    Reading::ByStatus,
                ),
                (200, PLAIN, r#"{"id":"pi_1"}"#, Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn gocardless_names_what_exists() {
        let conflict = r#"{"error":{"type":"invalid_state","code":409,"errors":[{"reason":"idempotent_creation_conflict",
            "links":{"conflicting_resource_id":"PM123"}}]}}"#;
        let nameless = r#"{"error":{"errors":[{"reason":"other"},{"reason":"idempotent_creation_conflict"}]}}"#;
        let state = r#"{"error":{"type":"invalid_state","errors":[{"reason":"bank_account_disabled"}]}}"#;
        let named = Some("PM123".to_owned());
        reads(
            &Dialect::gocardless(),
            [
                (409, PLAIN, conflict, Reading::Exists { named }),
                (409, PLAIN, nameless, NOTHING_NAMED),
                (409, PLAIN, state, Reading::InProgress),
                (409, PLAIN, "", Reading::InProgress),
                (422, PLAIN, state, Reading::ByStatus),
                (
                    400,
                    PLAIN,
                    r#"{"error":{"errors":[{"reason":"idempotency_key_too_long"}]}}"#,
                    Reading::Mismatch,
                ),
                (500, PLAIN, "{}", Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn increase_says_mismatch_in_a_409() {
        let other = r#"{"type":"idempotency_key_already_used_error","status":409,"resource_id":"transfer_1"}"#;
        reads(
            &Dialect::increase(),
            [
                (409, PLAIN, other, Reading::Mismatch),
                (409, PLAIN, r#"{"type":"something_else"}"#, Reading::InProgress),
                (400, PLAIN, r#"{"type":"invalid_parameters_error"}"#, Reading::ByStatus),
                (201, &[("idempotent-replayed", "true")], r#"{"id":"transfer_1"}"#, Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn checkout_says_still_running_as_409_and_once_did_as_429() {
        reads(
            &Dialect::checkout(),
            [
                (409, PLAIN, r#"{"error_type":"request_in_progress"}"#, Reading::InProgress),
                (409, PLAIN, "", Reading::InProgress),
                (429, PLAIN, "", Reading::InProgress),
                (422, PLAIN, r#"{"error_codes":["amount_invalid"]}"#, Reading::ByStatus),
                (422, PLAIN, r#"{"error_codes":["idempotency_key_invalid"]}"#, Reading::Mismatch),
                (500, PLAIN, "{}", Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn square_says_mismatch_in_a_400() {
        let other = r#"{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"IDEMPOTENCY_KEY_REUSED"}]}"#;
        let second = r#"{"errors":[{"code":"MISSING_REQUIRED_PARAMETER"},{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#;
        reads(
            &Dialect::square(),
            [
                (400, PLAIN, other, Reading::Mismatch),
                (409, PLAIN, other, Reading::Mismatch),
                (400, PLAIN, second, Reading::Mismatch),
                (
                    400,
                    PLAIN,
                    r#"{"errors":[{"code":"MISSING_REQUIRED_PARAMETER"}]}"#,
                    Reading::ByStatus,
                ),
                (409, PLAIN, r#"{"errors":[{"code":"CONFLICT"}]}"#, Reading::InProgress),
                (200, PLAIN, r#"{"payment":{"id":"p"}}"#, Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn paypal_is_read_by_name_and_by_issue() {
        let issue = |issue: &str| format!(r#"{{"name":"UNPROCESSABLE_ENTITY","details":[{{"issue":"{issue}"}}]}}"#);
        reads(
            &Dialect::paypal(),
            [
                (409, PLAIN, r#"{"name":"PREVIOUS_REQUEST_IN_PROGRESS"}"#, Reading::InProgress),
                (422, PLAIN, &issue("PREVIOUS_REQUEST_IN_PROGRESS"), Reading::InProgress),
                (422, PLAIN, r#"{"name":"DUPLICATE_REQUEST_ID"}"#, Reading::Mismatch),
                (400, PLAIN, &issue("DUPLICATE_REQUEST_ID"), Reading::Mismatch),
                (422, PLAIN, &issue("PAYPAL_REQUEST_ID_PREVIOUSLY_USED"), Reading::Mismatch),
                (422, PLAIN, &issue("INSTRUMENT_DECLINED"), Reading::ByStatus),
                (409, PLAIN, r#"{"name":"RESOURCE_CONFLICT"}"#, Reading::InProgress),
                (200, PLAIN, r#"{"id":"1"}"#, Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn adyen_says_still_running_by_code_704_in_a_422_or_a_409() {
        let running = r#"{"status":422,"errorCode":"704"}"#;
        let transient = &[("transient-error", "true")][..];
        let lasting = &[("transient-error", "false")][..];
        reads(
            &Dialect::adyen(),
            [
                (422, transient, running, Reading::InProgress),
                (409, PLAIN, running, Reading::InProgress),
                (422, lasting, r#"{"errorCode":704}"#, Reading::InProgress),
                (422, transient, r#"{"errorCode":"702"}"#, Reading::InProgress),
                (422, lasting, r#"{"errorCode":"702"}"#, Reading::ByStatus),
                (422, PLAIN, r#"{"errorCode":"idempotency_conflict"}"#, Reading::Mismatch),
                (500, transient, "{}", Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn alpaca_says_by_a_number_that_an_order_exists() {
        reads(
            &Dialect::alpaca(),
            [
                (
                    422,
                    PLAIN,
                    r#"{"code":40010001,"message":"client_order_id must be unique"}"#,
                    NOTHING_NAMED,
                ),
                (422, PLAIN, r#"{"code":"40010001"}"#, NOTHING_NAMED),
                (
                    422,
                    PLAIN,
                    r#"{"code":42210000,"message":"qty must be positive"}"#,
                    Reading::ByStatus,
                ),
                (
                    403,
                    PLAIN,
                    r#"{"code":40310000,"message":"insufficient buying power"}"#,
                    Reading::ByStatus,
                ),
                (409, PLAIN, r#"{"code":40900000}"#, Reading::InProgress),
            ],
        );
    }

    #[test]
    fn coinbases_failures_in_a_200_are_no_successes() {
        let duplicate = r#"{"success":false,"error_response":{"error":"DUPLICATE_CLIENT_ORDER_ID"}}"#;
        reads(
            &Dialect::coinbase(),
            [
                (200, PLAIN, duplicate, NOTHING_NAMED),
                (400, PLAIN, r#"{"error":"DUPLICATE_CLIENT_ORDER_ID"}"#, NOTHING_NAMED),
                (
                    200,
                    PLAIN,
                    r#"{"success":false,"failure_reason":"UNKNOWN_FAILURE_REASON"}"#,
                    Reading::Uncertain,
                ),
                (
                    200,
                    PLAIN,
                    r#"{"success":true,"success_response":{"order_id":"1"}}"#,
                    Reading::ByStatus,
                ),
                (400, PLAIN, r#"{"error":"INVALID_ARGUMENT"}"#, Reading::ByStatus),
                (409, PLAIN, "{}", Reading::InProgress),
            ],
        );
    }

    #[test]
    fn toasts_refusal_that_speaks_of_a_duplicate_means_that_there_is_one() {
        reads(
            &Dialect::toast(),
            [
                (400, PLAIN, r#"{"code":"duplicate_external_id"}"#, NOTHING_NAMED),
                (409, PLAIN, r#"{"message":"An order with this externalId exists"}"#, NOTHING_NAMED),
                (
                    422,
                    PLAIN,
                    r#"{"code":10025,"message":"Order was already submitted"}"#,
                    NOTHING_NAMED,
                ),
                (400, PLAIN, r#"{"message":"External menu is closed"}"#, Reading::ByStatus),
                (
                    400,
                    PLAIN,
                    r#"{"code":10026,"message":"Menu item is out of stock"}"#,
                    Reading::ByStatus,
                ),
                (409, PLAIN, r#"{"code":"x"}"#, Reading::InProgress),
                (500, PLAIN, r#"{"message":"duplicate"}"#, Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn repeatability_says_what_it_refused_for_the_sake_of_repeats() {
        let rejected = &[("repeatability-result", "rejected")][..];
        let accepted = &[("repeatability-result", "accepted")][..];
        reads(
            &Dialect::repeatability(),
            [
                (412, rejected, "", Reading::OutOfWindow),
                (412, PLAIN, "", Reading::OutOfWindow),
                (412, accepted, "", Reading::ByStatus),
                (409, rejected, "", Reading::InProgress),
                (400, rejected, r#"{"error":{"code":"InvalidInput"}}"#, Reading::Mismatch),
                (400, accepted, r#"{"error":{"code":"InvalidInput"}}"#, Reading::ByStatus),
                (501, rejected, "", Reading::Refused),
                (501, PLAIN, "", Reading::ByStatus),
                (500, accepted, "", Reading::ByStatus),
                (201, accepted, "{}", Reading::ByStatus),
            ],
        );
    }

    #[test]
    fn worldpays_errors_in_a_200_are_neither_successes_nor_refusals() {
        let error = |code: &str| format!("<?xml version=\"1.0\"?>\n<reply><error code={code}><![CDATA[x]]></error></reply>");
        reads(
            &Dialect::worldpay(),
            [
                (200, PLAIN, &error("\"9\""), Reading::InProgress),
                (200, PLAIN, &error("'9'"), Reading::InProgress),
                (
                    200,
                    PLAIN,
                    "<reply><errors n=\"1\"><error id='1' code = \"9\"/></errors></reply>",
                    Reading::InProgress,
                ),
                (200, PLAIN, "<reply><errors/></reply>", Reading::ByStatus),
                (200, PLAIN, &error("\"7\""), Reading::Uncertain),
                (400, PLAIN, &error("\"2\""), Reading::Uncertain),
                (503, PLAIN, &error("\"1\""), Reading::ByStatus),
                (401, PLAIN, &error("\"1\""), Reading::ByStatus),
                (200, PLAIN, "<reply><orderStatus/></reply>", Reading::ByStatus),
                (201, PLAIN, r#"{"order_id":"1","note":"<error code=9>"}"#, Reading::ByStatus),
                (400, PLAIN, r#"{"code":"order_invalid"}"#, Reading::ByStatus),
            ],
        );
    }

    /// One row a preset: where its key stands, how long it is kept, what becomes of a duplicate.
    #[test]
    fn each_preset_stands_as_its_vendor_publishes_it() {
        use Duplicates::{CurrentState, Refused, Replayed};
        const KEY: &str = "Idempotency-Key";
        let hours = |hours: u32| Some(HOUR.saturating_mul(hours));
        let table = [
            (Dialect::stripe(), "stripe", header(KEY), hours(24), Replayed),
            (Dialect::gocardless(), "gocardless", header(KEY), None, Refused),
            (Dialect::increase(), "increase", header(KEY), None, Replayed),
            (Dialect::checkout(), "checkout", header("Cko-Idempotency-Key"), hours(24), Replayed),
            (Dialect::square(), "square", body("/idempotency_key"), None, CurrentState),
            (Dialect::paypal(), "paypal", header("PayPal-Request-Id"), hours(6), CurrentState),
            (Dialect::adyen(), "adyen", header(KEY), hours(7 * 24), Replayed),
            (Dialect::alpaca(), "alpaca", body("/client_order_id"), None, Refused),
            (Dialect::coinbase(), "coinbase", body("/client_order_id"), None, Replayed),
            (Dialect::toast(), "toast", body("/externalId"), None, Refused),
            (
                Dialect::repeatability(),
                "repeatability",
                header("Repeatability-Request-ID"),
                Some(MINUTE.saturating_mul(5)),
                Replayed,
            ),
            (Dialect::worldpay(), "worldpay", header(KEY), None, Replayed),
        ];
        for (dialect, name, place, kept, duplicates) in table {
            assert_eq!(dialect.name(), name);
            assert_eq!(dialect.key_place(), &place, "{name}");
            assert_eq!(dialect.kept_for(), kept, "{name}");
            assert_eq!(dialect.duplicates, duplicates, "{name}");
            // Nothing published lets a refusal after a lost attempt, or a lookup in vain, prove anything.
            assert!(!dialect.refusals_speak_for_the_key(), "{name}");
            assert_eq!(dialect.absence_proven_from(crate::clock::Timestamp::from_millis(0)), None, "{name}");
            assert!(dialect.recognises_repeats(), "{name}");
            assert_eq!(dialect.first_sent().is_some(), name == "repeatability");
            assert_eq!(dialect.scope_of_keys(), super::super::KeyScope::Credential, "{name}");
        }
    }
}
