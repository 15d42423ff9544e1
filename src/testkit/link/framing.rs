//! Just enough HTTP/1.1 to know where a reply's body begins and where a message ends. It does no I/O and refuses nothing: what it cannot
//! read is a message without an end.

use std::mem;

/// A head longer than this is not read as one. Servers stop at 8 to 64 KiB; memory should stop somewhere too.
const HEAD_MAX: usize = 64 * 1024;

/// A chunk's size line or a trailer longer than this is not one.
const LINE_MAX: usize = 4 * 1024;

/// One message on its way, read as it comes.
#[derive(Debug)]
pub(super) struct Message {
    kind: Kind,
    part: Part,
}

/// Where in a message the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the head, an interim reply (100 Continue) before it included; also in what is no HTTP at all.
    Head,
    /// In the body, chunk sizes and trailers included.
    Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request { is_head: bool },
    Reply { to_head: bool },
}

#[derive(Debug)]
enum Part {
    Head(Head),
    /// A body that has this many bytes still to come.
    Counted(u64),
    Chunks(Chunks),
    /// A body that ends when its sender hangs up.
    UntilClose,
    /// Not HTTP/1.1.
    Foreign,
    Done,
}

#[derive(Debug, Default)]
struct Head {
    size: usize,
    line: Vec<u8>,
    status: Option<u16>,
    started: bool,
    length: Option<u64>,
    coding: Option<Coding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Chunked,
    Other,
}

#[derive(Debug)]
enum Chunks {
    Size(Vec<u8>),
    /// This many bytes of the chunk, and of the line end behind it, are still to come.
    Data(u64),
    Trailers(Vec<u8>),
}

impl Message {
    pub(super) fn request() -> Self {
        Self {
            kind: Kind::Request { is_head: false },
            part: Part::Head(Head::default()),
        }
    }

    /// A reply; one to a HEAD request has no body, whatever its head says.
    pub(super) fn reply(to_head: bool) -> Self {
        Self {
            kind: Kind::Reply { to_head },
            part: Part::Head(Head::default()),
        }
    }

    pub(super) fn place(&self) -> Place {
        match self.part {
            Part::Head(_) | Part::Foreign => Place::Head,
            Part::Counted(_) | Part::Chunks(_) | Part::UntilClose | Part::Done => Place::Body,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.part, Part::Done)
    }

    /// Whether it is a HEAD request, as far as it has been read.
    pub(super) fn is_head(&self) -> bool {
        self.kind == Kind::Request { is_head: true }
    }

    /// Reads on and says how many of the bytes are of this message and of the same [`Place`] as the first of them.
    pub(super) fn read(&mut self, bytes: &[u8]) -> usize {
        let place = self.place();
        let mut used = 0;
        while !self.is_done() && self.place() == place {
            let rest = bytes.get(used..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            used += self.step(rest);
        }
        used
    }

    /// Reads on to its end, or as far as the bytes go.
    pub(super) fn skip(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_done() {
            rest = rest.split_at(self.read(rest)).1;
        }
    }

    /// Reads at least one byte.
    fn step(&mut self, bytes: &[u8]) -> usize {
        match &mut self.part {
            Part::Head(head) => {
                let (used, next) = head.read(bytes, &mut self.kind);
                if let Some(next) = next {
                    self.part = next;
                }
                used
            }
            Part::Counted(left) => {
                let used = count_down(left, bytes);
                if *left == 0 {
                    self.part = Part::Done;
                }
                used
            }
            Part::Chunks(chunks) => {
                let (used, next) = chunks.read(bytes);
                if let Some(next) = next {
                    self.part = next;
                }
                used
            }
            Part::UntilClose | Part::Foreign | Part::Done => bytes.len(),
        }
    }
}

impl Head {
    fn read(&mut self, bytes: &[u8], kind: &mut Kind) -> (usize, Option<Part>) {
        for (at, byte) in bytes.iter().enumerate() {
            self.size += 1;
            if self.size > HEAD_MAX {
                return (at + 1, Some(Part::Foreign));
            }
            if let Some(line) = line_end(&mut self.line, *byte)
                && let Some(next) = self.take_in(&line, kind)
            {
                return (at + 1, Some(next));
            }
        }
        (bytes.len(), None)
    }

