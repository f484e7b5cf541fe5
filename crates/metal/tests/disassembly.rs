//! Checks the declared instruction counts of each kernel against the disassembly of this program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking, also in its helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Command;

use plimsoll_metal::block::{self, BlockOp, BlockShape, BlockTraversal, Region};
use plimsoll_metal::buffer::Pages;
use plimsoll_metal::clock::{ChainRow, chains};
use plimsoll_metal::isa::Isa;
use plimsoll_metal::kernel::{ComputeKernel, Op, chained, kernels};
use plimsoll_metal::stream::{self, StoreKind, StreamKernel};

struct Instruction {
    address: u64,
    mnemonic: String,
    operands: String,
}

const CROSS_OBJDUMP: &str = "/usr/bin/aarch64-linux-gnu-objdump";

fn disassembly() -> Result<String, String> {
    let program = std::env::current_exe().unwrap();
    // Under an emulator the tools have another architecture than the program.
    let cross = cfg!(target_arch = "aarch64") && std::path::Path::new(CROSS_OBJDUMP).exists();
    let output = Command::new(if cross { CROSS_OBJDUMP } else { "objdump" })
        .args(["--disassemble", "--demangle", "--no-show-raw-insn", "--wide"])
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("objdump cannot be run: {error} (Debian: apt-get install binutils)"))?;
    if !output.status.success() {
        return Err(format!("objdump failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[track_caller]
fn disassemble_or_skip() -> Option<String> {
    let why = match disassembly() {
        Ok(text) => return Some(text),
        Err(why) => why,
    };
    let thread = std::thread::current();
    // The only test thread is that of the program.
    let place = std::panic::Location::caller().to_string();
    let test = thread.name().filter(|name| *name != "main").unwrap_or(&place);
    // Bypasses the capture of passing tests.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    if let Some(list) = std::env::var_os("PLIMSOLL_SKIPPED") {
        let mut list = std::fs::OpenOptions::new().create(true).append(true).open(list).unwrap();
        writeln!(list, "{test}: {why}").unwrap();
    }
    None
}

fn function(disassembly: &str, name: &str) -> Vec<Instruction> {
    functions(disassembly, name).into_iter().next().unwrap_or_default()
}

/// Returns the instructions of each function `name`: several if it is generic.
fn functions(disassembly: &str, name: &str) -> Vec<Vec<Instruction>> {
    let heading = format!("::{name}>:");
    // Another mangling keeps the parameter.
    let generic = format!("::{name}::<");
    let is_heading = |line: &str| line.ends_with(&heading) || line.ends_with(">:") && line.contains(&generic);
    let mut found = Vec::new();
    let mut lines = disassembly.lines();
    while lines.by_ref().any(is_heading) {
        found.push(lines.by_ref().take_while(|line| !line.is_empty()).filter_map(instruction).collect());
    }
    found
}

fn instruction(line: &str) -> Option<Instruction> {
    let (address, text) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    // Objdump marks the shorter of two encodings.
    let text = text.trim().trim_start_matches("{vex}").trim_start();
    let (mnemonic, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    // Some versions print the operand size.
    let mnemonic = if mnemonic == "crc32q" { "crc32" } else { mnemonic };
    Some(Instruction { address, mnemonic: mnemonic.to_owned(), operands: operands.trim().to_owned() })
}

fn loop_start(instruction: &Instruction) -> Option<u64> {
    if !["jne", "b.ne"].contains(&instruction.mnemonic.as_str()) {
        return None;
    }
    let target = instruction.operands.split_whitespace().next()?;
    u64::from_str_radix(target.trim_start_matches("0x"), 16).ok().filter(|to| *to < instruction.address)
}

/// Returns the operations per lane of an instruction, independently of the kernels' rows.
fn worth(mnemonic: &str, kernel: &ComputeKernel) -> u32 {
    let stem = mnemonic.trim_start_matches('v');
    match stem {
        "pdpbusd" | "sdot" => 2 * 4,
        "tdpbssd" => 2 * 64,
        "tdpbf16ps" => 2 * 32,
        "smmla" => 2 * 8,
        "bfmmla" => 2 * 4,
        "bfdot" => 2 * 2,
        "pdpwssd" | "dpbf16ps" => 2 * 2,
        "crc32" | "crc32cx" => 8,
        _ if kernel.op == Op::SQRT && !stem.contains("sqrt") => 0,
        _ if ["fmadd", "fnmadd"].iter().any(|fused| stem.starts_with(fused)) => 2,
        "fmla" | "fmls" => 2,
        _ => 1,
    }
}

fn vector_registers(isa: Isa) -> &'static str {
    match isa {
        Isa::Sse2 => "%xmm",
        Isa::Avx2 => "%ymm",
        Isa::Avx512 => "%zmm",
        Isa::Amx => "%tmm",
        Isa::Neon | Isa::Mmla => "v",
        Isa::Sve => "z",
        other => panic!("no rule for {other}"),
    }
}

fn count(kernel: &ComputeKernel, body: &[&Instruction]) -> BTreeMap<String, u32> {
    let arrangements = match kernel.isa {
        Isa::Sve => [(8, ".d"), (4, ".s"), (2, ".h"), (1, ".b")],
        _ => [(8, ".2d"), (4, ".4s"), (2, ".8h"), (1, ".16b")],
    };
    let arrangement = |bytes| arrangements.iter().find(|(of, _)| *of == bytes).unwrap().1;
    let (wide, narrow) = (arrangement(kernel.result().bytes()), arrangement(kernel.element.bytes()));
    let (registers, suffixes) = match kernel.isa {
        _ if kernel.is_general() => ("general", ["", ""]),
        Isa::Avx2 if kernel.vector_bits() <= 128 => ("%xmm", ["", ""]),
        Isa::Neon if kernel.is_scalar() => (if kernel.vector_bits() == 64 { "d" } else { "s" }, ["", ""]),
        Isa::Neon | Isa::Mmla | Isa::Sve => (vector_registers(kernel.isa), [wide, narrow]),
        _ => (vector_registers(kernel.isa), ["", ""]),
    };
    let mut found = BTreeMap::new();
    for instruction in body {
        let mnemonic = instruction.mnemonic.as_str();
        if CONTROL.contains(&mnemonic) || mnemonic == TOUCH {
            continue;
        }
        let text = format!("{}: {mnemonic} {}", kernel.name, instruction.operands);
        let vectors = instruction.operands.split(',').map(str::trim).filter(|operand| *operand != "p0/m");
        let mut operands = vectors.enumerate();
        let right = |(place, name): (usize, &str)| match registers {
            "general" => name.trim_start_matches('%').starts_with(['r', 'w', 'x']) && !name.contains("mm"),
            _ => name.starts_with(registers) && name.ends_with(suffixes[usize::from(place > 0)]),
        };
        assert!(operands.all(right), "{text}");
        *found.entry(mnemonic.to_owned()).or_insert(0) += 1;
    }
    let touches = body.iter().filter(|instruction| instruction.mnemonic == TOUCH).count();
    let wide = matches!(kernel.isa, Isa::Avx2 | Isa::Avx512) && kernel.vector_bits() > 128;
    assert_eq!(touches, usize::from(wide && !kernel.is_general()), "{}: touches of memory", kernel.name);
    let with_control = found.values().sum::<u32>() + touches as u32 + 2;
    assert_eq!(body.len() as u32, with_control, "{}: its loop's control", kernel.name);
    found
}

fn promised(kernel: &ComputeKernel) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for part in kernel.parts {
        assert_eq!(part.operations, worth(part.mnemonic, kernel), "{}: {}", kernel.name, part.mnemonic);
        *counts.entry(part.mnemonic.to_owned()).or_insert(0) += part.count;
    }
    counts
}

/// Executed once per iteration by wide kernels, so that the core does not stop.
const TOUCH: &str = "prefetcht0";

const CONTROL: [&str; 4] = ["dec", "jne", "subs", "b.ne"];

fn destination<'a>(kernel: &ComputeKernel, instruction: &'a Instruction) -> Option<&'a str> {
    if CONTROL.contains(&instruction.mnemonic.as_str()) {
        return None;
    }
    let operand = match kernel.isa {
        Isa::Neon | Isa::Sve | Isa::Mmla => instruction.operands.split(',').next(),
        _ => instruction.operands.rsplit(',').next(),
    };
    operand.filter(|operand| {
        kernel.is_general()
            || operand.contains("mm") && operand.starts_with('%')
            || operand.starts_with(['v', 'z', 'd', 's'])
    })
}

