//! Code shared by all kinds of reports: it builds nodes and graph for the options, and formats
//! values.

use std::io;

use super::options::{Granularity, ReportKind, ReportOptions};
use crate::pprof::call_tree;
use crate::pprof::format::SaveFormat;
use crate::pprof::graph::{EdgeSelection, GraphOptions, NodeIdentity, NodeOrder, NodeTable, TagOptions};
use crate::pprof::own_code::LibraryValues;
use crate::pprof::path;
use crate::pprof::profile::SavedProfile;
use crate::pprof::tag_filter::LabelUnits;
use crate::pprof::trim::{TrimOptions, TrimmedGraph, build_trimmed};
use crate::pprof::units::{scale, scaled_label};

/// A report in progress.
pub(super) struct ReportPrinter<'a> {
    /// The profile that the filters left.
    pub(super) profile: SavedProfile,
    pub(super) options: &'a ReportOptions,
    /// The values that own functions have spent in libraries, where foreign code is folded.
    pub(super) libraries: Option<LibraryValues>,
    /// The units of numeric labels in the unfiltered profile.
    pub(super) label_units: LabelUnits,
    /// The index of the sample type.
    pub(super) value: usize,
    /// The total that percentages are relative to.
    pub(super) total: i64,
    /// The unit of all values, or `minimum` before [`ReportPrinter::choose_unit`].
    pub(super) unit: String,
}