    /// Takes in a line, and says what comes next if it was the last, or no line of a head at all.
    fn take_in(&mut self, line: &[u8], kind: &mut Kind) -> Option<Part> {
        if self.started {
            return match line {
                [] => Some(self.body(*kind)),
                _ => self.header(line).is_none().then_some(Part::Foreign),
            };
        }
        if line.is_empty() {
            // An empty line before a message is a habit of old clients; RFC 9112 says to ignore it.
            return None;
        }
        self.started = true;
        let understood = match kind {
            Kind::Request { is_head } => {
                *is_head = line.starts_with(b"HEAD ");
                line.windows(8).any(|word| word == b" HTTP/1.")
            }
            Kind::Reply { .. } => {
                self.status = status(line);
                self.status.is_some()
            }
        };
        (!understood).then_some(Part::Foreign)
    }

    /// `None` if the line makes the length of the body unknowable.
    fn header(&mut self, line: &[u8]) -> Option<()> {
        let text = String::from_utf8_lossy(line);
        let Some((name, value)) = text.split_once(':') else {
            return Some(());
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            // `+5` is a number to Rust and none to HTTP.
            let length = value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()))?;
            if self.length.is_some_and(|other| other != length) {
                return None;
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            let last = value.rsplit(',').next().unwrap_or_default().trim();
            let chunked = last.eq_ignore_ascii_case("chunked");
            self.coding = Some(if chunked { Coding::Chunked } else { Coding::Other });
        }
        Some(())
    }

    /// What follows the head: RFC 9112, section 6.3.
    fn body(&self, kind: Kind) -> Part {
        let by_headers = match (self.coding, self.length) {
            (Some(Coding::Chunked), _) => Some(Part::Chunks(Chunks::Size(Vec::new()))),
            (Some(Coding::Other), _) => None,
            (None, Some(0)) => Some(Part::Done),
            (None, Some(length)) => Some(Part::Counted(length)),
            (None, None) if matches!(kind, Kind::Request { .. }) => Some(Part::Done),
            (None, None) => None,
        };
        match (kind, self.status.unwrap_or_default()) {
            (Kind::Request { .. }, _) => by_headers.unwrap_or(Part::Foreign),
            // The connection is no longer HTTP's.
            (Kind::Reply { .. }, 101) => Part::UntilClose,
            // An interim reply: the real one follows.
            (Kind::Reply { .. }, 100..=199) => Part::Head(Self::default()),
            (Kind::Reply { .. }, 204 | 304) | (Kind::Reply { to_head: true }, _) => Part::Done,
            (Kind::Reply { .. }, _) => by_headers.unwrap_or(Part::UntilClose),
        }
    }
}

impl Chunks {
    fn read(&mut self, bytes: &[u8]) -> (usize, Option<Part>) {
        let (Self::Size(line) | Self::Trailers(line)) = self else {
            return (self.read_data(bytes), None);
        };
        for (at, byte) in bytes.iter().enumerate() {
            if line.len() > LINE_MAX {
                return (at + 1, Some(Part::UntilClose));
            }
            if let Some(line) = line_end(line, *byte) {
                return (at + 1, self.after(&line));
            }
        }
        (bytes.len(), None)
    }

    fn read_data(&mut self, bytes: &[u8]) -> usize {
        let Self::Data(left) = self else { return 0 };
        let used = count_down(left, bytes);
        if *left == 0 {
            *self = Self::Size(Vec::new());
        }
        used
    }

    fn after(&mut self, line: &[u8]) -> Option<Part> {
        if matches!(self, Self::Trailers(_)) {
            return line.is_empty().then_some(Part::Done);
        }
        let text = String::from_utf8_lossy(line);
        let size = text.split(';').next().unwrap_or_default().trim();
        match u64::from_str_radix(size, 16) {
            Ok(0) => *self = Self::Trailers(Vec::new()),
            Ok(size) => *self = Self::Data(size.saturating_add(2)),
            Err(_) => return Some(Part::UntilClose),
        }
        None
    }
}