fn destinations(kernel: &ComputeKernel, body: &[&Instruction]) -> usize {
    body.iter().filter_map(|i| destination(kernel, i)).collect::<BTreeSet<_>>().len()
}

fn body<'a>(name: &str, code: &'a [Instruction]) -> Vec<&'a Instruction> {
    let (start, end) = code
        .iter()
        .find_map(|last| loop_start(last).map(|start| (start, last.address)))
        .unwrap_or_else(|| panic!("{name} has no loop"));
    assert_eq!(start % 64, 0, "{name}: its loop does not start a cache line");
    code.iter().filter(|i| (start..=end).contains(&i.address)).collect()
}

#[test]
fn declared_counts_are_those_of_the_machine_code() {
    let Some(disassembly) = disassemble_or_skip() else { return };
    let assembly = kernels().filter(|kernel| kernel.isa != Isa::Portable);
    for kernel in assembly {
        let mut found = functions(&disassembly, kernel.name);
        if found.is_empty() {
            let bits = kernel.vector_bits().to_string();
            let width = if kernel.isa == Isa::Sve { "full" } else { bits.as_str() };
            found = functions(&disassembly, &format!("{}_{width}", kernel.name));
        }
        assert!(!found.is_empty(), "{} is not in the disassembly", kernel.name);
        // A function may exist for several numbers of accumulators: selects this kernel's.
        let fits = |code: &&Vec<Instruction>| {
            destinations(kernel, &body(kernel.name, code)) == kernel.accumulators as usize
        };
        let code = found.iter().find(fits).unwrap_or_else(|| panic!("{}: accumulators", kernel.name));
        let body = body(kernel.name, code);
        assert_eq!(count(kernel, &body), promised(kernel), "{}", kernel.name);
    }
}

