//! Pieces of HTML: running text with code in it, and bytes as addresses.

use base64::prelude::{BASE64_STANDARD as BASE64, Engine};

use crate::escape::escape;

/// Bytes as an address that needs no network.
pub fn data_url(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", BASE64.encode(bytes))
}

/// Escaped text in which pairs of backticks become code, and signs stay on the line of their numbers.
pub fn inline(text: &str) -> String {
    let plain = |text: &str| escape(text).replace(" ± ", "\u{a0}±\u{a0}").replace(" = ", "\u{a0}=\u{a0}");
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return plain(text);
    }
    let part =
        |(i, part): (usize, &&str)| if i % 2 == 0 { plain(part) } else { format!("<code>{}</code>", escape(part)) };
    parts.iter().enumerate().map(part).collect()
}
