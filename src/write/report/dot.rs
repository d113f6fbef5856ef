//! `-dot`: the graph as graphviz draws it. A box is as large as its flat, an arrow as thick as its calls, and red is hot.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::LazyLock;

use regex::Regex;

use super::Print;
use crate::tally::saved::graph::{Edge, Edges, Graph, Info, NodeTags, Nodes, Tag, base, mean};
use crate::tally::saved::trim::MAX_TAGS;
use crate::tally::text::Text;
use crate::tally::units::{label, percentage, scale};

impl Print<'_> {
    pub(super) fn dot(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.nodes();
        let trimmed = self.trimmed(&nodes, Edges::All);
        self.choose_unit(&trimmed);
        let first = self.saved.mappings.first().filter(|first| !first.file.is_empty());
        let title = first.map(|first| base(&first.file).to_owned());
        writeln!(out, "digraph \"{}\" {{", title.as_deref().unwrap_or("unnamed"))?;
        writeln!(out, "node [style=filled fillcolor=\"#f8f8f8\"]")?;
        let labels: Vec<String> = self.labels(&trimmed).iter().map(|label| escaped(label)).collect();
        write!(out, "subgraph cluster_L {{ \"{}\" [shape=box fontsize=16", labels[0])?;
        write!(out, " label=\"{}\\l\"", labels.join("\\l"))?;
        if let Some(title) = &title {
            write!(out, " tooltip=\"{title}\"")?;
        }
        writeln!(out, "] }}")?;
        let graph = &trimmed.graph;
        if !graph.order.is_empty() {
            self.dot_graph(out, &nodes, graph)?;
        }
        writeln!(out, "}}")
    }

    fn dot_graph(&self, out: &mut dyn Write, nodes: &Nodes, graph: &Graph) -> io::Result<()> {
        let edges = graph.edges_of(nodes);
        let most = graph.order.iter().map(|&node| graph.shown(node).0.unsigned_abs()).max().unwrap_or(0) as f64;
        let mut numbers: HashMap<u32, (usize, bool)> = HashMap::new();
        for (place, &node) in graph.order.iter().enumerate() {
            let number = place + 1;
            self.dot_node(out, nodes, graph, node, number, most)?;
            let is_inner = !edges.callees(node).is_empty();
            let tags = self.dot_tags(&graph.tags[node as usize], number, is_inner);
            out.write_all(tags.as_bytes())?;
            numbers.insert(node, (number, !tags.is_empty()));
        }
        for &id in edges.all() {
            let edge = &graph.edges[id as usize];
            if let (Some(&from), Some(&to)) = (numbers.get(&edge.from), numbers.get(&edge.to)) {
                self.dot_edge(out, nodes, edge, from, to.0)?;
            }
        }
        Ok(())
    }

    fn dot_node(
        &self,
        out: &mut dyn Write,
        nodes: &Nodes,
        graph: &Graph,
        node: u32,
        number: usize,
        most: f64,
    ) -> io::Result<()> {
        let (flat, cum) = graph.shown(node);
        let mut label = multiline(&nodes.infos[node as usize]);
        let share = |value: i64| percentage(value, self.total).trim().to_owned();
        let flat_value = self.shown(flat);
        label += &if flat == 0 { "0".to_owned() } else { format!("{flat_value} ({})", share(flat)) };
        let mut cum_value = flat_value;
        if cum != flat {
            label += if flat == 0 { " " } else { "\\n" };
            cum_value = self.shown(cum);
            label += &format!("of {cum_value} ({})", share(cum));
        }
        let much = flat.unsigned_abs() as f64;
        let growth = if most != 0.0 && flat != 0 { (16.0 * (much / most).sqrt()).ceil() as i64 } else { 0 };
        let score = cum as f64 / self.total.unsigned_abs() as f64;
        writeln!(
            out,
            "N{number} [label=\"{label}\" id=\"node{number}\" fontsize={} shape=box tooltip=\"{} ({cum_value})\" \
             color=\"{}\" fillcolor=\"{}\"]",
            8 + growth,
            escaped(nodes.name(node)),
            color(score, false),
            color(score, true)
        )
    }

    fn dot_tags(&self, tags: &NodeTags, number: usize, flat: bool) -> String {
        let mut out = String::new();
        let mut texts: Vec<&Tag> = tags.texts.values().collect();
        sort_tags(&mut texts, flat);
        for (place, tag) in texts.into_iter().take(MAX_TAGS).enumerate() {
            let much = if flat { tag.shown().0 } else { tag.shown().1 };
            if much == 0 {
                continue;
            }
            let weight = self.shown(much);
            let own = format!("N{number}_{place}");
            out += &nodelet(&own, &own, &format!("N{number}"), &tag.name, &weight, "");
            if let Some(under) = tags.numbers.get(&tag.name) {
                out += &self.dot_numbers(under, flat, &own);
            }
        }
        if let Some(under) = tags.numbers.get("") {
            out += &self.dot_numbers(under, flat, &format!("N{number}"));
        }
        out
    }

    fn dot_numbers(&self, under: &HashMap<String, Tag>, flat: bool, source: &str) -> String {
        let mut out = String::new();
        for (place, tag) in collapsed(under, flat).into_iter().enumerate() {
            let (of_flat, of_cum) = tag.shown();
            let (much, style) = if flat || of_flat == of_cum { (of_flat, "") } else { (of_cum, " style=\"dotted\"") };
            if much != 0 {
                let own = format!("N{source}_{place}");
                out += &nodelet(&own, &own, source, &tag.name, &self.shown(much), style);
            }
        }
        out
    }

    fn dot_edge(
        &self,
        out: &mut dyn Write,
        nodes: &Nodes,
        edge: &Edge,
        (from, has_tags): (usize, bool),
        to: usize,
    ) -> io::Result<()> {
        let (much, weight) = (edge.shown(), self.shown(edge.shown()));
        let inline = if edge.inline { "\\n (inline)" } else { "" };
        let mut attributes = format!("label=\" {weight}{inline}\"");
        if self.total != 0 {
            let part = |of: i64| 1 + (much.wrapping_mul(of) / self.total).wrapping_abs().min(of);
            for (name, part) in [("weight", part(100)), ("penwidth", part(5))] {
                if part > 1 {
                    attributes += &format!(" {name}={part}");
                }
            }
            let score = much as f64 / self.total.unsigned_abs() as f64;
            attributes += &format!(" color=\"{}\"", color(score, false));
        }
        let arrow = if edge.residual { "..." } else { "->" };
        let (caller, callee) = (escaped(nodes.name(edge.from)), escaped(nodes.name(edge.to)));
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

fn nodelet(own: &str, id: &str, source: &str, name: &str, weight: &str, style: &str) -> String {
    format!(
        "{own} [label = \"{name}\" id=\"{id}\" fontsize=8 shape=box3d tooltip=\"{weight}\"]\n\
         {source} -> {own} [label=\" {weight}\" weight=100 tooltip=\"{weight}\" labeltooltip=\"{weight}\"{style}]\n"
    )
}

fn sort_tags(tags: &mut [&Tag], flat: bool) {
    let much = |value: i64| std::cmp::Reverse(value.unsigned_abs());
    tags.sort_by(|a, b| {
        let by_cum = if flat { std::cmp::Ordering::Equal } else { much(a.cum).cmp(&much(b.cum)) };
        by_cum.then(much(a.flat).cmp(&much(b.flat))).then_with(|| a.name.cmp(&b.name))
    });
}

/// Many numbers as a few ranges of them: `1MB..2MB`.
fn collapsed(under: &HashMap<String, Tag>, flat: bool) -> Vec<Tag> {
    let mut tags: Vec<&Tag> = under.values().collect();
    sort_tags(&mut tags, flat);
    if tags.len() <= MAX_TAGS {
        return tags.into_iter().cloned().collect();
    }
    let distance = |one: &Tag, other: &Tag| (one.value as f64 - scale(other.value, &other.unit, &one.unit).0).abs();
    let mut groups: Vec<Vec<&Tag>> = tags[..MAX_TAGS].iter().map(|&tag| vec![tag]).collect();
    for &tag in &tags[MAX_TAGS..] {
        let mut nearest = 0;
        for place in 1..groups.len() {
            if distance(tag, groups[place][0]) < distance(tag, groups[nearest][0]) {
                nearest = place;
            }
        }
        groups[nearest].push(tag);
    }
    let whole = |group: &Vec<&Tag>| {
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
        let sum = |of: fn(&Tag) -> i64| group.iter().fold(0i64, |sum, tag| sum.wrapping_add(of(tag)));
        let flat = mean(sum(|tag| tag.flat), sum(|tag| tag.divisors.0));
        let cum = mean(sum(|tag| tag.cum), sum(|tag| tag.divisors.1));
        Tag { name, flat, cum, ..Tag::default() }
    };
    let mut wholes: Vec<Tag> = groups.iter().map(whole).collect();
    let mut sorted: Vec<&Tag> = wholes.iter().collect();
    sort_tags(&mut sorted, flat);
    wholes = sorted.into_iter().cloned().collect();
    wholes
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\l")
}

fn multiline(info: &Info) -> String {
    let name = escaped(&shortened(&info.name)).replace("::", "\\n").replace("[...]", "[…]").replace('.', "\\n");
    let mut own = Info { name: Text::from(name), ..info.clone() };
    if !own.file.is_empty() {
        own.file = base(&info.file).into();
    }
    own.components().join("\\n") + "\\n"
}

static MODULE_VERSION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(.*?)/v(?:[2-9]|[1-9][0-9]+)([./].*)$").ok());
/// What of a name is worth its room, in Go, Java and C++.
static SHORT: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let all = [
        r"^(?:[0-9A-Za-z_.-]+/)+([^.]+\..+)",
        r"^(?:[a-z][0-9A-Za-z_]*\.)*([A-Z][0-9A-Za-z_$]*\.(?:<init>|[a-z][0-9A-Za-z_$]*(?:\$[0-9]+)?))(?:\(|$)",
        r"^(?:[_a-zA-Z][0-9A-Za-z_]*::)+(_*[A-Z][0-9A-Za-z_]*::~?[_a-zA-Z][0-9A-Za-z_]*(?:<.*>)?)",
    ];
    all.iter().filter_map(|text| Regex::new(text).ok()).collect()
});

fn shortened(name: &str) -> String {
    let name = name.strip_prefix("(anonymous namespace)::").unwrap_or(name);
    let name = match &*MODULE_VERSION {
        Some(version) => version.replace_all(name, "${1}${2}").into_owned(),
        None => name.to_owned(),
    };
    let short = SHORT.iter().find_map(|short| Some(short.captures(&name)?.get(1)?.as_str().to_owned()));
    short.unwrap_or(name)
}

/// Green for −1, grey for 0, red for 1.
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
    let byte = |part: f64| (part * 255.0) as u8;
    format!("#{:02x}{:02x}{:02x}", byte(red), byte(green), byte(blue))
}
