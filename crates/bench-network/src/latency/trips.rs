//! A prepared case of round trips: the session, the paths of the messages, and the sampling.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::thread::Builder;
use std::time::Duration;

use super::end_cpus::{self, EndCpus};
use super::load::NetworkLoad;
use crate::amount::FixedTransfer;
use crate::condition::{
    END_CPU, FOREIGN, LATE, LOST, MESSAGE_BYTES, PATH_IPV6, PATH_LOOPBACK, PATH_MTU, PATH_SPEED,
};
use crate::fact::{PLACEMENT, PLACEMENTS};
use crate::job::NetworkJob;
use crate::lost_link::lost_links;
use crate::path::Path as ServerPath;
use crate::path::fault::{self, PathFault};
use crate::session::{ServerLocation, ServerSession, dropped_here};
use crate::setup::NetworkSetup;
use crate::{EndPlacement, GOODPUT, LOAD, LOSS, RATE_METRIC, RTT, amount, check_echoes};
use crate::{foreign_datagrams, lost_link, new_sample, random_bytes};
use plimsoll_bench_api::prelude::*;
use plimsoll_metal::tcp::TcpInfo;
use plimsoll_model::sample::{Histogram, Numbers};
use plimsoll_server::traffic::link_watch::LinkWatch;
use plimsoll_server::traffic::probe::path::{ConnectPath, IcmpPath, TcpPath, UdpPath};
use plimsoll_server::traffic::probe::payload::Payload;
use plimsoll_server::traffic::probe::{RoundTripOptions, TripResults, round_trips};
use plimsoll_server::traffic::team::{ThreadTeam, joined};
use plimsoll_server::traffic::{LostTransfer, SharedTransfer, TransferEnd, nanos};
use plimsoll_server::wire::{self, Echoed, Message, OrderedAmount, Sockets, Trip, WaitMode, WireError};

/// Duration of one trial of a placement; each is tried [`TRIALS`] times.
const TRIAL: Duration = Duration::from_millis(20);
const TRIALS: usize = 2;
/// Time of round trips under load before those that count, so that the load is established.
const RAMP: Duration = Duration::from_millis(300);

/// Timeout of the test connection to the port of `--protocol connect` after no message came back.
const CONNECTED: Duration = Duration::from_secs(2);

const LINK: [OwnCondition; 4] = [PATH_LOOPBACK, PATH_IPV6, PATH_SPEED, PATH_MTU];

/// A prepared case of round trips.
#[derive(Debug)]
pub struct RoundTrips {
    session: Option<ServerSession>,
    address: SocketAddr,
    trip: Option<Trip>,
    sockets: Vec<UdpSocket>,
    load: Option<NetworkLoad>,
    placement: EndPlacement,
    path: ServerPath,
    links: LinkWatch,
    fixed: Option<FixedTransfer>,
    payloads: Vec<Payload>,
    /// Manner of the round trips; the end condition is that of each measurement.
    options: RoundTripOptions,
    /// Number of the next message. It identifies late answers of an earlier sample.
    next: u64,
    wrong: u64,
    foreign: u64,
    cpu_index: u16,
    seated: Option<&'static str>,
    /// Mean round-trip time in seconds of each placement that was tried.
    tried: BTreeMap<String, f64>,
}

impl RoundTrips {
    /// Opens the session, sockets and load of a case; `seed` determines the content of messages.
    /// Fails without a server or, for ICMP, without the right to send.
    pub fn new(setup: &NetworkSetup, job: &NetworkJob, seed: u64) -> Result<Self, CannotMeasure> {
        let (message, streams) = (job.work.message as usize, job.work.streams);
        let (mut session, mut sockets) = (None, Vec::new());
        if let Some(trip) = job.trip {
            let opened = session.insert(ServerSession::open(&setup.place, job.from)?);
            match trip {
                Trip::Udp => sockets = opened.open_udp(streams)?,
                Trip::Tcp => opened.join(streams, &Sockets::default())?,
                Trip::Connect => {}
            }
        }
        let address =
            session.as_ref().map_or_else(|| icmp_address(setup, job.from), |own| Ok(own.address))?;
        let near = &setup.placement.near;
        let load = job.load.zip(session.as_ref());
        let load = load.map(|(direction, session)| NetworkLoad::new(session, direction, near, seed));
        let until = OrderedAmount::Messages(1);
        let mut round_trips = RoundTrips {
            load: load.transpose()?,
            links: if session.is_none() { LinkWatch::start_on_route(address) } else { LinkWatch::default() },
            session,
            address,
            trip: job.trip,
            sockets,
            placement: setup.placement.clone(),
            path: ServerPath::to(address, setup.machine.as_ref()),
            fixed: job.messages.map(FixedTransfer::new),
            payloads: vec![Payload::new(random_bytes(message, seed)); usize::from(streams)],
            options: RoundTripOptions { wait: job.wait, timeout: job.timeout, interval: job.interval, until },
            next: 0,
            wrong: 0,
            foreign: 0,
            cpu_index: 0,
            seated: None,
            tried: BTreeMap::new(),
        };
        round_trips.choose_cpus(setup, job)?;
        Ok(round_trips)
    }

