//! The shape in which each server says no: the desk's problem, told again in its words.

use serde_json::{Value, json};

use super::ServerDialect;
use crate::testkit::reply::Reply;

/// A problem of the desk's in a server's shape; status and extra header lines stay. `order` is the one it is about.
pub(super) fn dress(dialect: ServerDialect, problem: &Reply, order: Option<&str>) -> Reply {
    let said: Value = serde_json::from_slice(problem.bytes()).unwrap_or_default();
    let text = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, message, status) = (text("code"), text("detail"), problem.code());
    let body = match dialect {
        ServerDialect::Ietf => return problem.clone(),
        ServerDialect::Stripe => stripe(code, message, status),
        ServerDialect::GoCardless => gocardless(code, message, status, order),
        ServerDialect::Increase => json!({
            "type": code, "title": code.replace('_', " "), "status": status, "detail": message, "resource_id": order,
        }),
        ServerDialect::Checkout => json!({"error_type": code, "error_codes": [code], "message": message}),
        ServerDialect::Square => {
            let category = if status >= 500 { "API_ERROR" } else { "INVALID_REQUEST_ERROR" };
            json!({"errors": [{"category": category, "code": code, "detail": message}]})
        }
        ServerDialect::PayPal => json!({"name": code, "message": message, "details": []}),
        ServerDialect::Adyen => json!({"status": status, "errorCode": code, "message": message}),
        ServerDialect::Alpaca => {
            // Its codes are numbers; where none is published, the status and noughts.
            let number = code.parse().unwrap_or(u64::from(status) * 100_000);
            json!({"code": number, "message": if number == 40_010_001 { "client_order_id must be unique" } else { message }})
        }
        ServerDialect::Coinbase => json!({"error": code, "message": message}),
        ServerDialect::Toast => json!({"status": status, "code": code, "message": message}),
        ServerDialect::Repeatability => json!({"error": {"code": code, "message": message}}),
        ServerDialect::Worldpay => return problem.clone().body("text/xml", worldpay(code, message)),
    };
    problem.clone().body("application/json", body.to_string())
}

fn stripe(code: &str, message: &str, status: u16) -> Value {
    let kind = match status {
        _ if code == "idempotency_error" || code == "idempotency_key_in_use" => "idempotency_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    // Of a mismatch only the type is known.
    let code = (code != kind).then_some(code);
    json!({"error": {"type": kind, "code": code, "message": message}})
}

fn gocardless(reason: &str, message: &str, status: u16, order: Option<&str>) -> Value {
    let kind = if reason == "idempotent_creation_conflict" {
        "invalid_state"
    } else {
        "invalid_api_usage"
    };
    let mut error = json!({"reason": reason, "message": message});
    if let (Some(order), Some(members)) = (order, error.as_object_mut()) {
        members.insert("links".to_owned(), json!({"conflicting_resource_id": order}));
    }
    json!({"error": {"type": kind, "code": status, "message": message, "errors": [error]}})
}

/// Codes and messages are the desk's own words, without a sign that XML would mind.
fn worldpay(code: &str, message: &str) -> String {
    let message = message.replace("]]>", "");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<paymentService version=\"1.4\"><reply><error code=\"{code}\"><![CDATA[{message}]]></error>\
         </reply></paymentService>"
    )
}
