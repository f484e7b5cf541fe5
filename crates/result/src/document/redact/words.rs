use std::net::{IpAddr, SocketAddr};

/// Digits from which a hexadecimal number is an identifier (container, disk, world wide name).
const LONG_HEX: usize = 16;

/// Returns whether the character can be part of a name, address or identifier.
pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':')
}

/// Parses an IP address with or without port; `None` also for loopback and unspecified addresses.
pub(super) fn address(word: &str) -> Option<(IpAddr, Option<u16>)> {
    let tells = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified();
    if let Ok(ip) = word.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Some((ip, None)).filter(|(ip, _)| tells(ip));
    }
    let socket: SocketAddr = word.parse().ok()?;
    Some((socket.ip(), Some(socket.port()))).filter(|(ip, _)| tells(ip))
}

/// Returns whether a word is a hardware address, of 6, 8 (FireWire) or 20 bytes (InfiniBand).
pub(super) fn is_mac(word: &str) -> bool {
    let separator = if word.contains(':') { ':' } else { '-' };
    let parts: Vec<&str> = word.split(separator).collect();
    let hex = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(hex)
}

pub(super) fn is_uuid(word: &str) -> bool {
    word.len() == 36 && uuid::Uuid::try_parse(word).is_ok()
}

/// Replaces UUIDs and long hexadecimal numbers in `word`, as to `docker-identifier.scope`.
pub(super) fn without_long_hex(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let starts_word = !out.ends_with(|c: char| c.is_ascii_alphanumeric());
        if let Some((uuid, after)) = rest.split_at_checked(36)
            && starts_word
            && is_uuid(uuid)
        {
            out += "uuid";
            rest = after;
            continue;
        }
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        let (hex, after) = rest.split_at(digits);
        // Decimal digits only are a quantity.
        let identifier = digits >= LONG_HEX && hex.bytes().any(|b| b.is_ascii_alphabetic());
        out += if identifier { "identifier" } else { hex };
        let mut others = after.chars();
        out.extend(others.next());
        rest = others.as_str();
    }
    out
}
