//! Structs of settings, and the types that settings have.

use super::terms::{from_terms, to_terms};
use super::{Domain, Setting, Settings, TermsError, Value};
use sottovoce_protocol::{DisclosureMode, ModelSpec, ValueEncoding};
use std::ops::RangeInclusive;

/// A struct of settings, made by [`config!`](crate::config).
pub trait Config: Clone + Default + Send + Sync + 'static {
    /// The definitions, with the values of `self` as defaults.
    fn schema(&self) -> Vec<Setting>;

    /// From checked values; what they do not have keeps its default.
    fn read(settings: &Settings) -> Self;

    /// What devices need to know, as round terms carry it.
    fn to_terms(&self, model: &str) -> ModelSpec {
        to_terms(model, &self.schema())
    }

    /// From round terms, strictly, because they come from a server. What devices do not need keeps its default.
    ///
    /// # Errors
    /// If a setting is unknown, missing or outside what a device accepts.
    fn from_terms(spec: &ModelSpec) -> Result<Self, TermsError> {
        from_terms(spec, &Self::default().schema()).map(|settings| Self::read(&settings))
    }
}

/// A type that a setting can have.
pub trait SettingType: Clone {
    /// What bounds its values: a range for numbers, nothing for others.
    type Range;

    /// Earlier names of values, each with the name of today.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];

    /// The values it takes.
    fn domain(range: Self::Range) -> Domain;

    /// As a value of any type.
    fn to_value(&self) -> Value;

    /// Back from such a value; `None` if it is of another type.
    fn from_value(value: &Value) -> Option<Self>;
}

impl SettingType for usize {
    type Range = RangeInclusive<i64>;

    fn domain(range: Self::Range) -> Domain {
        Domain::Integer { low: *range.start(), high: *range.end(), log: false }
    }

    fn to_value(&self) -> Value {
        Value::Integer(*self as i64)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(value) => usize::try_from(*value).ok(),
            _ => None,
        }
    }
}

impl SettingType for f64 {
    type Range = RangeInclusive<f64>;

    fn domain(range: Self::Range) -> Domain {
        Domain::Real { low: *range.start(), high: *range.end(), log: false }
    }

    fn to_value(&self) -> Value {
        Value::Real(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(value) => Some(*value),
            Value::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }
}

impl SettingType for bool {
    type Range = ();

    fn domain((): ()) -> Domain {
        Domain::Switch
    }

    fn to_value(&self) -> Value {
        Value::Switch(*self)
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Switch(value) => Some(*value),
            _ => None,
        }
    }
}

impl SettingType for String {
    type Range = ();

    fn domain((): ()) -> Domain {
        Domain::Text
    }

    fn to_value(&self) -> Value {
        Value::Word(self.clone())
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(value.to_string())
    }
}

/// 0 stands for `None`.
impl<T: SettingType + Default + PartialEq> SettingType for Option<T> {
    type Range = T::Range;

    fn domain(range: T::Range) -> Domain {
        T::domain(range)
    }

    fn to_value(&self) -> Value {
        self.clone().unwrap_or_default().to_value()
    }

    fn from_value(value: &Value) -> Option<Self> {
        T::from_value(value).map(|value| Some(value).filter(|value| *value != T::default()))
    }
}

/// One of a few words, made by [`choices!`](crate::choices).
pub trait Choice: Copy + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// Their names, in the same order.
    const NAMES: &'static [&'static str];
    /// Earlier names, each with the name of today.
    const RENAMED: &'static [(&'static str, &'static str)];

    /// By name.
    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().zip(Self::ALL).find(|(known, _)| **known == name).map(|(_, choice)| *choice)
    }

    /// Its name.
    fn name(self) -> &'static str {
        let same = Self::ALL.iter().zip(Self::NAMES).find(|(choice, _)| **choice == self);
        same.map_or("", |(_, name)| *name)
    }
}

impl Choice for ValueEncoding {
    const ALL: &'static [Self] = &[Self::F32, Self::F16, Self::I8Row, Self::I8Table];
    const NAMES: &'static [&'static str] = &["f32", "f16", "i8-row", "i8-table"];
    const RENAMED: &'static [(&'static str, &'static str)] = &[];
}

impl Choice for DisclosureMode {
    const ALL: &'static [Self] = &[Self::Fixed, Self::PerRound];
    const NAMES: &'static [&'static str] = Self::NAMES;
    const RENAMED: &'static [(&'static str, &'static str)] = &[("kept", "fixed"), ("each-round", "per-round")];
}

impl<C: Choice> SettingType for C {
    type Range = ();

    const ALIASES: &'static [(&'static str, &'static str)] = C::RENAMED;

    fn domain((): ()) -> Domain {
        Domain::Choice(C::NAMES)
    }

    fn to_value(&self) -> Value {
        Value::Word(self.name().to_owned())
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Word(name) => C::named(name),
            _ => None,
        }
    }
}

impl Setting {
    /// One of this type; `help` as a documentation comment has it.
    pub fn of<T: SettingType>(key: &'static str, default: &T, range: T::Range, help: &'static str) -> Self {
        let setting = Self::new(key, default.to_value(), T::domain(range), help.trim());
        Self { value_aliases: T::ALIASES, ..setting }
    }
}

