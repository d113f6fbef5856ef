//! `-topproto`: the rows of `-top` as a `profile.proto` with one location and sample for each node.

use std::collections::HashMap;
use std::io::{self, Write};

use super::printer::ReportPrinter;
use crate::pprof::format::proto;
use crate::pprof::graph::EdgeSelection;
use crate::pprof::profile::{Function, Line, Location, SavedProfile, ValueType};
use crate::pprof::samples::Samples;
use crate::pprof::units::scale;

impl ReportPrinter<'_> {
    pub(super) fn write_top_proto(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.build_nodes();
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::ToInlined);
        self.choose_unit(&trimmed);
        let graph = &trimmed.graph;
        let profile_unit = self.profile_unit();
        let convert = |value: i64| scale(value, &profile_unit, &self.unit).0 as i64;
        let mut top = SavedProfile {
            sample_types: vec![ValueType::new("cum", &self.unit), ValueType::new("flat", &self.unit)],
            samples: Samples::with_width(2),
            labels: vec![[].into()],
            time_ns: self.profile.time_ns,
            duration_ns: self.profile.duration_ns,
            period_type: self.profile.period_type.clone(),
            period: self.profile.period,
            ..SavedProfile::default()
        };
        let mut function_ids = HashMap::new();
        for (index, &node) in graph.order.iter().enumerate() {
            let info = &nodes.infos[node as usize];
            let functions = &mut top.functions;
            let function = *function_ids.entry(format!("{}{}", info.name, info.file)).or_insert_with(|| {
                let (name, file, start_line) = (info.name.clone(), info.file.clone(), info.start_line);
                // As in pprof, the function has no system name.
                functions.push(Function { name, file, start_line, ..Function::default() });
                functions.len() as u32 - 1
            });
            let lines = vec![Line { function, line: info.line, column: info.column }];
            let id = index as u64 + 1;
            top.locations.push(Location { id, address: info.address, lines, ..Location::default() });
            let (flat, cum) = graph.shown(node);
            top.samples.push(&[index as u32], &[convert(cum), convert(flat)], 0);
        }
        proto::write(out, &top)
    }
}
