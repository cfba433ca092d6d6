//! How platforms stop a service, as they document it. Data; each fact tells where it is from.

use scenarios::Signal;

use super::settings;

/// Whom a signal is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The first process of the command.
    Top,
    /// Its process group, which background processes of an interactive shell and daemons are not in (`kill(2)`).
    Group,
    /// Every process of the service, whatever it was started by.
    All,
}

impl Target {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Target); 3] =
        [("top", Target::Top), ("group", Target::Group), ("all", Target::All)];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Target::Top => "top",
            Target::Group => "group",
            Target::All => "all",
        }
    }
}

/// Which seats the first process of a command has on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    /// PID 1 of its own PID namespace.
    Pid1,
    /// Any other process.
    Process,
    /// Either, depending on how it is set up.
    Both,
}

impl Seats {
    /// All of them, with their names.
    pub const NAMED: [(&'static str, Seats); 3] =
        [("pid1", Seats::Pid1), ("process", Seats::Process), ("both", Seats::Both)];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Seats::Pid1 => "pid1",
            Seats::Process => "process",
            Seats::Both => "both",
        }
    }
}

/// One more signal, some time after the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondSignal {
    /// Which one.
    pub signal: Signal,
    /// How long after the first, in milliseconds.
    pub after_ms: u64,
}

/// A value and where it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact<T> {
    /// The value.
    pub value: T,
    /// Where it is from.
    pub basis: Basis,
}

/// Where a value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The platform's own documentation.
    Documented {
        /// The title of the document.
        title: &'static str,
        /// The section in it.
        section: &'static str,
        /// Its address.
        url: &'static str,
    },
    /// The platform's documentation does not say it.
    Assumed {
        /// Why this value is taken.
        why: &'static str,
    },
}

/// How a platform stops a service, unless it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it is called on the command line.
    pub name: &'static str,
    /// The platform, and what of it.
    pub title: &'static str,
    /// Where the command's first process sits.
    pub seats: Fact<Seats>,
    /// The signal that asks the service to stop.
    pub signal: Fact<Signal>,
    /// Whom that signal is sent to.
    pub target: Fact<Target>,
    /// How long after the stop was asked for SIGKILL follows, in milliseconds; the time of the preStop hook is part of it.
    pub grace_ms: Fact<u64>,
    /// Whom SIGKILL is sent to.
    pub kill_target: Fact<Target>,
    /// For how long after the stop was asked for requests still come in, in milliseconds.
    pub routing_lag_ms: Fact<u64>,
    /// How long a preStop hook delays the signal, in milliseconds.
    pub pre_stop_ms: Fact<u64>,
    /// A second signal, where the platform may send one.
    pub second_signal: Option<Fact<SecondSignal>>,
    /// What changes the grace period there, as the end of a sentence.
    pub to_change_grace: &'static str,
}

impl Profile {
    /// The profile of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Each fact: the option that changes it, where there is one, or what it is; its value; where it is from.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String, Basis)> {
        let ms = |ms: u64| if ms == 0 { "none".to_owned() } else { settings::time(ms * 1000) };
        let mut facts = vec![
            ("--as", self.seats.value.name().to_owned(), self.seats.basis),
            ("--signal", self.signal.value.to_string(), self.signal.basis),
            ("--to", self.target.value.name().to_owned(), self.target.basis),
            ("--grace", ms(self.grace_ms.value), self.grace_ms.basis),
            ("SIGKILL to", self.kill_target.value.name().to_owned(), self.kill_target.basis),
            ("--routing-lag", ms(self.routing_lag_ms.value), self.routing_lag_ms.basis),
            ("--pre-stop", ms(self.pre_stop_ms.value), self.pre_stop_ms.basis),
        ];
        facts.extend(self.second_signal.map(|Fact { value, basis }| {
            ("--second-signal", format!("{}, --after {}", value.signal, ms(value.after_ms)), basis)
        }));
        facts
    }
}

/// A container's first process is PID 1 of a PID namespace unless it is told to share one.
const PID1: Fact<Seats> = Fact {
    value: Seats::Pid1,
    basis: Basis::Documented {
        title: "Open Container Initiative Runtime Specification",
        section: "Linux Namespaces",
        url: "https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#namespaces",
    },
};

/// Of PID 1 the rest need not be asked: `pid_namespaces(7)`.
const KILLS_THE_NAMESPACE: Basis = Basis::Documented {
    title: "pid_namespaces(7)",
    section: "The namespace init process",
    url: "https://man7.org/linux/man-pages/man7/pid_namespaces.7.html",
};

