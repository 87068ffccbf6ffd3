//! Mathematics whose last bit depends on the platform stays out of what must give the same bytes everywhere.

/// The crates whose results are promised to be the same on every machine. (`evaluate` draws plots too, where the last
/// bit is not seen; its metrics are compared within a tolerance. So does `experiment/src/report`.)
const CRATES: &[&str] = &["core", "protocol", "data", "neural", "text", "models", "experiment"];

/// Methods of floats that call the platform's mathematics library. Square roots are exact and therefore allowed.
const METHODS: &[&str] = &[
    "exp", "exp2", "exp_m1", "ln", "ln_1p", "log", "log2", "log10", "powf", "cbrt", "hypot", "sin", "cos", "tan",
    "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "sin_cos",
];

/// One line for each use outside tests.
pub(crate) fn violations(name: &str, content: &str) -> Vec<String> {
    if !is_bound(name) {
        return Vec::new();
    }
    let ordinary = content.lines().take_while(|line| line.trim() != "#[cfg(test)]").enumerate();
    let code = ordinary.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(number, line)| {
        let method = METHODS.iter().find(|method| line.contains(&format!(".{method}(")))?;
        Some(format!("{name}:{}: `.{method}(`: differs between platforms; use sottovoce_core::math", number + 1))
    })
    .collect()
}

fn is_bound(name: &str) -> bool {
    let source = CRATES.iter().any(|folder| name.starts_with(&format!("crates/{folder}/src/")));
    source && name.ends_with(".rs") && !name.ends_with("/tests.rs") && !name.contains("/report/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const USE: &str = "fn f(x: f32) -> f32 {\n    x.exp()\n}\n";

    #[test]
    fn platform_mathematics_is_found_in_models() {
        let found = violations("crates/models/src/central/x.rs", USE);
        let expected = "crates/models/src/central/x.rs:2: `.exp(`: differs between platforms; use sottovoce_core::math";
        assert_eq!(found, [expected]);
        assert_eq!(violations("crates/core/src/rng.rs", "y = x.powf(0.5);").len(), 1);
    }

    #[test]
    fn tests_comments_roots_and_other_crates_are_free() {
        let place = "crates/models/src/x.rs";
        assert_eq!(violations(place, &format!("#[cfg(test)]\nmod tests {{\n{USE}}}")), [""; 0]);
        assert_eq!(
            violations(place, "// as x.exp() would\nlet y = math::exp(x).sqrt().min(expr.expected());"),
            [""; 0]
        );
        for elsewhere in [
            "crates/evaluate/src/x.rs",
            "crates/models/tests/x.rs",
            "crates/models/src/x/tests.rs",
            "crates/experiment/src/report/x.rs",
        ] {
            assert_eq!(violations(elsewhere, USE), [""; 0], "{elsewhere}");
        }
    }
}