#[test]
fn chains_are_as_many_as_declared_and_none_reads_another() {
    let Some(disassembly) = disassemble_or_skip() else { return };
    let mut rows: BTreeMap<&str, Vec<&ComputeKernel>> = BTreeMap::new();
    for kernel in chained() {
        rows.entry(kernel.name.split("_chains").next().unwrap()).or_default().push(kernel);
    }
    for (name, mut kernels) in rows {
        let found = functions(&disassembly, name);
        assert_eq!(found.len(), kernels.len(), "{name}: functions");
        for code in found {
            let body = body(name, &code);
            let chains: BTreeSet<&str> = body.iter().filter_map(|i| destination(kernels[0], i)).collect();
            let which = kernels.iter().position(|kernel| kernel.accumulators as usize == chains.len());
            let kernel = kernels.remove(which.unwrap_or_else(|| panic!("{name}: {chains:?}")));
            assert_eq!(count(kernel, &body), promised(kernel), "{}", kernel.name);
            for instruction in body {
                let Some(own) = destination(kernel, instruction) else { continue };
                let others = instruction.operands.split(',').map(str::trim);
                let mut others = others.filter(|operand| *operand != own && chains.contains(operand));
                assert_eq!(others.next(), None, "{}: {}", kernel.name, instruction.operands);
            }
        }
    }
}

