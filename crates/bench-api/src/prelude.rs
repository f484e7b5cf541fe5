//! Names of the contract and of the crate model that nearly every benchmark needs.

pub use plimsoll_machine::{CpuSet, Machine};
pub use plimsoll_model::case::{Case, Value};
pub use plimsoll_model::limit::{Input, Limit, LimitKind, LimitSource, Question};
pub use plimsoll_model::measurement::Measurement;
pub use plimsoll_model::metric::{Better, Curve, Metric, Roofline};
pub use plimsoll_model::place::{Threads, check_affinities, cpus_of_case, spread_cpus};
pub use plimsoll_model::plan::Group;
pub use plimsoll_model::sample::{
    CannotMeasure, CaseFact, Conditions, CurvePoint, Facts, Offer, OwnCondition, Sample, SampleAmount,
    WrongAnswer, WrongAnswerSource,
};
pub use plimsoll_model::view::{PlainFinding, Topic, select};
pub use plimsoll_model::words::LabelPart;
pub use plimsoll_units::quantity::{Quantity, Unit, format_size};

pub use crate::{
    Benchmark, Candidate, Context, Descriptor, Parsed, Prepared, PreparedCase, Subsystem, counts_in_range,
    default_threads,
};
