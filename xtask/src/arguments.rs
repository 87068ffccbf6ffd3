//! The command line.

use crate::{prove, setup, steps};
use anyhow::{Result, bail, ensure};
use lexopt::prelude::*;
use std::ffi::OsString;

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    Help,
    List,
    Lint,
    Setup(Choice),
    Test(Choice),
    Prove { name: String, extent: prove::Extent },
    Bench(Vec<OsString>),
}

/// Which of several named things are wanted; all of them if nothing is said.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Choice {
    only: Vec<String>,
    skip: Vec<String>,
}

impl Choice {
    pub(crate) fn takes(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|chosen| chosen == name);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    /// A name that is not there would silently choose nothing, so it is an error.
    fn checked(self, known: &[&str]) -> Result<Self> {
        for name in self.only.iter().chain(&self.skip) {
            ensure!(known.contains(&name.as_str()), "there is no `{name}`; there are: {}", known.join(", "));
        }
        Ok(self)
    }
}

pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Task> {
    let command = match parser.next()? {
        None | Some(Short('h') | Long("help")) => return Ok(Task::Help),
        Some(Value(command)) => command.string()?,
        Some(other) => return Err(other.unexpected().into()),
    };
    match command.as_str() {
        "setup" => {
            let parts: Vec<_> = setup::PARTS.iter().map(|part| part.name).collect();
            Ok(Task::Setup(choice(&mut parser)?.checked(&parts)?))
        }
        "test" => {
            let steps: Vec<_> = steps::STEPS.iter().map(|step| step.name).collect();
            Ok(Task::Test(choice(&mut parser)?.checked(&steps)?))
        }
        "prove" => proof(&mut parser),
        "bench" => Ok(Task::Bench(parser.raw_args()?.filter(|argument| argument != "--").collect())),
        "lint" => nothing_more(&mut parser, Task::Lint),
        "list" => nothing_more(&mut parser, Task::List),
        "help" => nothing_more(&mut parser, Task::Help),
        _ => bail!("there is no command `{command}`"),
    }
}

fn choice(parser: &mut lexopt::Parser) -> Result<Choice> {
    let mut choice = Choice::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => choice.only.push(parser.value()?.string()?),
            Long("skip") => choice.skip.push(parser.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(choice)
}

fn proof(parser: &mut lexopt::Parser) -> Result<Task> {
    let (mut name, mut extent) = (None, prove::Extent::default());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("long") => extent.long = true,
            Long("users") => extent.users = Some(parser.value()?.parse()?),
            Value(value) if name.is_none() => name = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let known = prove::PROOFS.iter().map(|proof| proof.name).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) if extent.users.is_some() && name != prove::SCALE => {
            bail!("--users is for the proof `{}`, not for `{name}`", prove::SCALE)
        }
        Some(name) if prove::find(&name).is_some() => Ok(Task::Prove { name, extent }),
        Some(name) => bail!("there is no proof `{name}`; there are: {known}"),
        None => bail!("which proof? there are: {known}"),
    }
}

fn nothing_more(parser: &mut lexopt::Parser, task: Task) -> Result<Task> {
    match parser.next()? {
        None => Ok(task),
        Some(other) => Err(other.unexpected().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        parse(lexopt::Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn only_and_skip_choose_steps() {
        let Task::Test(choice) = parsed("test --only clippy --only fmt --skip fmt").unwrap() else {
            panic!("not a test run")
        };
        assert!(choice.takes("clippy"));
        assert!(!choice.takes("fmt") && !choice.takes("doc"));
        assert!(Choice::default().takes("doc"));
    }

    #[test]
    fn a_name_that_is_not_there_is_an_error_that_lists_what_is() {
        for line in ["test --only clipy", "test --skip clipy", "setup --only clipy"] {
            let message = parsed(line).unwrap_err().to_string();
            assert!(message.contains("`clipy`") && message.contains("clippy"), "{message}");
        }
        assert!(parsed("prove fuz").unwrap_err().to_string().contains("fuzz"));
        assert!(parsed("prove").is_err() && parsed("tset").is_err() && parsed("lint extra").is_err());
    }

    #[test]
    fn a_proof_may_be_long_and_benchmarks_take_the_rest() {
        let extent = |long, users| prove::Extent { long, users };
        let proof = |line| match parsed(line).unwrap() {
            Task::Prove { name, extent } => (name, extent),
            other => panic!("{other:?}"),
        };
        assert_eq!(proof("prove fuzz --long"), ("fuzz".into(), extent(true, None)));
        assert_eq!(proof("prove scale --users 5000"), ("scale".into(), extent(false, Some(5000))));
        assert!(parsed("prove fuzz --users 5").is_err() && parsed("prove scale --users many").is_err());
        assert_eq!(
            parsed("bench -- --quick dot").unwrap(),
            Task::Bench(vec!["--quick".into(), "dot".into()])
        );
    }
}