/// Returns whether an instruction is a link of the chain: adds to or multiplies its own register.
fn is_link(row: &ChainRow, instruction: &Instruction) -> bool {
    let mnemonics: &[&str] = if row.multiplies { &["imul", "mul"] } else { &["add"] };
    let scalar = instruction.operands.split(',').all(|operand| operand.trim().starts_with(['%', 'x']));
    let vector = instruction.operands.contains("mm");
    mnemonics.contains(&instruction.mnemonic.as_str()) && scalar && !vector
}

#[test]
fn chains_have_the_links_and_the_vector_work_that_their_rows_declare() {
    let Some(disassembly) = disassemble_or_skip() else { return };
    for row in chains() {
        let code = function(&disassembly, row.name);
        let body = body(row.name, &code);
        let links: Vec<&&Instruction> = body.iter().filter(|i| is_link(&row, i)).collect();
        assert_eq!(links.len() as u64, row.links, "{}: links", row.name);
        // Each link is the same instruction with its own result as source, so links are dependent.
        assert!(links.iter().all(|link| link.operands == links[0].operands), "{}", row.name);
        let registers = row.isa.map_or("none", vector_registers);
        let wide = body.iter().filter(|i| i.operands.starts_with(registers));
        assert_eq!(wide.count() as u64, row.vectors, "{}: vector work", row.name);
        assert_eq!(body.len() as u64, row.links + row.vectors + 2, "{}: its loop's control", row.name);
    }
}

#[derive(Debug, Default, PartialEq)]
struct Moved {
    loads: u32,
    stores: u32,
    non_temporal: u32,
    prefetches: u32,
}

fn declared(kernel: &StreamKernel) -> Moved {
    let vector = match kernel.isa {
        Isa::Sse2 | Isa::Neon => 16,
        Isa::Avx2 => 32,
        Isa::Avx512 => 64,
        other => panic!("no width for {other}"),
    };
    let vectors = |arrays: u64| kernel.turn / vector * u32::try_from(arrays).unwrap();
    let stores = vectors(kernel.op.stores());
    Moved {
        loads: vectors(kernel.op.loads()),
        stores,
        non_temporal: if kernel.store == StoreKind::NonTemporal { stores } else { 0 },
        prefetches: kernel.prefetched * kernel.turn / 64,
    }
}

/// Counts loads, stores and prefetches. In AT&T syntax the destination is last, and a memory
/// operand ends in a parenthesis.
fn moved(body: &[&Instruction]) -> Moved {
    let mut found = Moved::default();
    for instruction in body.iter().filter(|i| i.operands.contains('[')) {
        match instruction.mnemonic.as_str() {
            "prfm" => found.prefetches += 1,
            "ldp" | "ldnp" => found.loads += 2,
            "stp" => found.stores += 2,
            "stnp" => {
                found.stores += 2;
                found.non_temporal += 2;
            }
            other => panic!("{other} is not an instruction of a bandwidth kernel"),
        }
    }
    for instruction in body.iter().filter(|i| i.operands.contains('(')) {
        if instruction.mnemonic.starts_with("prefetch") {
            found.prefetches += 1;
        } else if instruction.operands.ends_with(')') {
            found.stores += 1;
            found.non_temporal += u32::from(instruction.mnemonic.contains("movnt"));
        } else {
            found.loads += 1;
        }
    }
    found
}