    /// Pins both ends if the server is private: as `job` requires, else by trials of round trips.
    fn choose_cpus(&mut self, setup: &NetworkSetup, job: &NetworkJob) -> Result<(), CannotMeasure> {
        let (Some(machine), Some(_)) = (&setup.machine, self.server_pid()) else { return Ok(()) };
        let all = self.placement.clone();
        let ways = match &job.place {
            Some(_) => Vec::new(),
            None => end_cpus::candidate_placements(machine, &all.near.0, self.options.wait == WaitMode::Poll),
        };
        let mut times = vec![f64::INFINITY; ways.len()];
        let trials = if ways.len() > 1 { TRIALS } else { 0 };
        for _ in 0..trials {
            for (placement, best) in ways.iter().zip(&mut times) {
                self.sit(&all, *placement);
                let (trips, _) = self.measure(OrderedAmount::Nanos(nanos(TRIAL)))?;
                if trips.returned() > 0 {
                    *best = best.min(trips.total.as_secs_f64() / trips.returned() as f64);
                }
            }
        }
        let order = times.iter().zip(&ways).min_by(|(a, _), (b, _)| a.total_cmp(b));
        if let Some((_, placement)) = order {
            self.sit(&all, *placement);
        }
        let known = |ends: &EndPlacement| Some((*ends.near.0.first()?, *ends.far.0.first()?));
        self.seated = known(&self.placement).map(|(near, far)| end_cpus::relation(machine, near, far));
        let tried = ways.iter().map(|placement| placement.name.to_owned()).zip(times);
        self.tried = tried.filter(|(_, time)| time.is_finite()).collect();
        Ok(())
    }

    fn sit(&mut self, all: &EndPlacement, placement: EndCpus) {
        self.cpu_index = u16::try_from(placement.far).unwrap_or_default();
        self.placement = EndPlacement { near: all.near.clone(), far: all.far.starting_at(placement.far) };
    }

    /// Returns the process ID of a private server; `None` for a remote one.
    pub fn server_pid(&self) -> Option<u32> {
        self.session.as_ref().and_then(ServerSession::pid)
    }

    /// Makes round trips until `until`. Returns results, and the server's report except for ICMP.
    fn measure(&mut self, until: OrderedAmount) -> Result<(TripResults, Option<Echoed>), CannotMeasure> {
        let port = self.begin(until)?;
        let trips = self.exchange(until, port);
        let is_silent = match &trips {
            Ok(trips) => trips.returned() == 0,
            Err(LostTransfer::Stream(e)) if e.kind() == io::ErrorKind::TimedOut => true,
            Err(_) => self.trip == Some(Trip::Connect),
        };
        if is_silent {
            self.verify_echoes()?;
        }
        if is_silent && let Some(fault) = self.path_fault(port) {
            return Err(fault.of_server(self.address));
        }
        let trips = trips.map_err(|lost| self.failed("round trips", lost))?;
        if is_silent {
            return Err(CannotMeasure::server_failed(format!(
                "none of {} messages came back within {:?} from {}; use a longer --timeout",
                trips.sent, self.options.timeout, self.address
            )));
        }
        let echoed = self.session.as_mut().map(ServerSession::finish_trips).transpose();
        let echoed = echoed.map_err(|e| self.failed("the results of round trips", e.into()))?;
        Ok((trips, echoed))
    }

    /// Requests the server's echoes. Returns its port for new connections (`--protocol connect`).
    fn begin(&mut self, until: OrderedAmount) -> Result<Option<u16>, CannotMeasure> {
        let Some((session, trip)) = self.session.as_mut().zip(self.trip) else { return Ok(None) };
        let most = session.welcome.max_nanos;
        let longest = if let OrderedAmount::Nanos(time) = until { time.min(most) } else { most };
        let message = self.payloads.first().map_or(1, |payload| payload.bytes().len());
        let request = Message::Trips(wire::TripsOrder {
            trip,
            // At most 64 streams and 1 MiB.
            streams: self.payloads.len() as u16,
            message: message as u32,
            waiting: self.options.wait,
            longest,
            place: self.cpu_index,
        });
        match (session.answer(&request)?, trip) {
            (Message::Ready, Trip::Tcp | Trip::Udp) => Ok(None),
            (Message::Port(port), Trip::Connect) => Ok(Some(port.get())),
            _ => Err(session.lost("a request", &WireError::OutOfTurn.into())),
        }
    }

