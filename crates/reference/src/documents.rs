use std::ops::Range;

use serde::de::IgnoredAny;

use crate::stated::{MAX_FIGURES, Stated, read, readable, unrecognised};
use crate::{RefTool, json};

struct TextPart {
    /// `None` for a JSON document from no known tool.
    ref_tool: Option<&'static RefTool>,
    range: Range<usize>,
    document: Option<Range<usize>>,
}

/// Reads all results in a text, in order: at least one. `format` names their tool; `None`: any
/// known tool. A result that cannot be read gives one line of error; the rest is still read.
pub fn read_all(text: &str, format: Option<&str>) -> Vec<Result<Stated, String>> {
    let ref_tools: Vec<&'static RefTool> =
        readable().filter(|ref_tool| format.is_none_or(|name| ref_tool.name == name)).collect();
    let parts = parts(text, &ref_tools);
    if parts.iter().all(|part| part.ref_tool.is_none()) {
        return vec![read(text, format)];
    }
    let mut left = MAX_FIGURES;
    let results = parts.into_iter().map(|part| {
        let ref_tool = part.ref_tool.ok_or_else(|| {
            unrecognised(&text[part.range.clone()], "no known tool wrote its JSON document")
        })?;
        let stated = read(&text[part.range], Some(ref_tool.name))?;
        left = left.checked_sub(stated.figures.len()).ok_or_else(crate::stated::too_many)?;
        Ok(stated)
    });
    results.collect()
}

