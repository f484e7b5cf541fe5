use plimsoll_metal::isa::{Absence, Isa};

use plimsoll_model::plan::Group;

pub(super) fn check(group: &Group) -> Result<(), String> {
    let words = group.words("isa", &["best"]);
    let is_foreign = |isa: Isa| matches!(isa.available(), Err(Absence::Architecture { .. }));
    let foreign = |word: &String| Isa::ALL.into_iter().any(|isa| isa.name() == word && is_foreign(isa));
    if !group.typed("isa") || !words.iter().all(foreign) {
        return Ok(());
    }
    let own: Vec<&str> = Isa::ALL.into_iter().filter(|isa| !is_foreign(*isa)).map(Isa::name).collect();
    let arch = std::env::consts::ARCH;
    Err(format!("--isa {} is not supported on {arch}: use best, all, {}", words.join(","), own.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::group;
    use plimsoll_model::plan::KeyPosition;

    #[test]
    fn sets_of_another_architecture_alone_are_refused_where_they_were_typed() {
        let (own, other) =
            if std::env::consts::ARCH == "x86_64" { ("avx512", "neon") } else { ("neon", "avx512") };
        let typed = |words: &[&str]| group(&[("isa", words)]);
        assert!(check(&typed(&[own])).is_ok() && check(&typed(&[own, other])).is_ok());
        assert!(check(&typed(&["best"])).is_ok() && check(&Group::default()).is_ok());
        let error = check(&typed(&[other])).unwrap_err();
        assert!(error.starts_with(&format!("--isa {other} is not supported on ")), "{error}");
        assert!(error.contains(own) && !error.ends_with(other), "{error}");
        let mut of_a_plan = typed(&[other]);
        of_a_plan.places.keys.insert("isa".to_owned(), KeyPosition::default());
        assert!(check(&of_a_plan).is_ok());
    }
}
