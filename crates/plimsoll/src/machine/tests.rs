use super::*;

#[test]
fn this_machine_is_discovered_and_survives_json() -> Result<(), Box<dyn std::error::Error>> {
    let root = Root::live();
    let mut machine = Machine::discover(&root);
    machine.look_behind(&root, Path::new("."));
    assert!(!machine.cpu.allowed.is_empty());
    assert!(machine.memory.total_bytes > Some(0));
    assert!(machine.storage.as_ref().is_some_and(|s| s.file_system.is_some()));
    let json = serde_json::to_string_pretty(&machine)?;
    assert_eq!(serde_json::from_str::<Machine>(&json)?, machine);
    Ok(())
}
