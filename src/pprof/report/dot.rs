//! `-dot`: the call graph for graphviz. The size of a box shows flat, its color cum, and the width
//! of an edge the weight of the calls.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use regex::Regex;

use super::printer::ReportPrinter;
use crate::pprof::graph::{Edge, EdgeSelection, Graph, NodeInfo, NodeTable, NodeTag, NodeTags, mean};
use crate::pprof::path::base;
use crate::pprof::trim::MAX_NODE_TAGS;
use crate::pprof::units::{label, percentage, scale};
use crate::tally::text::Text;

impl ReportPrinter<'_> {
    pub(super) fn print_dot(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.build_drawn_nodes()?;
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::All);
        self.choose_unit(&trimmed);
        let first = self.profile.mappings.first().filter(|first| !first.file.is_empty());
        let title = first.map(|first| base(&first.file).to_owned());
        writeln!(out, "digraph \"{}\" {{", title.as_deref().unwrap_or("unnamed"))?;
        writeln!(out, "node [style=filled fillcolor=\"#f8f8f8\"]")?;
        let labels: Vec<String> = self.header(&trimmed).iter().map(|label| escape(label)).collect();
        write!(out, "subgraph cluster_L {{ \"{}\" [shape=box fontsize=16", labels[0])?;
        write!(out, " label=\"{}\\l\"", labels.join("\\l"))?;
        if let Some(title) = &title {
            write!(out, " tooltip=\"{title}\"")?;
        }
        writeln!(out, "] }}")?;
        let graph = &trimmed.graph;
        if !graph.order.is_empty() {
            self.print_graph(out, &nodes, graph)?;
        }
        writeln!(out, "}}")
    }

    fn print_graph(&self, out: &mut dyn Write, nodes: &NodeTable, graph: &Graph) -> io::Result<()> {
        let edges = graph.edges_by_node(nodes);
        let max_flat = graph.order.iter().map(|&node| graph.shown(node).0.unsigned_abs()).max().unwrap_or(0) as f64;
        let mut numbers: HashMap<u32, (usize, bool)> = HashMap::new();
        for (index, &node) in graph.order.iter().enumerate() {
            let number = index + 1;
            self.print_node(out, nodes, graph, node, number, max_flat)?;
            let has_callees = !edges.callees(node).is_empty();
            let tags = self.format_tags(&graph.tags[node as usize], number, has_callees);
            out.write_all(tags.as_bytes())?;
            numbers.insert(node, (number, !tags.is_empty()));
        }
        for &id in edges.all() {
            let edge = &graph.edges[id as usize];
            if let (Some(&from), Some(&to)) = (numbers.get(&edge.from), numbers.get(&edge.to)) {
                self.print_edge(out, nodes, edge, from, to.0)?;
            }
        }
        Ok(())
    }

    fn print_node(
        &self,
        out: &mut dyn Write,
        nodes: &NodeTable,
        graph: &Graph,
        node: u32,
        number: usize,
        max_flat: f64,
    ) -> io::Result<()> {
        let (flat, cum) = graph.shown(node);
        let mut label = multiline_name(&nodes.infos[node as usize]);
        let share = |value: i64| percentage(value, self.total).trim().to_owned();
        let flat_value = self.format(flat);
        label += &if flat == 0 { "0".to_owned() } else { format!("{flat_value} ({})", share(flat)) };
        let mut cum_value = flat_value;
        if cum != flat {
            label += if flat == 0 { " " } else { "\\n" };
            cum_value = self.format(cum);
            label += &format!("of {cum_value} ({})", share(cum));
        }
        let magnitude = flat.unsigned_abs() as f64;
        let growth =
            if max_flat != 0.0 && flat != 0 { (16.0 * (magnitude / max_flat).sqrt()).ceil() as i64 } else { 0 };
        let score = cum as f64 / self.total.unsigned_abs() as f64;
        writeln!(
            out,
            "N{number} [label=\"{label}\" id=\"node{number}\" fontsize={} shape=box tooltip=\"{} ({cum_value})\" \
             color=\"{}\" fillcolor=\"{}\"]",
            8 + growth,
            escape(nodes.name(node)),
            color(score, false),
            color(score, true)
        )
    }

    fn format_tags(&self, tags: &NodeTags, number: usize, flat: bool) -> String {
        let mut out = String::new();
        let mut texts: Vec<&NodeTag> = tags.texts.values().collect();
        sort_tags(&mut texts, flat);
        for (index, tag) in texts.into_iter().take(MAX_NODE_TAGS).enumerate() {
            let value = if flat { tag.shown().0 } else { tag.shown().1 };
            if value == 0 {
                continue;
            }
            let weight = self.format(value);
            let own = format!("N{number}_{index}");
            out += &format_tag_node(&own, &own, &format!("N{number}"), &tag.name, &weight, "");
            if let Some(under) = tags.numbers.get(&tag.name) {
                out += &self.format_numeric_tags(under, flat, &own);
            }
        }
        if let Some(under) = tags.numbers.get("") {
            out += &self.format_numeric_tags(under, flat, &format!("N{number}"));
        }
        out
    }

    fn format_numeric_tags(&self, under: &HashMap<String, NodeTag>, flat: bool, source: &str) -> String {
        let mut out = String::new();
        for (index, tag) in merge_numeric_tags(under, flat).into_iter().enumerate() {
            let (of_flat, of_cum) = tag.shown();
            let (value, style) = if flat || of_flat == of_cum { (of_flat, "") } else { (of_cum, " style=\"dotted\"") };
            if value != 0 {
                let own = format!("N{source}_{index}");
                out += &format_tag_node(&own, &own, source, &tag.name, &self.format(value), style);
            }
        }
        out
    }

    fn print_edge(
        &self,
        out: &mut dyn Write,
        nodes: &NodeTable,
        edge: &Edge,
        (from, has_tags): (usize, bool),
        to: usize,
    ) -> io::Result<()> {
        let (value, weight) = (edge.shown_weight(), self.format(edge.shown_weight()));
        let inline = if edge.inline { "\\n (inline)" } else { "" };
        let mut attributes = format!("label=\" {weight}{inline}\"");
        if self.total != 0 {
            let width = |scale: i64| 1 + (value.wrapping_mul(scale) / self.total).wrapping_abs().min(scale);
            for (name, width) in [("weight", width(100)), ("penwidth", width(5))] {
                if width > 1 {
                    attributes += &format!(" {name}={width}");
                }
            }
            let score = value as f64 / self.total.unsigned_abs() as f64;
            attributes += &format!(" color=\"{}\"", color(score, false));
        }
        let arrow = if edge.residual { "..." } else { "->" };
        let (caller, callee) = (escape(nodes.name(edge.from)), escape(nodes.name(edge.to)));
        let tooltip = format!("\"{caller} {arrow} {callee} ({weight})\"");
        attributes += &format!(" tooltip={tooltip} labeltooltip={tooltip}");
        if edge.residual {
            attributes += " style=\"dotted\"";
        }
        if has_tags {
            attributes += " minlen=2";
        }
        writeln!(out, "N{from} -> N{to} [{attributes}]")
    }
}

