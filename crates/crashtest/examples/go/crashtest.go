// Package crashtest runs `logforce crashtest` from Go tests. The test binary is started again as the workload and
// as the check.
package crashtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const roleVariable = "CRASHTEST_GO_ROLE"

// Program is a program under test and the check of what survived.
type Program struct {
	// Work continues with what it finds in dir, and calls ack after each operation that it holds durable.
	Work func(dir string, ack func(line any) error) error
	// Check returns an error if an acknowledged line is not in dir.
	Check func(dir string, acked []string) error
}

// Main replaces m.Run in TestMain.
func Main(m *testing.M, programs map[string]Program) {
	role, name, found := strings.Cut(os.Getenv(roleVariable), ":")
	if !found {
		os.Exit(m.Run())
	}
	if err := play(role, programs[name]); err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	os.Exit(0)
}

func play(role string, program Program) error {
	dir := os.Getenv("CRASHTEST_DIR")
	if role == "work" {
		return program.Work(dir, func(line any) error {
			_, err := fmt.Fprintln(os.Stdout, line)
			return err
		})
	}
	acked, err := os.ReadFile(os.Getenv("CRASHTEST_ACKED"))
	if err != nil {
		return err
	}
	return program.Check(dir, strings.Fields(string(acked)))
}

// Run tests the program with this name, and fails with the report.
func Run(t *testing.T, name string, options ...string) {
	t.Helper()
	status, report := Report(t, name, options...)
	if status != 0 {
		t.Fatalf("exit status %d\n%s", status, report)
	}
}

// Report tests the program with this name, and returns the exit status and the report. The test is skipped where the
// machine lacks something, unless CRASHTEST_REQUIRED is 1.
func Report(t *testing.T, name string, options ...string) (int, string) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := os.Getenv("LOGFORCE")
	if command == "" {
		command = "logforce"
	}
	// The check is a line for sh, in which a quote within quotes is '\''.
	quoted := "'" + strings.ReplaceAll(own, "'", `'\''`) + "'"
	arguments := append([]string{"crashtest"}, options...)
	arguments = append(arguments, "--check", roleVariable+"=check:"+name+" "+quoted+" {}", "--")
	arguments = append(arguments, "env", roleVariable+"=work:"+name, own, "{}")
	report, err := exec.Command(command, arguments...).CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0, string(report)
	case !errors.As(err, &ended):
		t.Fatal(err)
	case ended.ExitCode() == 77 && os.Getenv("CRASHTEST_REQUIRED") != "1":
		t.Skip(string(report))
	}
	return ended.ExitCode(), string(report)
}
