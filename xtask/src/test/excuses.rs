//! What a test may skip even on a CI machine, and why.

/// A skip that is no failure anywhere.
#[derive(Debug)]
pub struct Excuse {
    /// The test.
    pub test: &'static str,
    /// What is in the line it prints.
    pub says: &'static str,
    /// What keeps a machine with all packages and root from running it.
    pub why: &'static str,
}

/// All of them. Whatever a package or root can bring is not to be excused.
pub const EXCUSES: &[Excuse] = &[Excuse {
    test: "a_directory_marked_for_data_journalling",
    says: "chattr +j",
    why: "takes CAP_SYS_RESOURCE, which root in a container is without",
}];

/// Why that test may skip something.
pub fn reason(test: &str) -> Option<&'static str> {
    EXCUSES.iter().find(|e| e.test == test).map(|e| e.why)
}
