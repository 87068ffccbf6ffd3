//! Which crate may depend on which.

use crate::workspace::Member;

/// The members each member may depend on; docs/ARCHITECTURE.md says why. Tests and examples are free: they show how
/// crates work together.
const LAYERS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("data", &["core"]),
    ("protocol", &["core"]),
    ("neural", &["core"]),
    ("text", &["core"]),
    ("evaluate", &["core"]),
    ("privacy", &["core", "protocol"]),
    ("models", &["core", "protocol", "neural", "text", "privacy"]),
    ("client", &["core", "protocol", "neural", "text", "privacy", "models"]),
    ("federation", &["core", "protocol", "privacy", "models", "client", "evaluate"]),
    ("device", &["core", "protocol", "text", "privacy", "models", "client"]),
    ("audit", &["core", "protocol", "privacy", "models", "client", "evaluate", "federation"]),
    (
        "experiment",
        &[
            "core",
            "data",
            "protocol",
            "neural",
            "text",
            "privacy",
            "models",
            "client",
            "evaluate",
            "federation",
            "audit",
        ],
    ),
    ("keeper", &["privacy"]),
    ("server", &["core", "protocol", "text", "privacy", "models", "client", "federation"]),
    (TESTING, &["core", "data", "protocol", "neural", "privacy"]),
    (
        "cli",
        &[
            "core",
            "data",
            "protocol",
            "neural",
            "text",
            "privacy",
            "models",
            "client",
            "evaluate",
            "federation",
            "audit",
            "experiment",
            "device",
            "keeper",
            "server",
            TESTING,
        ],
    ),
    ("lite", &["cli"]),
    ("xtask", &[]),
];

/// The crate that everybody's tests may use, and of what is shipped only the program, for its benchmarks.
const TESTING: &str = "testing";

/// Crates from outside that only these members may use.
const RESERVED: &[(&str, &[&str])] =
    &[("tokio", &["keeper", "server"]), ("clap", &["cli"]), ("anyhow", &["cli", "xtask"])];

/// One line for each dependency that points the wrong way, and for each member without the workspace's lints.
pub(crate) fn violations(members: &[Member]) -> Vec<String> {
    let lints = members.iter().filter(|member| !member.has_lints).map(|member| {
        format!("{}: Cargo.toml has no `[lints] workspace = true`, so nothing asks for documentation", member.name)
    });
    let layers = members.iter().flat_map(|member| wrong_layers(member).into_iter().chain(wrong_guests(member)));
    lints.chain(layers).collect()
}

fn wrong_layers(member: &Member) -> Vec<String> {
    let name = &member.name;
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
        return vec![format!(
            "crates/{name}: has no place in the table of layers (xtask/src/lint/layers.rs, docs/ARCHITECTURE.md)"
        )];
    };
    let wrong = member.inner.iter().filter(|inner| !allowed.contains(&inner.as_str()));
    let may = if allowed.is_empty() { "no other crate".to_owned() } else { allowed.join(", ") };
    wrong.map(|inner| format!("{name}: depends on {inner}, but may depend on {may} only")).collect()
}

fn wrong_guests(member: &Member) -> Vec<String> {
    let name = &member.name;
    let wrong = RESERVED
        .iter()
        .filter(|(guest, hosts)| member.outer.iter().any(|outer| outer == guest) && !hosts.contains(&name.as_str()));
    wrong.map(|(guest, hosts)| format!("{name}: {guest} is for {} only", hosts.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, inner: &[&str], outer: &[&str]) -> Member {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Member { name: name.to_owned(), inner: owned(inner), outer: owned(outer), benches: false, has_lints: true }
    }

    #[test]
    fn of_what_is_shipped_only_the_program_uses_the_testing_crate() {
        assert_eq!(violations(&[member("cli", &[TESTING], &[])]), [""; 0]);
        let shipped = violations(&[member("data", &[TESTING], &[])]);
        assert_eq!(shipped, ["data: depends on testing, but may depend on core only"]);
    }

    #[test]
    fn every_member_takes_the_lints_of_the_workspace() {
        let found = violations(&[Member { has_lints: false, ..member("core", &[], &[]) }]);
        assert!(found.len() == 1 && found[0].starts_with("core: Cargo.toml has no `[lints]"), "{found:?}");
    }

    #[test]
    fn dependencies_point_towards_core() {
        let right = [
            member("core", &[], &["libm"]),
            member("models", &["core"], &["rayon"]),
            member("experiment", &["data", "models", "evaluate"], &[]),
            member("cli", &["experiment", "core"], &["clap", "anyhow"]),
        ];
        assert_eq!(violations(&right), [""; 0]);
    }

    #[test]
    fn a_dependency_the_other_way_or_sideways_is_named() {
        let wrong = [member("core", &["data"], &[]), member("models", &["core", "evaluate"], &[])];
        let expected = [
            "core: depends on data, but may depend on no other crate only",
            "models: depends on evaluate, but may depend on core, protocol, neural, text, privacy only",
        ];
        assert_eq!(violations(&wrong), expected);
    }

    #[test]
    fn a_new_crate_must_be_given_its_place() {
        let found = violations(&[member("attic", &[], &[])]);
        assert!(found.len() == 1 && found[0].starts_with("crates/attic: has no place"), "{found:?}");
    }

    #[test]
    fn reserved_crates_stay_where_they_belong() {
        let found = violations(&[member("data", &["core"], &["tokio", "memchr"]), member("xtask", &[], &["anyhow"])]);
        assert_eq!(found, ["data: tokio is for keeper, server only"]);
    }

    #[test]
    fn the_table_itself_has_no_circle() {
        for (position, (name, allowed)) in LAYERS.iter().enumerate() {
            let below: Vec<_> = LAYERS[..position].iter().map(|(name, _)| *name).collect();
            assert!(allowed.iter().all(|inner| below.contains(inner)), "{name} looks up");
        }
    }
}