/// Formats a tag as a small node with an edge from its source.
fn format_tag_node(own: &str, id: &str, source: &str, name: &str, weight: &str, style: &str) -> String {
    format!(
        "{own} [label = \"{name}\" id=\"{id}\" fontsize=8 shape=box3d tooltip=\"{weight}\"]\n\
         {source} -> {own} [label=\" {weight}\" weight=100 tooltip=\"{weight}\" labeltooltip=\"{weight}\"{style}]\n"
    )
}

fn sort_tags(tags: &mut [&NodeTag], flat: bool) {
    let magnitude = |value: i64| std::cmp::Reverse(value.unsigned_abs());
    tags.sort_by(|a, b| {
        let by_cum = if flat { std::cmp::Ordering::Equal } else { magnitude(a.cum).cmp(&magnitude(b.cum)) };
        by_cum.then(magnitude(a.flat).cmp(&magnitude(b.flat))).then_with(|| a.name.cmp(&b.name))
    });
}

/// Merges numeric tags into at most [`MAX_NODE_TAGS`] ranges: `1MB..2MB`.
fn merge_numeric_tags(under: &HashMap<String, NodeTag>, flat: bool) -> Vec<NodeTag> {
    let mut tags: Vec<&NodeTag> = under.values().collect();
    sort_tags(&mut tags, flat);
    if tags.len() <= MAX_NODE_TAGS {
        return tags.into_iter().cloned().collect();
    }
    let distance =
        |one: &NodeTag, other: &NodeTag| (one.value as f64 - scale(other.value, &other.unit, &one.unit).0).abs();
    let mut groups: Vec<Vec<&NodeTag>> = tags[..MAX_NODE_TAGS].iter().map(|&tag| vec![tag]).collect();
    for &tag in &tags[MAX_NODE_TAGS..] {
        let mut nearest = 0;
        for index in 1..groups.len() {
            if distance(tag, groups[index][0]) < distance(tag, groups[nearest][0]) {
                nearest = index;
            }
        }
        groups[nearest].push(tag);
    }
    let merge = |group: &Vec<&NodeTag>| {
        let (mut low, mut high) = (group[0], group[0]);
        for &tag in &group[1..] {
            if (scale(tag.value, &tag.unit, &low.unit).0 as i64) < low.value {
                low = tag;
            }
            if scale(tag.value, &tag.unit, &high.unit).0 as i64 > high.value {
                high = tag;
            }
        }
        let name = match group.len() {
            1 => label(low.value, &low.unit),
            _ => format!("{}..{}", label(low.value, &low.unit), label(high.value, &high.unit)),
        };
        let sum = |of: fn(&NodeTag) -> i64| group.iter().fold(0i64, |sum, tag| sum.wrapping_add(of(tag)));
        let flat = mean(sum(|tag| tag.flat), sum(|tag| tag.divisors.0));
        let cum = mean(sum(|tag| tag.cum), sum(|tag| tag.divisors.1));
        NodeTag { name, flat, cum, ..NodeTag::default() }
    };
    let merged: Vec<NodeTag> = groups.iter().map(merge).collect();
    let mut sorted: Vec<&NodeTag> = merged.iter().collect();
    sort_tags(&mut sorted, flat);
    sorted.into_iter().cloned().collect()
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l")
}