fn parts(text: &str, ref_tools: &[&'static RefTool]) -> Vec<TextPart> {
    let mut documents: Vec<TextPart> = Vec::new();
    for range in json::extents(text) {
        let document = &text[range.clone()];
        let is_object = || document.contains(':') && serde_json::from_str::<IgnoredAny>(document).is_ok();
        let recognised = ref_tools.iter().copied().find(|ref_tool| (ref_tool.results.recognises)(document));
        if let Some(last) = documents.last_mut()
            && let (Some(ref_tool), Some(before)) = (last.ref_tool, last.document.clone())
            && (ref_tool.results.continues)(&text[before], document)
        {
            last.range.end = range.end;
            last.document = Some(range);
        } else if recognised.is_some() || ref_tools.len() > 1 && is_object() {
            documents.push(TextPart { ref_tool: recognised, range: range.clone(), document: Some(range) });
        }
    }
    let is_json = |ref_tool: &RefTool| {
        let name = ref_tool.name;
        documents.iter().any(|part| part.ref_tool.is_some_and(|known| known.name == name))
    };
    let mut texts: Vec<TextPart> = Vec::new();
    let mut from = 0;
    for end in documents.iter().map(|part| part.range.clone()).chain(std::iter::once(text.len()..text.len()))
    {
        let found = text_parts(&text[from..end.start], ref_tools).into_iter();
        // With both formats, fio writes its normal output around its JSON.
        let found = found.filter(|part| part.ref_tool.is_some_and(|ref_tool| !is_json(ref_tool)));
        let moved = |range: Range<usize>| range.start + from..range.end + from;
        texts.extend(found.map(|part| TextPart { range: moved(part.range), ..part }));
        from = end.end;
    }
    documents.extend(texts);
    documents.sort_by_key(|part| part.range.start);
    documents
}

fn text_parts(text: &str, ref_tools: &[&'static RefTool]) -> Vec<TextPart> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let starts = |ref_tool: &&'static RefTool| -> Vec<_> {
        (ref_tool.results.starts)(text).into_iter().map(|at| (at, Some(*ref_tool))).collect()
    };
    let mut starts: Vec<(usize, Option<&'static RefTool>)> = ref_tools.iter().flat_map(starts).collect();
    starts.sort_by_key(|(at, _)| *at);
    starts.dedup_by_key(|(at, _)| *at);
    if starts.first().is_none_or(|(at, _)| *at > 0) {
        starts.insert(0, (0, None));
    }
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    let pieces = starts.iter().zip(ends).map(|((start, ref_tool), end)| {
        let piece = &text[*start..end];
        let ref_tool = ref_tool
            .or_else(|| ref_tools.iter().copied().find(|ref_tool| (ref_tool.results.recognises)(piece)));
        TextPart { ref_tool, range: *start..end, document: None }
    });
    pieces.filter(|part| part.ref_tool.is_some()).collect()
}

/// Returns the byte offset of each line for which `is_start` (of the line without its end) holds.
pub(crate) fn line_starts<'a>(text: &'a str, mut is_start: impl FnMut(&'a str) -> bool) -> Vec<usize> {
    let mut end = 0;
    let start = |line: &'a str| {
        end += line.len();
        is_start(line.trim_end()).then_some(end - line.len())
    };
    text.split_inclusive('\n').filter_map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_results(text: &str) -> Vec<Result<(&'static str, f64), String>> {
        let value = |stated: Stated| (stated.tool, stated.figures.first().map_or(0.0, |figure| figure.value));
        read_all(text, None).into_iter().map(|result| result.map(value)).collect()
    }

    fn fio(name: &str, rate: u64) -> String {
        format!(
            "{{\"fio version\": \"fio-3.33\",\n\"jobs\": [{{\"jobname\": \"{name}\", \"read\": {{\"bw_bytes\": {rate}}}}}]}}\n"
        )
    }

    const STREAM: &str = "----\nSTREAM version $Revision: 5.10 $\n----\nArray size = 1000 (elements)\n\
        Function    Best Rate MB/s  Avg time     Min time     Max time\n\
        Copy:           20000.1     0.032000     0.032000     0.032000\n\
        Triad:          30000.1     0.032000     0.032000     0.032000\n";
    const NETPERF: &str = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to host () port 0 AF_INET\n\
        87380  16384  16384    10.00     941.00\n";
    const KEYS: &str = "THROUGHPUT=100\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=1\n";
    const SYSBENCH: &str = "sysbench 1.0.20 (using LuaJIT)\n\nRunning the test with following options:\n\
        Number of threads: 1\nPrime numbers limit: 10000\nevents per second: 900.5\n";

    #[test]
    fn all_documents_of_a_file_are_read() {
        for separator in ["", "\n", "some text\n", ",\n"] {
            let text = format!("{}{separator}{}", fio("a", 1000).trim_end(), fio("b", 2000));
            assert_eq!(read_results(&text), [Ok(("fio", 1000.0)), Ok(("fio", 2000.0))], "{separator}");
        }
        let array = format!("[\n{},{}]\n", fio("a", 1), fio("b", 2));
        assert_eq!(read_results(&array), [Ok(("fio", 1.0)), Ok(("fio", 2.0))]);
        for (one, tool) in
            [(STREAM, "stream"), (NETPERF, "netperf"), (KEYS, "netperf"), (SYSBENCH, "sysbench")]
        {
            let results = read_results(&one.repeat(3));
            assert_eq!(results.len(), 3, "{one}");
            assert!(results.iter().all(|result| result.as_ref().unwrap().0 == tool), "{results:?}");
        }
    }

    #[test]
    fn results_of_different_tools_in_one_file_are_read() {
        let text = [STREAM, SYSBENCH, &fio("a", 7), KEYS, NETPERF].concat();
        let tools: Vec<_> = read_results(&text).into_iter().map(|result| result.unwrap().0).collect();
        assert_eq!(tools, ["stream", "sysbench", "fio", "netperf", "netperf"]);
        assert_eq!(read_all(&text, Some("stream")).len(), 1);
    }

    #[test]
    fn a_document_that_cannot_be_read_does_not_silence_the_others() {
        let cut = fio("a", 1);
        let text = format!("{}\n{}{{\"x\": 1}}\n", &cut[..cut.len() - 8], fio("b", 2));
        let results = read_results(&text);
        assert_eq!((results.len(), results[1].clone()), (3, Ok(("fio", 2.0))));
        assert!(results[0].as_ref().unwrap_err().contains("cannot be read"), "{results:?}");
        assert!(results[2].as_ref().unwrap_err().contains("its JSON document"), "{results:?}");
    }

    #[test]
    fn the_events_of_a_stream_are_one_result() {
        let event = |name: &str, data: &str| format!("{{\"event\":\"{name}\",\"data\":{{{data}}}}}\n");
        let one = event("start", "\"version\":\"iperf 3.17\",\"test_start\":{\"protocol\":\"TCP\"}")
            + &event("interval", "\"sum\":{}")
            + &event("end", "\"sum_sent\":{},\"sum_received\":{\"bits_per_second\":5}");
        assert_eq!(read_results(&one), [Ok(("iperf3", 5.0))]);
        assert_eq!(read_results(&one.repeat(2)), [Ok(("iperf3", 5.0)), Ok(("iperf3", 5.0))]);
    }

    #[test]
    fn the_interim_documents_of_one_run_are_one_result() {
        let interim = |stamp: u64, elapsed: u64, bytes: u64| {
            format!(
                "{{\"fio version\": \"fio-3.33\", \"timestamp_ms\": {stamp}, \"jobs\": [{{\"jobname\": \"a\", \
                 \"elapsed\": {elapsed}, \"read\": {{\"bw_bytes\": 5, \"io_bytes\": {bytes}, \"runtime\": {elapsed}000}}}}]}}\n"
            )
        };
        let run = interim(60_000, 1, 5) + &interim(61_010, 2, 10) + &interim(61_900, 3, 15);
        assert_eq!(read_results(&run).len(), 1);
        // A second run of the same job, of the same length.
        assert_eq!(read_results(&(run + &interim(70_000, 3, 16))).len(), 2);
        assert_eq!(read_results(&interim(60_000, 3, 5).repeat(2)).len(), 2);
    }

    #[test]
    fn text_for_people_beside_a_document_is_passed_over() {
        let text = format!("a: (groupid=0, jobs=1): err= 0: pid=1\n  read: IOPS=20.9k\n{}", fio("a", 3));
        assert_eq!(read_results(&text), [Ok(("fio", 3.0))]);
    }

    #[test]
    fn the_figures_of_all_results_together_are_bounded() {
        let text = fio("a", 1).repeat(MAX_FIGURES + 1);
        assert!(read_all(&text, None).last().unwrap().as_ref().unwrap_err().contains("more than"));
    }
}
