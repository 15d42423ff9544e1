//! How the desk reads the `Idempotency-Key` header: raw or as a quoted string, but one line and one key.

/// The header that carries the key.
pub(crate) const KEY_HEADER: &str = "idempotency-key";

/// Longer keys are refused. Stripe's limit, and generous for a UUID of 36.
const KEY_LENGTH_MAX: usize = 255;

/// What stands in the place of a key that the desk cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadKey {
    /// There is no such header.
    Missing,
    /// There is one, and it is not one key.
    Invalid(&'static str),
}

/// The key in the lines of [`KEY_HEADER`], without the quotes if it had any. Case matters.
pub(crate) fn key_in(lines: &[&str]) -> Result<String, BadKey> {
    match lines {
        [] => Err(BadKey::Missing),
        [line] => read(line).map_err(BadKey::Invalid),
        _ => Err(BadKey::Invalid("the request has more than one Idempotency-Key line")),
    }
}

/// The key in these lines as it stands there, without any quotes, at most `max` bytes long.
pub(crate) fn bare_key(lines: &[&str], max: usize) -> Result<String, BadKey> {
    let [line] = lines else {
        return Err(if lines.is_empty() {
            BadKey::Missing
        } else {
            BadKey::Invalid("the request has more than one key")
        });
    };
    let key = line.trim_matches([' ', '\t']);
    match key.len() {
        0 => Err(BadKey::Invalid("the key is empty")),
        length if length > max => Err(BadKey::Invalid("the key is too long")),
        _ if !key.bytes().all(is_key_byte) => Err(BadKey::Invalid("the key holds a sign that this server refuses")),
        _ => Ok(key.to_owned()),
    }
}

fn read(line: &str) -> Result<String, &'static str> {
    let line = line.trim_matches([' ', '\t']);
    let key = match line.strip_prefix('"') {
        Some(rest) => unquote(rest)?,
        None => line.to_owned(),
    };
    if key.is_empty() {
        return Err("the key is empty");
    }
    if key.len() > KEY_LENGTH_MAX {
        return Err("the key is longer than 255 bytes");
    }
    if !key.bytes().all(is_key_byte) {
        return Err("the key holds something else than visible ASCII, or is a list");
    }
    Ok(key)
}

/// The inside of an RFC 8941 string whose opening quote has been read.
fn unquote(rest: &str) -> Result<String, &'static str> {
    let mut key = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next() {
            Some('"') => break,
            Some('\\') => match letters.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => return Err("the quoted key has a backslash before something that needs none"),
            },
            Some(letter) => key.push(letter),
            None => return Err("the quoted key is not closed"),
        }
    }
    if letters.next().is_some() {
        return Err("something follows the quoted key");
    }
    Ok(key)
}

/// Whether some request could have had this key, whatever its server's limits: what a path or a query says may be anything.
pub(crate) fn could_be_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(is_key_byte)
}

/// Visible ASCII without the signs that would make one line a list or a string of it.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b',' | b';' | b'"' | b'\\')
}
