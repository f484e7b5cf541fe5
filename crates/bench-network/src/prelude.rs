//! What most modules of this crate use.

pub(crate) use crate::amount::FixedTransfer;
pub(crate) use crate::check_echoes;
pub(crate) use crate::job::NetworkJob;
pub(crate) use crate::lost_link::{LostLink, lost_links};
pub(crate) use crate::path_fault::PathDirection;
pub(crate) use crate::server::ServerAddress;
pub(crate) use crate::session::ServerSession;
pub(crate) use crate::setup::{NetworkSetup, candidates, with_options};
pub(crate) use crate::warning::NetworkWarning;
pub(crate) use crate::{
    CPU_METRIC, EndPlacement, GOODPUT, LOSS, MESSAGES_METRIC, RATE_METRIC, RTT, message_sizes, random_bytes,
    seed,
};
pub(crate) use plimsoll_bench_api::fixed::AveragePace;
pub(crate) use plimsoll_bench_api::{
    Benchmark, Better, Candidate, Context, Descriptor, LabelPart, Metric, Parsed, Prepared, PreparedCase,
};
pub(crate) use plimsoll_machine::Machine;
pub(crate) use plimsoll_metal::tcp::TcpInfo;
pub(crate) use plimsoll_model::case::{Case, Value};
pub(crate) use plimsoll_model::limit::frame::{ETHERNET, ETHERNET_HEADER};
pub(crate) use plimsoll_model::limit::{Input, Limit, LimitKind, LimitSource, Question};
pub(crate) use plimsoll_model::measurement::Measurement;
pub(crate) use plimsoll_model::plan::Group;
pub(crate) use plimsoll_model::sample::{
    CannotMeasure, Conditions, CurvePoint, Facts, Numbers, Offer, OwnCondition, Sample, SampleAmount,
    WrongAnswer, WrongAnswerSource,
};
pub(crate) use plimsoll_server::traffic::tcp::TcpOutcome;
pub(crate) use plimsoll_server::traffic::{LostTransfer, PinnedCpus, nanos};
pub(crate) use plimsoll_server::wire::{
    ArrivalTimeline, Direction, HANDSHAKE, Message, OrderedAmount, Receiving, Sending, SharedKey, Sockets,
    TcpOrder, UdpOrder, WaitMode, Welcome,
};
pub(crate) use plimsoll_units::quantity::{Quantity, Unit};
