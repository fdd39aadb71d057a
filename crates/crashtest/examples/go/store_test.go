package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A store: a file with one number in each line. As root: `go test`.
func store(sync bool) Program {
	read := func(dir string) []string {
		text, _ := os.ReadFile(filepath.Join(dir, "numbers"))
		return strings.Fields(string(text))
	}
	return Program{
		Work: func(dir string, ack func(any) error) error {
			first := len(read(dir)) + 1
			file, err := os.OpenFile(filepath.Join(dir, "numbers"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
			if err != nil {
				return err
			}
			for n := first; ; n++ {
				if _, err := fmt.Fprintln(file, n); err != nil {
					return err
				}
				if sync {
					if err := file.Sync(); err != nil {
						return err
					}
				}
				if err := ack(n); err != nil {
					return err
				}
			}
		},
		Check: func(dir string, acked []string) error {
			present := map[string]bool{}
			for _, n := range read(dir) {
				present[n] = true
			}
			for _, n := range acked {
				if !present[n] {
					return fmt.Errorf("%s is missing", n)
				}
			}
			return nil
		},
	}
}

func TestMain(m *testing.M) {
	Main(m, map[string]Program{"synced": store(true), "unsynced": store(false)})
}

var volume = []string{"--filesystem", "ext4", "--cuts", "6", "--states", "20", "--no-explain"}

func TestAStoreThatSyncsSurvives(t *testing.T) {
	Run(t, "synced", volume...)
}

func TestAStoreThatDoesNotSyncLoses(t *testing.T) {
	status, report := Report(t, "unsynced", volume...)
	if status != 1 || !strings.Contains(report, "is missing") {
		t.Fatalf("exit status %d\n%s", status, report)
	}
}