    fn exchange(&mut self, until: OrderedAmount, port: Option<u16>) -> Result<TripResults, LostTransfer> {
        let (first, parts) = (self.next, self.payloads.len());
        let own = self.options;
        let options = |number| RoundTripOptions { until: until.share(parts, number), ..own };
        let mut to = self.address;
        to.set_port(port.unwrap_or_default());
        let (trip, sockets, cpus) = (self.trip, &self.sockets, &self.placement.near);
        let streams = self.session.as_ref().map(|session| session.streams.as_slice()).unwrap_or_default();
        let shared = &SharedTransfer::new(parts).map_err(LostTransfer::Here)?;
        let stop = &shared.stop;
        let works = self.payloads.iter_mut().enumerate().map(|(number, payload)| {
            let options = options(number);
            move || match trip {
                Some(Trip::Tcp) => {
                    round_trips(&mut TcpPath::new(&streams[number])?, payload, first, options, stop)
                }
                Some(Trip::Udp) => round_trips(&mut UdpPath(&sockets[number]), payload, first, options, stop),
                Some(Trip::Connect) => round_trips(&mut ConnectPath::new(to), payload, first, options, stop),
                None => round_trips(&mut IcmpPath::new(to)?, payload, first, options, stop),
            }
        });
        let team = ThreadTeam { name: "trips", done: &shared.senders_done, shared, cpus, first: 0 };
        let all = std::thread::scope(|scope| joined(team.start(scope, works)?))?;
        let mut sum = TripResults::default();
        all.iter().for_each(|trips| sum.add(trips));
        self.next += all.iter().map(|trips| trips.sent).max().unwrap_or_default();
        self.wrong += sum.wrong;
        self.foreign += sum.foreign;
        Ok(sum)
    }

    /// Probes why no message came back, and ends the server's echoes; `port` is the server's for
    /// new connections. `None` if no fault is found, and for a private server and ICMP.
    fn path_fault(&mut self, port: Option<u16>) -> Option<PathFault> {
        let bytes = self.payloads.first().map_or(1, |payload| payload.bytes().len()) as u32;
        let session = self.session.as_mut().filter(|session| session.pid().is_none())?;
        let lost_link = session.lost_link();
        let mut ends = [TransferEnd::Client, TransferEnd::Server].into_iter();
        match self.trip? {
            _ if lost_link.is_some() => lost_link,
            Trip::Connect => {
                let port = port?;
                let mut to = self.address;
                to.set_port(port);
                let connected = TcpStream::connect_timeout(&to, CONNECTED);
                connected.is_err().then_some(PathFault::NoConnection { port })
            }
            Trip::Udp => {
                session.finish_trips().ok()?;
                ends.find_map(|end| fault::probe_datagrams(session, &self.sockets, end, bytes).ok().flatten())
            }
            Trip::Tcp => {
                let segment = TcpInfo::of(session.streams.first()?).ok()?.send_mss;
                ends.find_map(|end| fault::probe_segments(session, end, segment).ok().flatten())
            }
        }
    }

    fn failed(&mut self, during: &str, error: LostTransfer) -> CannotMeasure {
        match &mut self.session {
            Some(session) => session.lost(during, &error),
            None if matches!(error, LostTransfer::Dropped) => dropped_here(self.address),
            None if let Some(link) = lost_links(self.links.losses(), &[]).into_iter().next() => {
                PathFault::LinkLost(link).of_server(self.address)
            }
            None => CannotMeasure::server_failed(format!(
                "{} does not answer ICMP echo: {error}; a firewall may drop it: use --protocol tcp",
                self.address.ip()
            )),
        }
    }

    /// Makes round trips under the load, if any; returns also the rate of the load, bit/s.
    fn measure_loaded(
        &mut self,
        until: OrderedAmount,
    ) -> Result<(TripResults, Option<Echoed>, Option<f64>), CannotMeasure> {
        let Some(mut load) = self.load.take() else {
            return self.measure(until).map(|(trips, echoed)| (trips, echoed, None));
        };
        let OrderedAmount::Nanos(time) = until else {
            return Err(CannotMeasure::not_here(
                "--load and --count are mutually exclusive: use --sample-time",
            ));
        };
        let loading = RAMP + Duration::from_nanos(time) + 2 * self.options.timeout.min(RAMP);
        let done = std::thread::scope(|scope| {
            let loading = Builder::new().name("load".to_owned()).spawn_scoped(scope, || load.run(loading));
            let loading =
                loading.map_err(|e| CannotMeasure::environment(LostTransfer::Thread(e).to_string()))?;
            let measured = self.measure(OrderedAmount::Nanos(nanos(RAMP))).and_then(|_| self.measure(until));
            let ended = || Err(CannotMeasure::environment("the thread of the load ended unexpectedly"));
            let load = loading.join().unwrap_or_else(|_| ended());
            let (trips, echoed) = measured?;
            Ok((trips, echoed, Some(load?)))
        });
        self.load = Some(load);
        done
    }

