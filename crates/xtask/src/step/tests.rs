use super::*;

fn shell(script: &str, limit_s: u64) -> Outcome {
    let step = Step {
        name: "sample",
        program: "sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        environment: vec![("SAMPLE", "5".to_owned())],
        limit: Duration::from_secs(limit_s),
    };
    step.run(Path::new("/")).expect("sh starts")
}

#[test]
fn summaries_of_both_runners_are_counted() {
    let libtest =
        Counts::of_line("test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.50s");
    assert_eq!(libtest, Counts { passed: 12, failed: 2, ignored: 1 });
    let pytest = Counts::of_line("==== 1 failed, 3 passed, 2 skipped, 1 error in 12.34s ====");
    assert_eq!(pytest, Counts { passed: 3, failed: 2, ignored: 2 });
    assert_eq!(Counts::of_line("7 passed in 65.01s (0:01:05)"), Counts { passed: 7, ..Counts::default() });
    for line in ["test a ... ok", "we have 3 passed exams", "", "3 passed in time"] {
        assert_eq!(Counts::of_line(line), Counts::default(), "{line}");
    }
}

#[test]
fn a_step_reports_counts_and_its_status() {
    let outcome = shell("echo \"test result: ok. $SAMPLE passed; 0 failed; 0 ignored\"", 60);
    assert_eq!(outcome, Outcome { counts: Counts { passed: 5, ..Counts::default() }, ..Outcome::default() });
    let outcome = shell("exit 3", 60);
    assert_eq!(outcome.failure.as_deref(), Some("sample: exit status: 3"));
}

#[test]
fn a_step_that_says_why_is_left_out_and_no_other() {
    let outcome = shell("echo left out: no disk; exit 77", 60);
    assert_eq!(outcome, Outcome { left_out: Some("sample: no disk".to_owned()), ..Outcome::default() });
    for script in ["exit 77", "echo left out: no disk; exit 1"] {
        let outcome = shell(script, 60);
        assert!(outcome.failure.is_some() && outcome.left_out.is_none(), "{script}: {outcome:?}");
    }
    // Words alone leave nothing out.
    assert_eq!(shell("echo left out: no disk", 60), Outcome::default());
}

#[test]
fn what_runners_say_of_failed_tests_is_kept() {
    let libtest = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nwhy\n\nfailures:\n    a\n\n\
                   test result: FAILED. 0 passed; 1 failed; 0 ignored\nrunning 1 test\ntest b ... ok\n\
                   test result: ok. 1 passed; 0 failed; 0 ignored\n";
    let pytest = "..F\n=== FAILURES ===\n___ c ___\nE  because\n=== 1 failed, 2 passed in 0.21s ===\nrest\n";
    let outcome = shell(&format!("printf '%s' '{libtest}{pytest}'; exit 1"), 60);
    assert_eq!(outcome.counts, Counts { passed: 3, failed: 2, ignored: 0 });
    let kept = outcome.failed_tests.join("\n");
    for line in ["---- a stdout ----", "why", "___ c ___", "E  because"] {
        assert!(kept.contains(line), "{line}: {kept}");
    }
    for line in ["running 1 test", "test b ... ok", "..F", "rest"] {
        assert!(!kept.contains(line), "{line}: {kept}");
    }
}

#[test]
fn a_step_past_its_limit_is_stopped_with_its_children() {
    let outcome = shell("sleep 600 & echo started; sleep 600", 0);
    assert_eq!(outcome.failure.as_deref(), Some("sample: stopped after its limit of 0 s"));
}
