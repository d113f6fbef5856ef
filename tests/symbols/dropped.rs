//! Debug information of functions that the linker left out names no address.

use crate::skips::are_installed;
use crate::workshop::{Workshop, ask_here};

/// A unit whose functions are all left out. Each is larger than the address where code begins.
fn gone() -> String {
    let steps = "w[0] = w[1] * n + 2; w[1] = w[2] ^ n; w[2] = w[3] + 3 * n; w[3] = w[0] - n;\n".repeat(200);
    format!(
        "volatile unsigned w[4];\nvoid gone_first(unsigned n) {{\n{steps}}}\nvoid gone_second(unsigned n) {{\n{steps}}}\n"
    )
}

/// A unit with functions that run, and a large one that is left out.
fn kept() -> String {
    let steps = "sink ^= n * 7; sink += n;\n".repeat(400);
    format!(
        "volatile unsigned sink;\n\
         __attribute__((noinline)) void gone_here(unsigned n) {{\n{steps}}}\n\
         __attribute__((noinline, section(\".text.heat\"))) void heat(unsigned n) {{\n\
         for (unsigned i = 0; i < n; i++)\n  sink = sink * 7 + i;\n}}\n\
         __attribute__((section(\".text.main\"))) int main(int count, char **words) {{\n\
         (void)words;\n  heat(count);\n  return 0;\n}}\n"
    )
}

/// Regression test: all samples of `heat` were those of `gone_first`, which is not in the file.
#[test]
fn functions_that_the_linker_left_out_name_nothing() {
    if !are_installed(&["objcopy"]) {
        return;
    }
    let has_gold = are_installed(&["ld.gold"]);
    for linker in ["-fuse-ld=bfd", "-fuse-ld=gold"].into_iter().filter(|linker| has_gold || !linker.contains("gold")) {
        for (format, sections) in
            [("-gdwarf-4", "-ffunction-sections"), ("-gdwarf-5", "-ffunction-sections"), ("-g", "-g")]
        {
            let shop = Workshop::new();
            std::fs::write(shop.path("gone.c"), gone()).unwrap();
            let arguments = ["-O1", format, sections, "-fPIE", "-pie", linker, "-Wl,--gc-sections", "gone.c"];
            let indexed = shop.build("gcc", ("kept.c", &kept()), &arguments, "indexed");
            // clang writes no index of units.
            shop.run("objcopy", &["--remove-section=.debug_aranges", "indexed", "plain"]);
            let symbols = shop.symbols("indexed");
            assert!(symbols.iter().all(|symbol| !symbol.name.starts_with("gone")), "they are not in the file");
            for path in [indexed, shop.path("plain")] {
                for name in ["heat", "main"] {
                    let function = shop.symbol("indexed", name);
                    let known = ask_here(&path, function.addresses());
                    for address in function.addresses() {
                        let case = format!(
                            "{} {linker} {format} {sections} {name}+{:#x}",
                            path.display(),
                            address - function.start
                        );
                        assert_eq!(known.names(address), [name], "{case}");
                        let line = &known.lines[&address][0];
                        assert!(line.file.ends_with("kept.c") && line.line > 400, "{case}: {line:?}");
                    }
                }
            }
        }
    }
}