    fn verify_echoes(&self) -> Result<(), CannotMeasure> {
        check_echoes("round trips", "messages came back with other bytes than were sent", self.wrong)
    }

    fn read(
        &self,
        trips: &TripResults,
        echoed: Option<&Echoed>,
        load: Option<f64>,
    ) -> Result<Sample, CannotMeasure> {
        if echoed.is_some_and(|echoed| echoed.messages < trips.returned()) {
            return Err(CannotMeasure::server_failed(
                "the server reports fewer messages than came back: client and server must be the same build",
            ));
        }
        let (returned, seconds) = (trips.returned() as f64, trips.elapsed.as_secs_f64().max(1e-9));
        let message = self.payloads.first().map_or(0, |payload| payload.bytes().len()) as f64;
        let values = [
            (RTT, trips.total.as_secs_f64() / returned),
            (RATE_METRIC, returned / seconds),
            (GOODPUT, 2.0 * 8.0 * message * returned / seconds),
            (LOSS.name, trips.lost as f64 / trips.sent as f64),
        ];
        let values = values.into_iter().chain(load.map(|carried| (LOAD, carried)));
        let mut more: Numbers = LINK.iter().map(|row| (*row, self.path.conditions.get(row))).collect();
        more.set_of(&END_CPU, "near", trips.cpu.as_secs_f64() / seconds);
        if let Some(echoed) = echoed {
            more.set_of(&END_CPU, "far", Duration::from_nanos(echoed.cpu_nanos).as_secs_f64() / seconds);
        }
        let counts = [(LOST, trips.lost), (LATE, trips.late), (FOREIGN, trips.foreign)];
        more.add(counts.into_iter().map(|(row, count)| (row, count as f64)).collect());
        more.set(&MESSAGE_BYTES, message);
        let histograms = vec![Histogram { metric: RTT.to_owned(), buckets: trips.times.buckets() }];
        Ok(Sample { histograms, ..new_sample(seconds, values, more) })
    }
}

/// Returns the address for ICMP echoes: the server's, else loopback. Fails if not permitted.
fn icmp_address(setup: &NetworkSetup, from: Option<IpAddr>) -> Result<SocketAddr, CannotMeasure> {
    let address = match &setup.place {
        ServerLocation::Server { address, .. } => address.resolve(from)?[0],
        ServerLocation::Private { .. } => SocketAddr::from(([127, 0, 0, 1], 0)),
    };
    IcmpPath::new(address).map(|_| address).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => CannotMeasure::not_here(
            "this user may not send ICMP echo (net.ipv4.ping_group_range, or CAP_NET_RAW); use --protocol tcp or udp",
        ),
        _ => CannotMeasure::not_here(format!("cannot open an ICMP socket to {}: {e}", address.ip())),
    })
}

impl Prepared for RoundTrips {
    fn offer(&self) -> Offer {
        self.placement.offer(self.payloads.len())
    }

    fn sample(&mut self, amount: SampleAmount) -> Result<Sample, CannotMeasure> {
        let streams = self.payloads.len() as u16;
        let until = amount::amount_of_sample(self.fixed, amount, streams);
        let (trips, echoed, load) = self.measure_loaded(until)?;
        self.fixed.iter_mut().for_each(|fixed| fixed.moved(trips.sent));
        self.read(&trips, echoed.as_ref(), load)
    }

    fn verify(&mut self) -> Result<Facts, CannotMeasure> {
        self.verify_echoes()?;
        let mut facts = self.placement.facts(&self.path.name(), self.address);
        facts.warnings.extend(foreign_datagrams(self.foreign));
        facts.achieved.set_some(&PLACEMENT, self.seated);
        if !self.tried.is_empty() {
            facts.achieved.set(&PLACEMENTS, self.tried.clone());
        }
        if let Some(fixed) = &self.fixed {
            fixed.note(&mut facts);
        }
        let lost = self.session.as_ref().map(ServerSession::lost_links);
        lost_link::add_warnings(lost.unwrap_or_else(|| lost_links(self.links.losses(), &[])), &mut facts);
        Ok(facts)
    }
}