const CLOUD_RUN: Basis = Basis::Documented {
    title: "Graceful shutdowns on Cloud Run: Deep dive",
    section: "Graceful shutdowns",
    url: "https://cloud.google.com/blog/topics/developers-practitioners/graceful-shutdowns-cloud-run-deep-dive",
};

const KUBERNETES: Basis = Basis::Documented {
    title: "Pod Lifecycle",
    section: "Pod Termination Flow",
    url: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-flow",
};

const DOCKER: Basis = Basis::Documented {
    title: "docker container stop",
    section: "Description",
    url: "https://docs.docker.com/reference/cli/docker/container/stop/",
};

const SYSTEMD: Basis = Basis::Documented {
    title: "systemd.kill(5)",
    section: "Options: KillMode=, KillSignal=",
    url: "https://www.freedesktop.org/software/systemd/man/latest/systemd.kill.html",
};

const HEROKU: Basis = Basis::Documented {
    title: "Dyno Shutdown Behavior",
    section: "SIGTERM Signal",
    url: "https://devcenter.heroku.com/articles/dyno-shutdown-behavior",
};

const ECS: Basis = Basis::Documented {
    title: "Amazon ECS API Reference: StopTask",
    section: "Description",
    url: "https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_StopTask.html",
};

const NO_HOOK: Fact<u64> =
    Fact { value: 0, basis: Basis::Assumed { why: "its documentation on stopping knows no such hook" } };

const NO_ROUTER: Fact<u64> =
    Fact { value: 0, basis: Basis::Assumed { why: "it has no router of its own: what is in front of it is yours" } };

