//! `plimsoll serve`, `plimsoll key` and the private server of loopback runs.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_command::cli::Serve;
use plimsoll_machine::{Machine, Root};
use plimsoll_server::serve::{Caps, ServeError, Server, ServerEvent, Settings, serve_private};
use plimsoll_server::traffic::PinnedCpus;
use plimsoll_server::wire::SharedKey;
use plimsoll_server::wire::key::KeyError;
use plimsoll_units::text::format_count;

use super::{Failure, code};
use crate::failure::OrFailure;

const VARIABLE: &str = "PLIMSOLL_KEY";

/// Reads the secret key for a server from `file`, else from `PLIMSOLL_KEY`; `None` without both.
pub(super) fn key(file: Option<&Path>) -> Result<Option<SharedKey>, Failure> {
    match (file, std::env::var_os(VARIABLE)) {
        (Some(path), _) => SharedKey::read(path).map(Some).or_usage(),
        // Non-UTF-8 text is no key, and must not count as none.
        (None, Some(text)) => SharedKey::from_hex(&text.to_string_lossy(), VARIABLE).map(Some).or_usage(),
        (None, None) => Ok(None),
    }
}

/// Writes a new key to a new file, or to stdout. Fails if the file exists or cannot be written.
pub(super) fn new_key(file: Option<&Path>) -> Result<ExitCode, Failure> {
    let key = fresh_key()?;
    let Some(path) = file else { return super::printed(&(key.to_hex() + "\n")) };
    key.write_new(path).map_err(|e| match e {
        KeyError::Refused(..) => Failure { line: e.to_string(), code: code::REFUSED },
        e => Failure::usage(e.to_string()),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn fresh_key() -> Result<SharedKey, Failure> {
    SharedKey::random().map_err(|e| Failure::environment(format!("cannot create a key: {e}")))
}

pub(super) fn serve(typed: &Serve) -> Result<ExitCode, Failure> {
    if rustix::process::geteuid().is_root() && !typed.allow_root {
        return Err(Failure {
            line: "serve as root requires --allow-root; better: run it as another user (packaging/plimsoll-serve.service shows how)".to_owned(),
            code: code::REFUSED,
        });
    }
    let key = match &typed.key {
        Some(path) => SharedKey::read(path).or_usage()?,
        None if typed.open => SharedKey::open(),
        None => fresh_key()?,
    };
    let machine = Machine::discover(&Root::live());
    let settings = Settings {
        key,
        caps: Caps {
            max_rate: typed.max_rate,
            max_duration: typed.max_duration,
            max_streams: typed.max_streams,
            max_sessions: usize::from(typed.max_sessions),
        },
        allow: typed.allow.clone(),
        parallel: typed.parallel,
        cpus: PinnedCpus(plimsoll_bench::spread_cpus(&machine, machine.cpu.allowed.len())),
    };
    let refused = |e: ServeError| Failure {
        code: if e.is_no_address() { code::USAGE } else { code::SERVER_FAILED },
        line: e.to_string(),
    };
    let (stop, stopped) = UnixStream::pair().or_environment()?;
    super::signals::notify_parent(&stop)?;
    let server = match typed.bind.as_slice() {
        [] => Server::bind_any(typed.port, settings.clone()),
        some => {
            let mut addresses = some.to_vec();
            addresses.iter_mut().for_each(|address| address.set_port(typed.port));
            Server::bind(&addresses, settings.clone())
        }
    }
    .map_err(refused)?;
    announce(typed, &server, &settings.key);
    server.run(&stopped, &log).or_environment()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns HOST:PORT: `address`; if unspecified or `None`, this machine's name and port.
fn place(address: Option<SocketAddr>, port: u16) -> String {
    match address {
        // The interface is the client's own.
        Some(SocketAddr::V6(v6)) if v6.ip().is_unicast_link_local() => {
            format!("[{}%INTERFACE]:{}", v6.ip(), v6.port())
        }
        Some(address) if !address.ip().is_unspecified() => address.to_string(),
        other => {
            let host = Root::live().line("proc/sys/kernel/hostname").unwrap_or_else(|_| "HOST".to_owned());
            format!("{host}:{}", other.map_or(port, |address| address.port()))
        }
    }
}

fn announce(typed: &Serve, server: &Server, key: &SharedKey) {
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    let place = place(server.addresses().first().copied(), typed.port);
    let client = match &typed.key {
        Some(_) => format!("plimsoll network --key FILE --server {place}"),
        None if typed.open => format!("plimsoll network --server {place}"),
        None => format!("PLIMSOLL_KEY={} plimsoll network --server {place}", key.to_hex()),
    };
    let mut text = format!("listening on {}; clients run\n  {client}\n", addresses.join(", "));
    if typed.open {
        text +=
            "anybody who can reach this port can make this machine send and receive: see --key and --allow\n";
    }
    if std::io::stdout().is_terminal() {
        text += "Ctrl-C ends it\n";
    }
    let _ = super::printed(&text);
}

fn log(happening: ServerEvent) {
    let line = match happening {
        ServerEvent::Began(client) => format!("{client}: session"),
        ServerEvent::Ended(client, transfers, None) => {
            format!("{client}: ended after {}", format_count(transfers, "transfer"))
        }
        ServerEvent::Ended(client, transfers, Some(why)) => {
            format!("{client}: aborted after {}: {why}", format_count(transfers, "transfer"))
        }
        ServerEvent::Turned(n) => {
            let count = format_count(n, "connection");
            format!("{count} turned away: no key, another version, too slow, or not allowed")
        }
    };
    crate::output::print_line(&format!("{} {line}", plimsoll_system::wall::now().strftime("%FT%TZ")));
}

pub(super) fn private() -> Result<ExitCode, Failure> {
    plimsoll_system::program::take_name();
    let served = serve_private(&std::io::stdin(), std::io::stdout());
    served.map(|()| ExitCode::SUCCESS).map_err(|e| Failure { line: e.to_string(), code: code::SERVER_FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_an_address_that_answers() {
        let reported = |address: &str| place(Some(address.parse().unwrap()), 7546);
        assert_eq!(reported("127.0.0.1:5983"), "127.0.0.1:5983");
        assert_eq!(reported("[::1]:7546"), "[::1]:7546");
        assert_eq!(reported("[fe80::1%2]:7546"), "[fe80::1%INTERFACE]:7546");
        let any = reported("0.0.0.0:7000");
        assert!(any.ends_with(":7000") && !any.starts_with("0.0.0.0"), "{any}");
    }
}