/// The code of a status line.
fn status(line: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(line);
    let code = text.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    code.parse().ok().filter(|code| (100..=999).contains(code))
}

/// Adds a byte to a line; if it ends it, the line without its end, and `line` is empty again.
fn line_end(line: &mut Vec<u8>, byte: u8) -> Option<Vec<u8>> {
    if byte != b'\n' {
        line.push(byte);
        return None;
    }
    let mut whole = mem::take(line);
    if whole.last() == Some(&b'\r') {
        whole.pop();
    }
    Some(whole)
}

/// Takes as many bytes as there are, and as are left.
fn count_down(left: &mut u64, bytes: &[u8]) -> usize {
    let used = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left = left.saturating_sub(used as u64);
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of `bytes` is head, what is body, and what is behind the message; fed `step` bytes at a time.
    fn split(mut message: Message, bytes: &[u8], step: usize) -> (usize, usize, usize) {
        let (mut head, mut body) = (0, 0);
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() && !message.is_done() {
                let place = message.place();
                let used = message.read(rest);
                assert!(used > 0, "it always gets on");
                match place {
                    Place::Head => head += used,
                    Place::Body => body += used,
                }
                rest = &rest[used..];
            }
        }
        let behind = if message.is_done() { bytes.len() - head - body } else { 0 };
        (head, body, behind)
    }

    fn check(message: fn() -> Message, head: &str, body: &str, behind: &str) {
        let bytes = [head, body, behind].concat();
        for step in [1, 2, 3, 7, bytes.len().max(1)] {
            let found = split(message(), bytes.as_bytes(), step);
            assert_eq!(found, (head.len(), body.len(), behind.len()), "{step} bytes at a time: {bytes:?}");
        }
    }

    #[test]
    fn a_request_ends_where_its_head_says() {
        let request = Message::request;
        check(request, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", "GET");
        check(request, "POST / HTTP/1.1\r\ncontent-LENGTH:  5 \r\n\r\n", "hello", "POST");
        check(request, "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "", "x");
        check(request, "POST / HTTP/1.0\nContent-Length: 2\n\n", "ab", "c");
        check(
            request,
            "\r\nPOST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n",
            "ab",
            "c",
        );
        let chunked = "5;name=value\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        check(
            request,
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n",
            chunked,
            "next",
        );
    }

    #[test]
    fn a_reply_ends_where_its_head_and_its_request_say() {
        let reply = || Message::reply(false);
        let to_head = || Message::reply(true);
        check(reply, "HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\n", "abc", "d");
        check(to_head, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "", "abc");
        check(reply, "HTTP/1.1 204\r\n\r\n", "", "abc");
        check(reply, "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", "", "abc");
        check(reply, "HTTP/1.1 200 OK\r\n\r\n", "to the end of the connection", "");
        check(reply, "HTTP/1.1 101 Switching Protocols\r\n\r\n", "anything", "");
        let continued = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
        check(reply, continued, "a", "b");
        check(
            reply,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\na\r\n0\r\n\r\n",
            "b",
        );
        check(
            reply,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "no number\r\nand on",
            "",
        );
    }

    #[test]
    fn what_is_not_http_is_a_message_without_an_end() {
        let request = Message::request;
        let reply = || Message::reply(false);
        let strange = [
            "\u{1}\u{2}\u{3}",
            "hello\r\n\r\nthere",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\n\n\n",
        ];
        for bytes in strange {
            check(request, bytes, "", "");
            check(reply, bytes, "", "");
        }
        check(request, "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\nhello", "", "");
        check(
            request,
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
            "",
            "",
        );
        check(
            request,
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhello",
            "",
            "",
        );
        check(request, "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nhello", "", "");
        check(request, &"x".repeat(HEAD_MAX * 2), "", "");
    }
}
