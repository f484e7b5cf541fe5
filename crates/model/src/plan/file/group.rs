use std::collections::BTreeMap;
use std::ops::Range;

use plimsoll_units::text::shown;
use toml::de::DeValue;

use super::value::{self, bounded, items, text};
use super::{NO_SERVER, PlanMistake, PlanText, PlanValue, SERVER, spelled};
use crate::case::{CaseGlob, KEYS, Key, Value};
use crate::plan::{Exclude, Group, KeyPosition, PlanPositions};

/// Keys of a group, in addition to the parameters of cases.
pub const GROUP_KEYS: &str =
    "benchmark name note exclude samples series sample-time warm-up precision budget against job";

impl PlanText<'_> {
    pub(super) fn place(self, key: Range<usize>, value: &PlanValue<'_>) -> KeyPosition {
        let at = |one: &PlanValue<'_>| self.lines.position(one.span().start);
        let values = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(at).collect(),
            _ => vec![at(value)],
        };
        KeyPosition { key: self.lines.position(key.start), values }
    }
}

pub(super) fn not_a_group() -> PlanMistake {
    PlanMistake::value("group must be written as [[group]], with double brackets")
}

/// Reads a `[[group]]` table of a plan; mistakes in its keys are added to `wrong`.
pub(super) fn group(
    node: &PlanValue<'_>,
    source: PlanText<'_>,
    wrong: &mut Vec<PlanMistake>,
) -> Result<Group, PlanMistake> {
    let table = node.get_ref().as_table().ok_or_else(not_a_group)?;
    let (file, position) = (source.file.to_owned(), source.lines.position(node.span().start));
    let places = PlanPositions { file, group: position, ..PlanPositions::default() };
    let mut group = Group { places, ..Group::default() };
    let before = wrong.len();
    for (key, value) in table {
        group.places.keys.insert(spelled(key.get_ref()), source.place(key.span(), value));
        if let Err(own) = keyed(&mut group, key.get_ref(), value, source.is_own) {
            wrong.push(own.at(key.span(), value.span()));
        }
    }
    match (group.benchmarks.is_empty(), group.how.series.is_some() && group.how.samples.is_some()) {
        // A key with a mistake may be the missing one.
        _ if wrong.len() > before => Ok(group),
        (true, _) => {
            Err(PlanMistake::value("a group requires benchmark, such as benchmark = [\"cpu.peak\"]"))
        }
        (_, true) => Err(PlanMistake::value("samples and series are mutually exclusive")),
        _ => Ok(group),
    }
}

fn keyed(group: &mut Group, key: &str, value: &PlanValue<'_>, is_own: bool) -> Result<(), PlanMistake> {
    match spelled(key).as_str() {
        "benchmark" => group.benchmarks = value::texts(value)?,
        "name" => group.name = Some(value::name(value)?),
        "note" => group.note = Some(value::note(value)?),
        "series" => group.how.series = Some(bounded("series", value, 1_000_000)?),
        "exclude" => group.exclude = exclude(value)?,
        "warm-up" => group.how.warm_up = Some(value::duration("warm-up", value)?),
        "job" => group.job = value::texts(value)?,
        SERVER if !is_own => return Err(PlanMistake { in_key: true, ..PlanMistake::value(NO_SERVER) }),
        other if value::how(&mut group.how, other, value)? => {}
        _ => {
            let (name, values) = list(key, value)?;
            if group.lists.insert(name, values).is_some() {
                let why = format!("{name} is given twice: {} is the same; keep one", spelled(key));
                return Err(PlanMistake::value(why));
            }
        }
    }
    Ok(())
}

fn list(key: &str, value: &PlanValue<'_>) -> Result<(&'static str, Vec<Value>), PlanMistake> {
    let Ok(known) = Key::find(&spelled(key)) else {
        let names = GROUP_KEYS.split(' ').chain(KEYS.iter().map(|k| k.name)).filter(|k| *k != SERVER);
        return Err(PlanMistake::key(key, &names.collect::<Vec<_>>()));
    };
    let one = |item: &&PlanValue<'_>| {
        let parsed = text(item).and_then(|text| {
            // A CPU list has commas.
            let is_list = text.contains(',') && known.name != "affinity";
            if is_list && text.split(',').all(|one| known.parse(one.trim()).is_ok()) {
                let list = shown(&text.replace(' ', "").replace(',', "\", \""));
                return Err(PlanMistake::value(format!("{key} must be a list: write [\"{list}\"]")));
            }
            known.parse(&text).map_err(PlanMistake::value)
        });
        parsed.map_err(|wrong| wrong.at(item.span(), item.span()))
    };
    Ok((known.name, items(value)?.iter().map(one).collect::<Result<_, _>>()?))
}

fn exclude(value: &PlanValue<'_>) -> Result<Vec<Exclude>, PlanMistake> {
    let one = |item: &&PlanValue<'_>| -> Result<Exclude, PlanMistake> {
        let DeValue::Table(table) = item.get_ref() else {
            return CaseGlob::parse(&text(item)?).map(Exclude::Glob).map_err(PlanMistake::value);
        };
        let lists = table.iter().map(|(key, value)| {
            let read = list(key.get_ref(), value).map_err(|w| w.at(key.span(), value.span()));
            match (key.get_ref().as_ref(), read) {
                (key, Err(_)) if GROUP_KEYS.split(' ').any(|known| known == spelled(key)) => {
                    let names: Vec<&'static str> = KEYS.iter().map(|k| k.name).collect();
                    Err(PlanMistake::key(key, &names))
                }
                (_, read) => read,
            }
        });
        let lists = lists.collect::<Result<BTreeMap<_, _>, _>>()?;
        match lists.is_empty() {
            true => Err(PlanMistake::value("an exclude must name a parameter: this table is empty")),
            false => Ok(Exclude::Where(lists)),
        }
    };
    items(value)?.iter().map(|item| one(item).map_err(|w| w.at(item.span(), item.span()))).collect()
}
