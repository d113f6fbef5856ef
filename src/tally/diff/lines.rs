//! Lines and addresses of one row, as differences from what they were.

use std::collections::HashMap;

use super::{Bursts, Changes, Judge};
use crate::tally::lines::{AddressWeight, Callee, LineWeight, Lines};
use crate::tally::text::Text;

/// What lines, addresses and calls of a row have more or less than those of the same row. Where it is inlined, and what it is called, is
/// as it is now, unless it is nowhere now.
pub fn lines(now: &Lines, before: &Lines, (judge, bursts): (&Judge, &Bursts)) -> Lines {
    // Its lines are as bursty as it is.
    let burst = bursts.row(&Text::from(now.full.as_str()));
    let judge = judge.of_bursts(burst.0.max(burst.1));
    let known = if now.short.is_empty() { before } else { now };
    let (flat_ns, cum_ns, changes) =
        changed((now.flat_ns, now.cum_ns), (before.flat_ns, before.cum_ns), &judge.among(1));
    let of_lines = judge.among(now.lines.len().max(before.lines.len()));
    let mut lines: Vec<LineWeight> = joined(&now.lines, &before.lines, |line| (line.file.clone(), line.line))
        .filter_map(|(one, other)| line(one, other, &of_lines))
        .collect();
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let of_addresses = judge.among(now.addresses.len().max(before.addresses.len()));
    let mut addresses: Vec<AddressWeight> =
        joined(&now.addresses, &before.addresses, |spot| (spot.module, spot.address))
            .filter_map(|(one, other)| address(one, other, &of_addresses))
            .collect();
    addresses.sort_by_key(|spot| (spot.module, spot.address));
    Lines { flat_ns, cum_ns, changes: Some(changes), lines, addresses, ..known.clone() }
}

fn changed(now: (u64, u64), before: (u64, u64), judge: &Judge) -> (u64, u64, Changes) {
    let (flat, cum) = (judge.difference(now.0, before.0), judge.difference(now.1, before.1));
    (flat.ns, cum.ns, Changes { flat: flat.change, cum: cum.change })
}

/// Those of now, each with its counterpart, then those that were.
fn joined<'a, T, K: std::hash::Hash + Eq>(
    now: &'a [T],
    before: &'a [T],
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = (Option<&'a T>, Option<&'a T>)> {
    let mut gone: HashMap<K, &T> = before.iter().map(|known| (key(known), known)).collect();
    let kept: Vec<_> = now.iter().map(|known| (Some(known), gone.remove(&key(known)))).collect();
    let gone: Vec<_> = gone.into_values().map(|known| (None, Some(known))).collect();
    kept.into_iter().chain(gone)
}

fn line(now: Option<&LineWeight>, before: Option<&LineWeight>, judge: &Judge) -> Option<LineWeight> {
    let numbers = |line: Option<&LineWeight>| line.map_or((0, 0), |line| (line.flat_ns, line.cum_ns));
    let callees = |line: Option<&LineWeight>| line.map_or(Vec::new(), |line| line.callees.clone());
    let (flat_ns, cum_ns, changes) = changed(numbers(now), numbers(before), judge);
    let (ones, others) = (callees(now), callees(before));
    let mut callees: Vec<Callee> = joined(&ones, &others, |callee| callee.full.clone())
        .filter_map(|(one, other)| callee(one, other, judge))
        .collect();
    callees.sort_by(|a, b| b.weight_ns.cmp(&a.weight_ns).then_with(|| a.full.cmp(&b.full)));
    Some(LineWeight { flat_ns, cum_ns, callees, changes: Some(changes), ..now.or(before)?.clone() })
}

fn callee(now: Option<&Callee>, before: Option<&Callee>, judge: &Judge) -> Option<Callee> {
    let weight = |callee: Option<&Callee>| callee.map_or(0, |callee| callee.weight_ns);
    let difference = judge.difference(weight(now), weight(before));
    Some(Callee { weight_ns: difference.ns, change: Some(difference.change), ..now.or(before)?.clone() })
}

fn address(now: Option<&AddressWeight>, before: Option<&AddressWeight>, judge: &Judge) -> Option<AddressWeight> {
    let numbers = |spot: Option<&AddressWeight>| spot.map_or((0, 0), |spot| (spot.flat_ns, spot.cum_ns));
    let (flat_ns, cum_ns, changes) = changed(numbers(now), numbers(before), judge);
    Some(AddressWeight { flat_ns, cum_ns, changes: Some(changes), ..*now.or(before)? })
}
