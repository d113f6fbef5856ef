//! The difference of the lines and addresses of one row.

use std::collections::HashMap;
use std::hash::Hash;

use super::bursts::Burstiness;
use super::significance_test::SignificanceTest;
use crate::tally::lines::{AddressWeight, Callee, LineWeight, RowLines};
use crate::tally::text::Text;

/// Returns the lines, addresses and callees of both with their differences. Names and call sites
/// are the current ones, as far as there are any.
pub fn diff_lines(now: &RowLines, before: &RowLines, (test, bursts): (&SignificanceTest, &Burstiness)) -> RowLines {
    // Lines are as bursty as their row.
    let (flat_burst, cum_burst) = bursts.row(&Text::from(now.full.as_str()));
    let test = test.with_burstiness(flat_burst.max(cum_burst));
    let known = if now.short.is_empty() { before } else { now };
    let (flat_ns, cum_ns, changes) =
        test.flat_and_cum((now.flat_ns, now.cum_ns), (before.flat_ns, before.cum_ns), None);
    let mut lines: Vec<LineWeight> = join(&now.lines, &before.lines, |line| (line.file.clone(), line.line))
        .filter_map(|(now, before)| diff_line(now, before, &test))
        .collect();
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let mut addresses: Vec<AddressWeight> =
        join(&now.addresses, &before.addresses, |address| (address.module, address.address))
            .filter_map(|(now, before)| diff_address(now, before, &test))
            .collect();
    addresses.sort_by_key(|address| (address.module, address.address));
    RowLines { flat_ns, cum_ns, changes: Some(changes), lines, addresses, ..known.clone() }
}

/// Pairs the items of both lists by key: the current ones first, then those that are gone.
fn join<'a, T, K: Hash + Eq>(
    now: &'a [T],
    before: &'a [T],
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = (Option<&'a T>, Option<&'a T>)> {
    let mut gone: HashMap<K, &T> = before.iter().map(|item| (key(item), item)).collect();
    let current: Vec<_> = now.iter().map(|item| (Some(item), gone.remove(&key(item)))).collect();
    let gone: Vec<_> = gone.into_values().map(|item| (None, Some(item))).collect();
    current.into_iter().chain(gone)
}

fn diff_line(now: Option<&LineWeight>, before: Option<&LineWeight>, test: &SignificanceTest) -> Option<LineWeight> {
    let weights = |line: Option<&LineWeight>| line.map_or((0, 0), |line| (line.flat_ns, line.cum_ns));
    let callees = |line: Option<&LineWeight>| line.map_or(Vec::new(), |line| line.callees.clone());
    let (flat_ns, cum_ns, changes) = test.flat_and_cum(weights(now), weights(before), None);
    let (callees_now, callees_before) = (callees(now), callees(before));
    let mut callees: Vec<Callee> = join(&callees_now, &callees_before, |callee| callee.full.clone())
        .filter_map(|(now, before)| diff_callee(now, before, test))
        .collect();
    callees.sort_by(|a, b| b.weight_ns.cmp(&a.weight_ns).then_with(|| a.full.cmp(&b.full)));
    Some(LineWeight { flat_ns, cum_ns, callees, changes: Some(changes), ..now.or(before)?.clone() })
}

fn diff_callee(now: Option<&Callee>, before: Option<&Callee>, test: &SignificanceTest) -> Option<Callee> {
    let weight = |callee: Option<&Callee>| callee.map_or(0, |callee| callee.weight_ns);
    let difference = test.difference(weight(now), weight(before));
    Some(Callee { weight_ns: difference.ns, change: Some(difference.change), ..now.or(before)?.clone() })
}

fn diff_address(
    now: Option<&AddressWeight>,
    before: Option<&AddressWeight>,
    test: &SignificanceTest,
) -> Option<AddressWeight> {
    let weights = |address: Option<&AddressWeight>| address.map_or((0, 0), |address| (address.flat_ns, address.cum_ns));
    let (flat_ns, cum_ns, changes) = test.flat_and_cum(weights(now), weights(before), None);
    Some(AddressWeight { flat_ns, cum_ns, changes: Some(changes), ..*now.or(before)? })
}