#[test]
fn bandwidth_kernels_load_and_store_what_their_rows_declare() {
    let Some(disassembly) = disassemble_or_skip() else { return };
    for kernel in stream::kernels().filter(|kernel| kernel.isa != Isa::Portable) {
        let code = function(&disassembly, kernel.name);
        if kernel.store == StoreKind::String {
            let instruction = kernel.variant().replace("rep_", "rep ");
            let wanted = instruction.replace("stosb", "stos");
            let found = code.iter().any(|i| format!("{} {}", i.mnemonic, i.operands).starts_with(&wanted));
            assert!(found, "{}: no {instruction}", kernel.name);
            continue;
        }
        let body = body(kernel.name, &code);
        assert_eq!(moved(&body), declared(kernel), "{}", kernel.name);
        let fenced = code.iter().any(|i| i.mnemonic == "sfence");
        let needed = kernel.store == StoreKind::NonTemporal && kernel.isa != Isa::Neon;
        assert_eq!(fenced, needed, "{}: fence", kernel.name);
    }
}

/// Returns the bytes moved between memory and a register; `None` for the stack, or no memory.
fn width(instruction: &Instruction) -> Option<u32> {
    let (mnemonic, operands) = (instruction.mnemonic.as_str(), instruction.operands.as_str());
    if !operands.contains('(')
        || operands.contains("(%rsp")
        || ["lea", "nop", "nopl", "nopw", "data16", "cs"].contains(&mnemonic)
    {
        return None;
    }
    let outside = operands.split(['(', ')']).step_by(2).collect::<String>();
    let register = outside.split(',').find(|part| part.starts_with('%')).unwrap_or_default();
    Some(match register.trim_start_matches('%') {
        _ if mnemonic == "movzbl" => 1,
        _ if mnemonic == "movzwl" => 2,
        name if name.starts_with("xmm") || name.starts_with("ymm") || name.starts_with("zmm") => 64,
        name if name.starts_with('r') => match name.chars().last() {
            Some('b') => 1,
            Some('w') => 2,
            Some('d') => 4,
            _ => 8,
        },
        name if name.starts_with('e') => 4,
        name if name.ends_with('l') => 1,
        name if name.len() == 2 => 2,
        _ => panic!("{mnemonic} {operands}: what width is it?"),
    })
}

#[test]
fn blocks_of_a_few_bytes_are_one_access_of_that_width_each() {
    const BLOCKS_A_TURN: usize = 16;
    const PLACES_A_TURN: usize = 8;
    // Keeps them in this program.
    let (op, order, pages) = (BlockOp::Read, BlockTraversal::Random, Pages::Small);
    let shape = BlockShape { op, order, block: 8, bytes: 4096, pages, seed: 1 };
    let mut region = Region::new(shape).unwrap();
    region.draw(600);
    assert_eq!(region.work(block::candidates(shape.op, shape.block)[0]), 600);
    region.verify().unwrap();
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let Some(disassembly) = disassemble_or_skip() else { return };
    for (what, accesses) in [("read", 1), ("write", 1), ("copy", 2)] {
        for (order, places) in [("", 0), ("_at", PLACES_A_TURN)] {
            let name = format!("block_{what}{order}");
            // The other loops handle less than a full iteration.
            let turns = functions(&disassembly, &name).into_iter().map(|code| {
                let widths = |last: &Instruction| -> Option<Vec<u32>> {
                    let start = loop_start(last)?;
                    let body = code.iter().filter(|i| (start..=last.address).contains(&i.address));
                    Some(body.filter_map(width).collect())
                };
                code.iter().filter_map(widths).max_by_key(Vec::len).unwrap_or_default()
            });
            let turns: Vec<Vec<u32>> = turns.collect();
            let blocks = if places > 0 { places } else { BLOCKS_A_TURN };
            for bytes in [1, 2, 4, 8] {
                let own = accesses * blocks + if bytes == 8 { places } else { 0 };
                let is_own = |turn: &&Vec<u32>| turn.iter().filter(|width| **width == bytes).count() == own;
                let turn = turns.iter().find(is_own);
                let turn = turn.unwrap_or_else(|| panic!("{name} of {bytes} bytes: {turns:?}"));
                assert_eq!(turn.len(), accesses * blocks + places, "{name}: {turn:?}");
            }
        }
    }
}
