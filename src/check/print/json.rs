//! A check as JSON.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::table::{CheckReport, SideFacts};
use crate::check::compare::{ComparedRow, Measure};
use crate::check::verdict::{FALSE_ALARMS, Finding};

impl CheckReport {
    /// An object of the schema `sigtop.check.v1`.
    pub fn json(&self) -> Value {
        let (result, comparison) = (&self.result, &self.result.comparison);
        let (listed, others) = self.listed();
        let rows = listed.into_iter().map(|row| json_row(&comparison.rows[row], result.findings[row]));
        let side = |side: usize| {
            let SideFacts { files, commands, hosts, kernels, build_ids, lost, .. } = &self.sides[side];
            let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<String>>();
            json!({
                "files": files,
                "units": comparison.units[side],
                "samples": comparison.samples[side].round() as u64,
                "value": comparison.sums[side].round() as i64,
                "lost": lost.round() as u64,
                "commands": list(commands),
                "hosts": list(hosts),
                "kernels": list(kernels),
                "build_ids": list(build_ids),
            })
        };
        let measure = match comparison.measure {
            Measure::Share => "share",
            Measure::Time => "time",
        };
        json!({
            "schema": "sigtop.check.v1",
            "verdict": result.verdict.word(),
            "exit_status": result.verdict.status(),
            "reasons": result.reasons,
            "needed_factor": result.needed.map(|needed| needed.factor),
            "needed": self.needed_words(),
            "warnings": self.warnings(),
            "type": self.value_name,
            "unit": self.unit,
            "measure": measure,
            "units": comparison.kind.word(),
            "false_alarms": FALSE_ALARMS,
            "base": side(0),
            "new": side(1),
            "compared": comparison.rows.len(),
            "omitted": comparison.omitted.len(),
            "omitted_same": others,
            "total": json_row(&comparison.total, result.total),
            "functions": rows.collect::<Vec<Value>>(),
        })
    }
}

fn json_row(row: &ComparedRow, finding: Finding) -> Value {
    let percent = |fraction: f64| fraction * 100.0;
    json!({
        "name": row.name,
        "finding": finding.word(),
        "base_percent": percent(row.shares[0]),
        "new_percent": percent(row.shares[1]),
        "base": row.values[0].round() as i64,
        "new": row.values[1].round() as i64,
        "change_percent": row.change().map(percent),
        "margin_percent": row.margin().map(percent),
        "p": row.p,
    })
}
