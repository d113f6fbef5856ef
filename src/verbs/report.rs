//! `sigtop report`

use sigtop::cli::report::{Report, Symbolize};
use sigtop::report;
use sigtop::tally::saved::merge::Subtraction;
use sigtop::write::report::Form;

use super::playing::play;
use super::{Failure, complain};

/// `sigtop report`
pub(crate) fn report(given: &Report) -> Result<u8, Failure> {
    let is_diff = !given.diff_base.is_empty();
    let bases = if is_diff { &given.diff_base } else { &given.base };
    if given.normalize && bases.is_empty() {
        let sentence = "--normalize needs a profile to subtract: --base FILE or --diff-base FILE".to_owned();
        return Err(Failure { sentence, status: 2 });
    }
    let options = given.options();
    let sample_times = options.form == Form::Firefox;
    let asked = report::Asked {
        files: &given.files,
        bases,
        how: Subtraction { is_diff, normalize: given.normalize },
        options,
        output: given.output.as_deref(),
        symbolize: given.symbolize == Symbolize::Local,
        play: &|from, name| play(from, name, sample_times),
    };
    match report::run(&asked) {
        Ok(sentences) => sentences.iter().for_each(|sentence| complain(sentence)),
        // Whoever read it has seen enough.
        Err(error) if error.is_hangup() => {}
        Err(error) => return Err(Failure { sentence: error.to_string(), status: 125 }),
    }
    Ok(0)
}