/// The label of a node, with its name broken into lines.
fn multiline_name(info: &NodeInfo) -> String {
    let name = escape(&shorten(&info.name)).replace("::", "\\n").replace("[...]", "[…]").replace('.', "\\n");
    let mut own = NodeInfo { name: Text::from(name), ..info.clone() };
    if !own.file.is_empty() {
        own.file = base(&info.file).into();
    }
    own.name_components().join("\\n") + "\\n"
}

/// The version in the path of a Go module.
static MODULE_VERSION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(.*?)/v(?:[2-9]|[1-9][0-9]+)([./].*)$").ok());
/// The significant part of a name in Go, Java and C++.
static SIGNIFICANT_PART: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let all = [
        r"^(?:[0-9A-Za-z_.-]+/)+([^.]+\..+)",
        r"^(?:[a-z][0-9A-Za-z_]*\.)*([A-Z][0-9A-Za-z_$]*\.(?:<init>|[a-z][0-9A-Za-z_$]*(?:\$[0-9]+)?))(?:\(|$)",
        r"^(?:[_a-zA-Z][0-9A-Za-z_]*::)+(_*[A-Z][0-9A-Za-z_]*::~?[_a-zA-Z][0-9A-Za-z_]*(?:<.*>)?)",
    ];
    all.iter().filter_map(|text| Regex::new(text).ok()).collect()
});

fn shorten(name: &str) -> String {
    let name = name.strip_prefix("(anonymous namespace)::").unwrap_or(name);
    let name = match &*MODULE_VERSION {
        Some(version) => version.replace_all(name, "${1}${2}").into_owned(),
        None => name.to_owned(),
    };
    let short = SIGNIFICANT_PART.iter().find_map(|part| Some(part.captures(&name)?.get(1)?.as_str().to_owned()));
    short.unwrap_or(name)
}

/// The color of a score: green for -1, gray for 0, red for 1.
fn color(score: f64, is_background: bool) -> String {
    const SHIFT: f64 = 0.7;
    let (mut saturation, value) = if is_background { (0.1, 0.93) } else { (1.0, 0.7) };
    let mut score = score.clamp(-1.0, 1.0);
    if score.abs() < 0.2 {
        saturation *= score.abs() / 0.2;
    }
    if score > 0.0 {
        score = score.powf(1.0 - SHIFT);
    } else if score < 0.0 {
        score = -(-score).powf(1.0 - SHIFT);
    }
    let (red, green) = if score < 0.0 {
        (value * (1.0 + saturation * score), value)
    } else {
        (value, value * (1.0 - saturation * score))
    };
    let blue = value * (1.0 - saturation);
    let byte = |channel: f64| (channel * 255.0) as u8;
    format!("#{:02x}{:02x}{:02x}", byte(red), byte(green), byte(blue))
}