/// All profiles.
pub const PROFILES: [Profile; 6] = [
    Profile {
        name: "cloud-run",
        title: "Google Cloud Run, a service whose instance is shut down",
        seats: PID1,
        signal: Fact { value: Signal::TERM, basis: CLOUD_RUN },
        target: Fact {
            value: Target::Top,
            basis: Basis::Assumed {
                why: "the signal is said to go to the container; runtimes signal its first process",
            },
        },
        grace_ms: Fact { value: 10_000, basis: CLOUD_RUN },
        kill_target: Fact { value: Target::Top, basis: KILLS_THE_NAMESPACE },
        // Instances that are shut down are said to be mostly those that get no requests.
        routing_lag_ms: Fact { value: 0, basis: CLOUD_RUN },
        pre_stop_ms: NO_HOOK,
        second_signal: None,
        to_change_grace: "nothing",
    },
    Profile {
        name: "kubernetes",
        title: "Kubernetes, a pod without a preStop hook",
        seats: PID1,
        signal: Fact { value: Signal::TERM, basis: KUBERNETES },
        target: Fact { value: Target::Top, basis: KUBERNETES },
        grace_ms: Fact { value: 30_000, basis: KUBERNETES },
        kill_target: Fact { value: Target::All, basis: KUBERNETES },
        routing_lag_ms: Fact {
            value: 1_000,
            basis: Basis::Assumed {
                why: "endpoints are withdrawn at the time of the signal; how long routers take to follow is not documented",
            },
        },
        pre_stop_ms: Fact { value: 0, basis: KUBERNETES },
        second_signal: None,
        to_change_grace: "terminationGracePeriodSeconds of the pod, which includes the preStop hook",
    },
    Profile {
        name: "docker",
        title: "Docker Engine, docker stop",
        seats: PID1,
        signal: Fact { value: Signal::TERM, basis: DOCKER },
        target: Fact { value: Target::Top, basis: DOCKER },
        grace_ms: Fact { value: 10_000, basis: DOCKER },
        kill_target: Fact { value: Target::Top, basis: KILLS_THE_NAMESPACE },
        routing_lag_ms: NO_ROUTER,
        pre_stop_ms: NO_HOOK,
        second_signal: None,
        to_change_grace: "--stop-timeout of docker run, --timeout of docker stop, stop_grace_period in Compose",
    },
    Profile {
        name: "systemd",
        title: "systemd, a service unit with its defaults",
        seats: Fact {
            value: Seats::Process,
            basis: Basis::Assumed { why: "PID 1 is systemd itself, and units have no PID namespace by default" },
        },
        signal: Fact { value: Signal::TERM, basis: SYSTEMD },
        target: Fact { value: Target::All, basis: SYSTEMD },
        grace_ms: Fact {
            value: 90_000,
            basis: Basis::Documented {
                title: "systemd-system.conf(5)",
                section: "Options: DefaultTimeoutStopSec=",
                url: "https://www.freedesktop.org/software/systemd/man/latest/systemd-system.conf.html",
            },
        },
        kill_target: Fact { value: Target::All, basis: SYSTEMD },
        routing_lag_ms: NO_ROUTER,
        pre_stop_ms: Fact { value: 0, basis: Basis::Assumed { why: "ExecStop= is the place for one, and empty" } },
        second_signal: None,
        to_change_grace: "TimeoutStopSec= of the unit",
    },
    Profile {
        name: "heroku",
        title: "Heroku, a dyno that is restarted",
        seats: Fact {
            value: Seats::Process,
            basis: Basis::Assumed { why: "which process is PID 1 in a dyno is not documented" },
        },
        signal: Fact { value: Signal::TERM, basis: HEROKU },
        target: Fact { value: Target::All, basis: HEROKU },
        grace_ms: Fact { value: 30_000, basis: HEROKU },
        kill_target: Fact { value: Target::All, basis: HEROKU },
        routing_lag_ms: Fact {
            value: 0,
            basis: Basis::Assumed { why: "whether requests still come in after the signal is not documented" },
        },
        pre_stop_ms: NO_HOOK,
        // Processes may get SIGTERM several times; when is not said.
        second_signal: Some(Fact { value: SecondSignal { signal: Signal::TERM, after_ms: 1_000 }, basis: HEROKU }),
        to_change_grace: "nothing",
    },
    Profile {
        name: "ecs",
        title: "Amazon ECS, a task that is stopped",
        seats: PID1,
        signal: Fact { value: Signal::TERM, basis: ECS },
        target: Fact { value: Target::Top, basis: DOCKER },
        grace_ms: Fact { value: 30_000, basis: ECS },
        kill_target: Fact { value: Target::Top, basis: KILLS_THE_NAMESPACE },
        // Targets are deregistered in the state before the one in which the task is stopped.
        routing_lag_ms: Fact {
            value: 0,
            basis: Basis::Documented {
                title: "Amazon ECS task lifecycle",
                section: "Lifecycle states: DEACTIVATING",
                url: "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-lifecycle-explanation.html",
            },
        },
        pre_stop_ms: NO_HOOK,
        second_signal: None,
        to_change_grace: "stopTimeout of the container definition, at most 120 s on Fargate",
    },
];

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn basis(basis: Basis) -> String {
        match basis {
            Basis::Documented { title, section, url } => format!("[{title}]({url}), {section}"),
            Basis::Assumed { why } => format!("assumed: {why}"),
        }
    }

    /// `docs/profiles.md`, as the data has it.
    fn page() -> String {
        let mut text = "# Profiles\n\n`termdrill check --profile NAME` stops a server as these platforms document it. Every \
                        value can be changed by the\noption of that name; what a platform's documentation does not say is \
                        marked as assumed.\n"
            .to_owned();
        for profile in &PROFILES {
            let _ = write!(
                text,
                "\n## {}\n\n{}. Its grace period is changed by: {}.\n\n",
                profile.name, profile.title, profile.to_change_grace
            );
            text.push_str("| option | value | from |\n|---|---|---|\n");
            for (option, value, from) in profile.facts() {
                let option = if option.starts_with("--") { format!("`{option}`") } else { option.to_owned() };
                let value = value.replace("--after", "`--after`");
                let _ = writeln!(text, "| {option} | {value} | {} |", basis(from));
            }
        }
        text
    }

    #[test]
    fn the_page_says_what_the_data_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/profiles.md");
        let page = page();
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == page, "docs/profiles.md is not what the data says, which is:\n{page}");
    }

    #[test]
    fn names_are_unique_and_values_fit_together() {
        for profile in &PROFILES {
            assert_eq!(Profile::from_name(profile.name), Some(profile));
            assert!(profile.pre_stop_ms.value <= profile.grace_ms.value);
            assert!(profile.routing_lag_ms.value <= profile.grace_ms.value);
            for basis in [profile.seats.basis, profile.signal.basis, profile.target.basis, profile.grace_ms.basis] {
                if let Basis::Documented { url, section, .. } = basis {
                    assert!(url.starts_with("https://") && !section.is_empty(), "{}", profile.name);
                }
            }
        }
        assert_eq!(Profile::from_name("nowhere"), None);
    }
}