/// Defines an enum whose variants are the values of a setting, each with its name.
///
/// ```
/// use sottovoce_models::choices;
/// use sottovoce_models::settings::Choice;
/// choices! {
///     /// How near two items are.
///     #[derive(Default)]
///     pub enum Similarity {
///         /// By the angle between them.
///         #[default]
///         Cosine => "cosine",
///         /// By what they have in common.
///         Jaccard => "jaccard",
///     }
/// }
/// assert_eq!(Similarity::named("jaccard"), Some(Similarity::Jaccard));
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident => $text:literal $(was $old:literal)? ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {
            $( $(#[$variant_meta])* $variant ),+
        }

        impl $crate::settings::Choice for $name {
            const ALL: &'static [Self] = &[$( Self::$variant ),+];
            const NAMES: &'static [&'static str] = &[$( $text ),+];
            const RENAMED: &'static [(&'static str, &'static str)] = &[$( $(($old, $text),)? )+];
        }
    };
}

/// Defines a struct of settings. Each field is a setting of the same name:
///
/// ```text
/// /// Help, one sentence
/// field: Type = default, in range => [flags];
/// ```
///
/// `Type` is `usize`, `f64`, `bool`, `String`, an enum made by [`choices!`](crate::choices), or an `Option`
/// of a number, of which 0 is `None`. Numbers need a range. Flags: `log` (searches look on a logarithmic scale),
/// `device` (sent to devices in round terms), `device(range)` (the same, with what a device accepts), `derived`
/// (computed, users cannot set it), `was("name", ..)` (earlier names). `include field: Type = default;` lines at the
/// end take in other such structs. `struct Name in Group` puts all settings of its own into a
/// [`Group`](crate::settings::Group).
///
/// ```
/// use sottovoce_models::config;
/// use sottovoce_models::settings::{Config, Settings, Value};
/// config! {
///     /// Settings of a small model.
///     pub struct Small {
///         /// Length of vectors
///         pub factors: usize = 20, in 1..=512 => [log device];
///         /// Step of the devices
///         pub learning_rate: f64 = 0.05, in 1e-6..=1.0 => [log device];
///     }
/// }
/// let settings = Settings::check("small", &Small::default().schema(), [("factors", Value::parse("8"))])?;
/// assert_eq!(Small::read(&settings).factors, 8);
/// # Ok::<(), sottovoce_models::ModelError>(())
/// ```
#[macro_export]
macro_rules! config {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(in $about:ident)? {
            $(
                $(#[doc = $help:literal])+
                $field_vis:vis $field:ident : $type:ty = $default:expr $(, in $range:expr)? $(=> $flags:tt)? ;
            )*
            $( include $(#[doc = $group_help:literal])* $group_vis:vis $group:ident : $group_type:ty = $group_default:expr ; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $( $(#[doc = $help])+ $field_vis $field : $type, )*
            $( $(#[doc = $group_help])* $group_vis $group : $group_type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field : $default, )* $( $group : $group_default, )* }
            }
        }

        impl $crate::settings::Config for $name {
            fn schema(&self) -> Vec<$crate::settings::Setting> {
                #[allow(unused_mut)]
                let mut all = vec![
                    $( $crate::config!(@flags $type; [$($flags)?]
                        $crate::settings::Setting::of::<$type>(
                            stringify!($field),
                            &self.$field,
                            $crate::config!(@range $($range)?),
                            concat!($($help),+),
                        )
                    ) ),*
                ];
                $( all.iter_mut().for_each(|setting| setting.group = $crate::settings::Group::$about); )?
                $( all.extend($crate::settings::Config::schema(&self.$group)); )*
                all
            }

            #[allow(unused_variables)]
            fn read(settings: &$crate::settings::Settings) -> Self {
                let default = Self::default();
                Self {
                    $( $field: settings
                        .get(stringify!($field))
                        .and_then(<$type as $crate::settings::SettingType>::from_value)
                        .unwrap_or(default.$field), )*
                    $( $group: <$group_type as $crate::settings::Config>::read(settings), )*
                }
            }
        }
    };
    (@range) => { () };
    (@range $range:expr) => { $range };
    (@flags $type:ty; [] $setting:expr) => { $setting };
    (@flags $type:ty; [[$($flags:tt)*]] $setting:expr) => { $crate::config!(@flag $type; [$($flags)*] $setting) };
    (@flag $type:ty; [] $setting:expr) => { $setting };
    (@flag $type:ty; [log $($rest:tt)*] $setting:expr) => {
        $crate::config!(@flag $type; [$($rest)*] $setting.on_log_scale())
    };
    (@flag $type:ty; [device ($range:expr) $($rest:tt)*] $setting:expr) => {
        $crate::config!(@flag $type; [$($rest)*]
            $setting.sent_to_devices(<$type as $crate::settings::SettingType>::domain($range)))
    };
    (@flag $type:ty; [device $($rest:tt)*] $setting:expr) => {
        $crate::config!(@flag $type; [$($rest)*] $setting.sent_as_set())
    };
    (@flag $type:ty; [derived $($rest:tt)*] $setting:expr) => {
        $crate::config!(@flag $type; [$($rest)*] $setting.not_settable())
    };
    (@flag $type:ty; [was ($($old:literal),+) $($rest:tt)*] $setting:expr) => {
        $crate::config!(@flag $type; [$($rest)*] $setting.renamed_from(&[$($old),+]))
    };
}
