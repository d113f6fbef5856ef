//! The tools and their parameters, as `tools/list` has them.

use serde_json::{Map, Value, json};

/// A parameter: its name, its JSON type, and its description.
type Parameter = (&'static str, &'static str, &'static str);

const PROFILE: Parameter = ("profile", "string", "handle that record returned, such as r1");
const FUNCTION: Parameter = ("function", "string", "name of a function, or a part of it");
/// The parameters of each tool that reads a profile.
const FILTERS: [Parameter; 5] = [
    ("focus", "string", "regex: keep samples with a matching function, file or module"),
    ("ignore", "string", "regex: drop samples with a matching function, file or module"),
    ("thread", "string", "regex: keep threads with a matching name"),
    ("process", "string", "regex: keep processes with a matching name"),
    ("limit", "integer", "maximum number of rows, 1 to 500 (default 20)"),
];

/// A tool.
struct ToolSpec {
    name: &'static str,
    description: &'static str,
    parameters: &'static [Parameter],
    required: &'static [&'static str],
    has_filters: bool,
}

const TOOLS: [ToolSpec; 8] = [
    ToolSpec {
        name: "processes",
        description: "List running processes that can be profiled",
        parameters: &[
            ("filter", "string", "keep names that contain this"),
            ("limit", "integer", "maximum number of rows, 1 to 500 (default 20)"),
        ],
        required: &[],
        has_filters: false,
    },
    ToolSpec {
        name: "record",
        description: "Profile a process or a command for some seconds, or open a file (.sigtop, pprof, perf script, \
            folded); returns a handle and a summary in sentences",
        parameters: &[
            ("pid", "integer", "process to attach to"),
            ("name", "string", "name of the process to attach to"),
            ("command", "array", "program and its arguments, to start; it is left running at the end"),
            ("file", "string", "path of a recording or a saved profile"),
            ("seconds", "number", "duration, 0.1 to 60 (default 5)"),
            ("clock", "string", "wall (default: computing and waiting), cpu, alloc, live"),
        ],
        required: &[],
        has_filters: false,
    },
    ToolSpec {
        name: "top",
        description: "Functions by own time (flat) or with callees (cum)",
        parameters: &[PROFILE, ("sort", "string", "flat (default) or cum")],
        required: &["profile"],
        has_filters: true,
    },
    ToolSpec {
        name: "callers",
        description: "Callers and callees of a function",
        parameters: &[PROFILE, FUNCTION],
        required: &["profile", "function"],
        has_filters: true,
    },
    ToolSpec {
        name: "source",
        description: "Hottest source lines of a function",
        parameters: &[PROFILE, FUNCTION],
        required: &["profile", "function"],
        has_filters: true,
    },
    ToolSpec {
        name: "waits",
        description: "What threads wait for, where, and who holds the lock (clock wall)",
        parameters: &[PROFILE],
        required: &["profile"],
        has_filters: true,
    },
    ToolSpec {
        name: "threads",
        description: "Threads by time, with their hottest function",
        parameters: &[PROFILE],
        required: &["profile"],
        has_filters: true,
    },
    ToolSpec {
        name: "compare",
        description: "Functions whose share differs between two profiles",
        parameters: &[("base", "string", "handle of the older profile"), ("new", "string", "handle of the newer one")],
        required: &["base", "new"],
        has_filters: true,
    },
];

fn parameters(tool: &ToolSpec) -> impl Iterator<Item = Parameter> {
    tool.parameters.iter().copied().chain(FILTERS.into_iter().filter(|_| tool.has_filters))
}

/// The names of the parameters of a tool, if there is one of this name.
pub(super) fn parameter_names(name: &str) -> Option<Vec<&'static str>> {
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    Some(parameters(tool).map(|(name, ..)| name).collect())
}

/// The list of tools.
pub(super) fn list() -> Vec<Value> {
    let describe = |tool: &ToolSpec| {
        let properties: Map<String, Value> = parameters(tool)
            .map(|(name, kind, description)| {
                let mut schema = json!({"type": kind, "description": description});
                if kind == "array" {
                    schema["items"] = json!({"type": "string"});
                }
                (name.to_owned(), schema)
            })
            .collect();
        let schema = json!({"type": "object", "properties": properties, "required": tool.required});
        json!({"name": tool.name, "description": tool.description, "inputSchema": schema})
    };
    TOOLS.iter().map(describe).collect()
}