impl ReportPrinter<'_> {
    pub(super) fn granularity(&self) -> Granularity {
        match self.options.kind {
            ReportKind::List(_) => Granularity::Lines,
            ReportKind::Disasm(_) | ReportKind::Raw | ReportKind::Callgrind | ReportKind::Export(SaveFormat::Proto) => {
                Granularity::Addresses
            }
            _ => self.options.granularity.unwrap_or(Granularity::Functions),
        }
    }

    fn node_identity(&self) -> NodeIdentity {
        use Granularity::{Addresses, FileFunctions, Files, Functions, Lines};
        let granularity = self.granularity();
        let is_any_of = |all: &[Granularity]| all.contains(&granularity);
        let line = is_any_of(&[Lines, Addresses]);
        // For addresses with inlined calls, pprof does not aggregate, so columns remain.
        let is_unaggregated = granularity == Addresses && !self.options.noinlines;
        NodeIdentity {
            function: is_any_of(&[Functions, FileFunctions, Lines, Addresses]),
            file: is_any_of(&[FileFunctions, Files, Lines, Addresses]),
            line,
            column: is_unaggregated || line && self.options.showcolumns,
            address: granularity == Addresses,
            object: matches!(
                self.options.kind,
                ReportKind::Raw | ReportKind::List(_) | ReportKind::Disasm(_) | ReportKind::Callgrind
            ),
        }
    }

    /// The nodes for the report's granularity.
    pub(super) fn build_nodes(&self) -> NodeTable {
        let ReportOptions { trim_path, source_path, .. } = self.options;
        NodeTable::build(&self.profile, self.node_identity(), |file| {
            path::trim_prefix(file, trim_path, source_path).to_owned()
        })
    }

    /// Whether the report shows a call tree: only drawings do.
    fn has_call_tree(&self) -> bool {
        self.options.call_tree && matches!(self.options.kind, ReportKind::Dot | ReportKind::Callgrind)
    }

    /// The nodes of a drawing: those of a call tree, if one is requested.
    ///
    /// # Errors
    /// If the tree is too large.
    pub(super) fn build_drawn_nodes(&mut self) -> io::Result<NodeTable> {
        let nodes = self.build_nodes();
        if !self.has_call_tree() {
            return Ok(nodes);
        }
        // Samples of a base are merged with those of the profile.
        self.profile.remove_base_labels();
        call_tree::split(&mut self.profile, &nodes).map_err(io::Error::other)
    }

    /// The nodes with unchanged source paths.
    pub(super) fn build_nodes_with_full_paths(&self) -> NodeTable {
        NodeTable::build(&self.profile, self.node_identity(), str::to_owned)
    }

    /// The graph within the report's limits.
    pub(super) fn build_trimmed_graph(&mut self, nodes: &NodeTable, edges: EdgeSelection) -> TrimmedGraph {
        self.profile.remove_base_labels();
        let default_count = if matches!(self.options.kind, ReportKind::Top | ReportKind::TopProto) { 0 } else { 80 };
        let order = match self.options.kind {
            ReportKind::Dot => NodeOrder::Entropy,
            _ if self.options.cum => NodeOrder::Cum,
            _ => NodeOrder::Flat,
        };
        let is_trimmed = self.options.trim
            && !matches!(self.options.kind, ReportKind::Peek(_) | ReportKind::List(_) | ReportKind::Callgrind);
        let trim = if is_trimmed {
            let ReportOptions { nodefraction, edgefraction, nodecount, .. } = *self.options;
            let node_count = nodecount.unwrap_or(default_count);
            TrimOptions { node_fraction: nodefraction, edge_fraction: edgefraction, node_count, order }
        } else {
            TrimOptions { order, ..TrimOptions::NONE }
        };
        let is_dot = self.options.kind == ReportKind::Dot;
        let tags = is_dot.then_some(TagOptions { unit: &self.unit, label_units: &self.label_units });
        let options = GraphOptions { tags, ..self.graph_options(edges) };
        build_trimmed(&self.profile, nodes, options, trim)
    }

    /// The options for a graph without tags.
    pub(super) fn graph_options(&self, edges: EdgeSelection) -> GraphOptions<'static> {
        let ReportOptions { drop_negative, mean, .. } = *self.options;
        GraphOptions {
            value: self.value,
            edges,
            tags: None,
            drop_negative,
            is_mean: mean,
            is_tree: self.has_call_tree(),
        }
    }

    /// The unit of the values in the profile.
    pub(super) fn profile_unit(&self) -> String {
        self.profile.sample_types[self.value].unit.as_str().to_owned()
    }

    /// Replaces the unit `minimum` by one that fits the smallest value in the graph.
    pub(super) fn choose_unit(&mut self, trimmed: &TrimmedGraph) {
        let graph = &trimmed.graph;
        if self.unit != "minimum" || graph.order.is_empty() {
            return;
        }
        let magnitude = |&node: &u32| {
            let (flat, cum) = graph.shown(node);
            if flat == 0 { cum.wrapping_abs() } else { flat.wrapping_abs() }
        };
        let own_unit = self.profile_unit();
        let min = graph.order.iter().map(magnitude).filter(|&value| value > 0).min().unwrap_or(self.total);
        let (min, max) = (self.divide(min), self.divide(self.total));
        let natural_unit = |value: i64| scale(value, &own_unit, "minimum").1;
        let (min_unit, max_unit) = (natural_unit(min), natural_unit(max));
        let hundredfold = min.wrapping_mul(100);
        let is_wide = min_unit != max_unit && hundredfold < max && self.options.kind != ReportKind::Callgrind;
        let unit = if is_wide { natural_unit(hundredfold) } else { min_unit };
        self.unit = if unit.is_empty() { own_unit } else { unit };
    }

    /// The name of the sample type.
    pub(super) fn value_name(&self) -> String {
        let prefix = if self.options.mean { "mean_" } else { "" };
        format!("{prefix}{}", self.profile.sample_types[self.value].kind)
    }

    /// The value, divided as `--divide-by` says.
    pub(super) fn divide(&self, value: i64) -> i64 {
        self.options.ratio().map_or(value, |ratio| (value as f64 * ratio) as i64)
    }

    /// Formats a value in the report's unit.
    pub(super) fn format(&self, value: i64) -> String {
        scaled_label(self.divide(value), &self.profile.sample_types[self.value].unit, &self.unit)
    }

    /// Formats a value in the report's unit; 0 is `.`.
    pub(super) fn format_or_dot(&self, value: i64) -> String {
        if value == 0 { ".".to_owned() } else { self.format(value) }
    }
}
